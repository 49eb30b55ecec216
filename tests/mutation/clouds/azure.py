"""Changes of the Azure adapter, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

AZURE = (
    TextMutant(
        "L2",
        "on Azure only the first page is read",
        "cloud/azure/wire.py",
        'lambda page: page.get("nextLink")',
        "lambda page: None",
        "tests/contract/test_cloud_contract.py::test_listing_twice_gives_the_same[azure]",
    ),
    TextMutant(
        "L2",
        "on Azure an answer without values is an empty list",
        "cloud/azure/wire.py",
        '            items = page.get("value")\n',
        '            items = page.get("value") or []\n',
        "tests/cloud/azure/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L2",
        "on Azure a machine that is listed twice is no sign of a broken listing",
        "cloud/azure/wire.py",
        "                if (known := _id_of(item)) in seen:\n",
        "                if (known := _id_of(item)) == path:\n",
        "tests/cloud/azure/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L2",
        "on Azure another subscription's or group's listing is taken for ours",
        "cloud/azure/wire.py",
        "                if known and not fits:\n",
        "                if False:\n",
        "tests/cloud/azure/test_listings.py::test_an_answer_that_may_lack_nodes_is_no_listing",
    ),
    TextMutant(
        "L5",
        "on Azure a link that leads elsewhere is followed",
        "cloud/azure/wire.py",
        '        if not same or (url.scheme == "https") is not here.secure:\n',
        "        if False:\n",
        "tests/cloud/azure/test_listings.py::test_a_link_that_leads_elsewhere_never_gets_our_token",
    ),
    TextMutant(
        "L5",
        "on Azure a subscription of another directory is told as the file's",
        "cloud/azure/adapter.py",
        '        if access.tenant and "." not in access.tenant and tenant != access.tenant.lower():\n',
        "        if False:\n",
        "tests/cloud/azure/test_listings.py::test_another_account_than_the_files_is_no_account_l5",
    ),
    TextMutant(
        "D3",
        "on Azure a group that is not there denies its nodes",
        "cloud/azure/errors.py",
        '    NOT_FOUND = "ResourceNotFound"\n',
        '    NOT_FOUND = "ResourceGroupNotFound"\n',
        "tests/cloud/azure/test_listings.py::test_only_azures_own_no_such_resource_is_no_such_node",
    ),
    TextMutant(
        "D3",
        "on Azure a node that is not found is gone at the first denial",
        "cloud/azure/adapter.py",
        "        if node is None:\n            return Outcome.UNKNOWN\n",
        "        if node is None:\n            return Outcome.GONE\n",
        "tests/cloud/test_misbehaving.py::"
        "test_a_node_that_vanished_is_unknown_and_not_gone_d3[azure]",
    ),
    TextMutant(
        "T4",
        "on Azure a deallocated node is gone",
        "cloud/azure/node.py",
        '"PowerState/deallocated": CloudState.STOPPED',
        '"PowerState/deallocated": CloudState.TERMINATED',
        "tests/cloud/azure/test_listings.py::test_each_of_azures_states_holds_its_slot",
    ),
    TextMutant(
        "T4",
        "on Azure a node that is being deleted is gone",
        "cloud/azure/node.py",
        "    DELETING: CloudState.STOPPING",
        "    DELETING: CloudState.TERMINATED",
        "tests/cloud/azure/test_listings.py::test_each_of_azures_states_holds_its_slot",
    ),
    TextMutant(
        "T4",
        "on Azure a node whose newest operation failed does not run",
        "cloud/azure/node.py",
        "(stage == FAILED and not runs)",
        "stage == FAILED",
        "tests/cloud/azure/test_listings.py::test_each_of_azures_states_holds_its_slot",
    ),
    TextMutant(
        "U9",
        "on Azure a repeated create changes the machine that the first one made",
        "cloud/azure/adapter.py",
        '                headers={"If-None-Match": "*"},\n',
        "",
        "tests/cloud/azure/test_deeds.py::"
        "test_the_create_call_itself_tags_all_that_it_makes_and_ends_it_with_the_node",
    ),
    TextMutant(
        "P1",
        "on Azure another order's machine of that name is taken for ours",
        "cloud/azure/adapter.py",
        "        if made is None or tags_in(made.tags) != tags:\n",
        "        if made is None:\n",
        "tests/cloud/azure/test_deeds.py::test_a_name_that_is_taken_by_another_order_is_a_refusal",
    ),
    TextMutant(
        "U6",
        "on Azure what a create without room left behind is told as ended",
        "cloud/azure/adapter.py",
        "        if left is None or failure.meaning is CloudError:\n",
        "        if True:\n",
        "tests/cloud/azure/test_misbehaving.py::"
        "test_a_create_without_room_that_went_wrong_leaves_nothing_that_is_not_listed_u6",
    ),
    TextMutant(
        "U6",
        "on Azure a machine whose create failed for unknown reasons is deleted",
        "cloud/azure/adapter.py",
        "        if left is None or failure.meaning is CloudError:\n",
        "        if left is None:\n",
        "tests/cloud/azure/test_deeds.py::"
        "test_a_create_that_failed_for_another_reason_is_told_and_its_node_left_to_the_listings",
    ),
    TextMutant(
        "U6",
        "on Azure a machine that runs is deleted since its operation failed",
        "cloud/azure/adapter.py",
        "        if left.state not in (FAILED, DELETING):\n",
        "        if False:\n",
        "tests/cloud/azure/test_deeds.py::"
        "test_a_machine_that_runs_is_not_taken_back_whatever_its_operation_says",
    ),
    TextMutant(
        "U6",
        "on Azure an operation that failed is a definite no, whatever its code",
        "cloud/azure/wire.py",
        'str(error.get("code") or operation.get("status")), message, 500)',
        'str(error.get("code") or operation.get("status")), message, 400)',
        "tests/cloud/azure/test_deeds.py::"
        "test_a_create_that_failed_for_another_reason_is_told_and_its_node_left_to_the_listings",
    ),
    TextMutant(
        "D6",
        "on Azure a throttled call is a refused one",
        "cloud/azure/errors.py",
        "        if self.status == 429:\n            return errors.Throttled\n",
        "",
        "tests/cloud/azure/test_deeds.py::test_each_of_azures_codes_has_its_meaning_d6_u6",
    ),
    TextMutant(
        "D6",
        "on Azure a quota that is used up is a wrong order",
        "cloud/azure/errors.py",
        'self.code == "OperationNotAllowed" and _QUOTA_IN_TEXT.search(self.message)',
        "False",
        "tests/cloud/azure/test_deeds.py::test_each_of_azures_codes_has_its_meaning_d6_u6",
    ),
    TextMutant(
        "D6",
        "on Azure the wait that the sign-in asks for is lost",
        "cloud/sign_in.py",
        "        raise answer.of_a_proxy(text)\n",
        "        raise CloudError(text)\n",
        "tests/cloud/azure/test_credentials.py::"
        "test_only_entra_ids_own_no_is_a_refusal_of_the_credentials",
    ),
    TextMutant(
        "D6",
        "an error of the metadata server is a refusal of the credentials",
        "cloud/sign_in.py",
        "    if answer.status == 429 or answer.status >= 500 or not (error or metadata):\n",
        "    if False:\n",
        "tests/cloud/gce/test_credentials.py::"
        "test_a_sign_in_that_fails_is_asked_once_and_is_no_refusal[role]",
    ),
    TextMutant(
        "D6",
        "a passing fault of a sign-in is a refusal of the credentials",
        "cloud/sign_in.py",
        "    if answer.status == 408 or str(error) in PASSING:\n",
        "    if answer.status == 408:\n",
        "tests/cloud/gce/test_credentials.py::"
        "test_a_sign_in_that_fails_is_asked_once_and_is_no_refusal[key]",
    ),
    TextMutant(
        "D4",
        "on Azure a thing that another machine uses is deleted",
        "cloud/azure/leftovers.py",
        "return {one for one in _machines_of(wire, thing) - own if _lives(wire, one)}",
        "return set()",
        "tests/cloud/azure/test_leftovers.py::test_what_another_machine_uses_by_now_stays",
    ),
)
