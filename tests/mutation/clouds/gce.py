"""Changes of the Google adapter, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

GCE = (
    TextMutant(
        "L2",
        "on Google only the first page is read",
        "cloud/gce/wire.py",
        'lambda page: page.get("nextPageToken")',
        "lambda page: None",
        "tests/cloud/gce/test_listings.py::test_every_page_of_every_zone_is_followed",
    ),
    TextMutant(
        "L2",
        "on Google a warning leaves the listing complete",
        "cloud/gce/wire.py",
        "    if code != NOTHING_HERE:\n",
        "    if False:\n",
        "tests/cloud/gce/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L2",
        "on Google a zone's own warning leaves the listing complete",
        "cloud/gce/wire.py",
        "                _complete(held, scope)\n",
        "",
        "tests/cloud/gce/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L2",
        "on Google what can't be reached is left out",
        "cloud/gce/wire.py",
        '            if page.get("unreachables"):\n',
        "            if False:\n",
        "tests/cloud/gce/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L2",
        "on Google an answer without a zone is an empty listing",
        "cloud/gce/wire.py",
        "        if not zones:\n",
        "        if False:\n",
        "tests/cloud/gce/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L2",
        "on Google a listing of another kind is taken",
        "cloud/gce/wire.py",
        'content.get("kind") != kind',
        '"x" == kind',
        "tests/cloud/gce/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "D3",
        "on Google a project that we may not see denies its nodes",
        "cloud/gce/wire.py",
        '            self.call("zone", f"zones/{zone}")\n',
        "",
        "tests/cloud/gce/test_listings.py::"
        "test_a_project_that_is_not_there_is_no_evidence_about_a_node",
    ),
    TextMutant(
        "D3",
        "on Google any refusal denies a node",
        "cloud/gce/wire.py",
        "            if not refusal.is_not_found:\n                raise\n",
        "",
        "tests/contract/test_answers_contract.py::"
        "test_only_the_cloud_s_own_not_found_denies_a_node_d3[gce]",
    ),
    TextMutant(
        "D3",
        "on Google another instance's answer is the node's",
        "cloud/gce/wire.py",
        "        if found.id != node_id:\n",
        "        if False:\n",
        "tests/contract/test_answers_contract.py::"
        "test_an_answer_about_another_node_is_no_answer[gce]",
    ),
    TextMutant(
        "D3",
        "on Google a node that is not found is gone at the first denial",
        "cloud/gce/adapter.py",
        "        if node is None:\n            return Outcome.UNKNOWN\n        try:\n",
        "        if node is None:\n            return Outcome.GONE\n        try:\n",
        "tests/cloud/test_misbehaving.py::"
        "test_a_node_that_vanished_is_unknown_and_not_gone_d3[gce]",
    ),
    TextMutant(
        "T4",
        "on Google a preempted node is gone",
        "cloud/gce/instance.py",
        '"TERMINATED": CloudState.STOPPED',
        '"TERMINATED": CloudState.TERMINATED',
        "tests/cloud/gce/test_listings.py::test_each_of_googles_states_holds_its_slot",
    ),
    TextMutant(
        "T4",
        "on Google a suspended node is gone",
        "cloud/gce/instance.py",
        '"SUSPENDED": CloudState.STOPPED',
        '"SUSPENDED": CloudState.TERMINATED',
        "tests/cloud/gce/test_listings.py::test_each_of_googles_states_holds_its_slot",
    ),
    TextMutant(
        "U9",
        "on Google a repeated create has another request id",
        "cloud/gce/order.py",
        "str(uuid.uuid5(_TOKENS, client_token))",
        "str(uuid.uuid4())",
        "tests/cloud/gce/test_deeds.py::"
        "test_a_create_whose_answer_was_lost_is_repeated_and_makes_one_node_u9",
    ),
    TextMutant(
        "U9",
        "on Google the name of an earlier try is a refusal",
        "cloud/gce/adapter.py",
        "            if refusal.code in EXISTS:\n",
        "            if False:\n",
        "tests/contract/test_answers_contract.py::"
        "test_a_create_that_is_found_by_its_name_is_followed_to_its_end",
    ),
    TextMutant(
        "P1",
        "on Google another order's node of that name is taken for ours",
        "cloud/gce/adapter.py",
        "        if tags_in(made.labels) != tags:\n",
        "        if False:\n",
        "tests/cloud/gce/test_deeds.py::test_a_name_that_another_node_has_makes_no_node_of_ours",
    ),
    TextMutant(
        "U6",
        "on Google an operation that can't be asked for says that nothing was made",
        "cloud/gce/adapter.py",
        "                with suppress(Refusal, CloudError, OSError):\n                    begun",
        "                with suppress(OSError):\n                    begun",
        "tests/cloud/gce/test_deeds.py::"
        "test_an_insert_without_a_target_is_unclear_where_its_operation_cant_be_asked_for_u6",
    ),
    TextMutant(
        "D6",
        "on Google a create that goes on counts as made",
        "cloud/gce/adapter.py",
        "return None if is_done(operation) else pending",
        "return None if is_done(operation) else None",
        "tests/contract/test_answers_contract.py::"
        "test_a_create_is_answered_at_once_with_the_node_as_it_is_ordered[gce]",
    ),
    TextMutant(
        "U6",
        "on Google an internal error is a definite no",
        "cloud/gce/errors.py",
        "(UNDECIDED, errors.CloudError)",
        "(UNDECIDED, errors.BadRequest)",
        "tests/cloud/gce/test_deeds.py::test_googles_reason_decides_what_a_refused_create_means",
    ),
    TextMutant(
        "D6",
        "on Google a zone without room is a quota",
        "cloud/gce/errors.py",
        "(CAPACITY, errors.CapacityUnavailable)",
        "(CAPACITY, errors.QuotaExceeded)",
        "tests/cloud/gce/test_deeds.py::test_an_operation_that_fails_says_why",
    ),
    TextMutant(
        "D6",
        "on Google a throttled call is a missing right",
        "cloud/gce/errors.py",
        "(THROTTLED, errors.Throttled)",
        "(THROTTLED, errors.Unauthorized)",
        "tests/cloud/gce/test_deeds.py::test_googles_reason_decides_what_a_refused_create_means",
    ),
    TextMutant(
        "D6",
        "on Google the wait that is asked for is lost",
        "cloud/transport.py",
        "raise refusal(code, message, answer.status, answer.wait_asked_for)",
        "raise refusal(code, message, answer.status)",
        "tests/cloud/gce/test_deeds.py::test_googles_reason_decides_what_a_refused_create_means",
    ),
    TextMutant(
        "L5",
        "on Google another project is told as the file's",
        "cloud/gce/adapter.py",
        '        if self.access.project not in (project.get("name"), number) or not number:\n',
        "        if False:\n",
        "tests/cloud/gce/test_listings.py::test_another_project_than_the_files_is_no_account_l5",
    ),
    TextMutant(
        "D4",
        "on Google a disk that goes with its node is a leftover",
        "cloud/gce/leftovers.py",
        'if path is not None and attached.get("autoDelete") is not True:',
        "if path is not None:",
        "tests/contract/test_cloud_contract.py::"
        "test_what_a_node_pins_is_named_in_order_and_goes_after_it_d4[gce]",
    ),
    TextMutant(
        "D4",
        "on Google a disk that another instance uses is deleted",
        "cloud/gce/leftovers.py",
        "            if other is not None and other.id not in {node.id for node in owners()}:\n",
        "            if False:\n",
        "tests/contract/test_leftovers_contract.py::test_what_another_node_uses_by_now_stays[gce]",
    ),
)
