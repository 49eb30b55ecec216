"""Changes of the OpenStack adapter, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

OPENSTACK = (
    TextMutant(
        "L2",
        "on OpenStack only the first page is read",
        "cloud/openstack/wire.py",
        "            yield page\n            marker",
        "            yield page\n            return\n            marker",
        "tests/cloud/openstack/test_listings.py::"
        "test_every_page_is_followed_though_no_link_leads_to_it",
    ),
    TextMutant(
        "L2",
        "on OpenStack the servers of a cell that is down are left out",
        "cloud/openstack/wire.py",
        "        if unread:\n",
        "        if False:\n",
        "tests/cloud/openstack/test_listings.py::"
        "test_a_cell_that_is_down_makes_the_listing_incomplete",
    ),
    TextMutant(
        "L2",
        "on OpenStack nobody asks for a server that later pages lack",
        "cloud/openstack/wire.py",
        "                if self.server(node_id) is not None:\n",
        "                if False:\n",
        "tests/cloud/openstack/test_listings.py::"
        "test_beyond_one_page_a_server_that_is_not_listed_any_more_is_asked_for",
    ),
    TextMutant(
        "L2",
        "on OpenStack an answer without servers is an empty list",
        "cloud/openstack/wire.py",
        "found = self.get(service, path, params).get(items)\n",
        "found = self.get(service, path, params).get(items) or []\n",
        "tests/cloud/openstack/test_listings.py::test_an_odd_answer_is_never_an_empty_listing",
    ),
    TextMutant(
        "L2",
        "on OpenStack pages that lead back end the listing as if it were whole",
        "cloud/openstack/wire.py",
        '                raise IncompleteListing(f"GET {path}: the pages don\'t go on after {marker!r}")\n',
        "                return\n",
        "tests/contract/test_answers_contract.py::"
        "test_pages_that_come_again_are_no_listing[openstack]",
    ),
    TextMutant(
        "L2",
        "on OpenStack a marker that was deleted ends the listing as if it were whole",
        "cloud/openstack/wire.py",
        '                    raise IncompleteListing(f"GET {path}: {refusal}") from refusal\n',
        "                    return\n",
        "tests/cloud/openstack/test_listings.py::"
        "test_a_marker_that_was_deleted_meanwhile_makes_no_short_listing",
    ),
    TextMutant(
        "D3",
        "on OpenStack any 404 denies a server",
        "cloud/openstack/errors.py",
        '    NOT_FOUND = "itemNotFound"\n',
        "    is_not_found = property(lambda self: self.status == 404)\n",
        "tests/cloud/openstack/test_listings.py::"
        "test_only_nova_s_own_word_means_that_a_server_does_not_exist",
    ),
    TextMutant(
        "D3",
        "on OpenStack a proxy's 404 is the cloud's word",
        "cloud/openstack/errors.py",
        "    if is_json or answer.status == 401 or of_a_service:\n",
        "    if True:\n",
        "tests/contract/test_answers_contract.py::"
        "test_what_is_not_wholly_the_cloud_s_answer_is_no_listing[openstack]",
    ),
    TextMutant(
        "D3",
        "on OpenStack a node that is not found is gone at the first denial",
        "cloud/openstack/adapter.py",
        "                return Outcome.UNKNOWN\n",
        "                return Outcome.GONE\n",
        "tests/cloud/test_misbehaving.py::"
        "test_a_node_that_vanished_is_unknown_and_not_gone_d3[openstack]",
    ),
    TextMutant(
        "T4",
        "on OpenStack a paused node is gone",
        "cloud/openstack/node.py",
        '"PAUSED": CloudState.STOPPED',
        '"PAUSED": CloudState.TERMINATED',
        "tests/cloud/openstack/test_listings.py::test_only_a_deleted_server_is_absent_t4",
    ),
    TextMutant(
        "T4",
        "on OpenStack a node that can be restored is gone",
        "cloud/openstack/node.py",
        '"SOFT_DELETED": CloudState.STOPPING',
        '"SOFT_DELETED": CloudState.TERMINATED',
        "tests/cloud/openstack/test_listings.py::test_only_a_deleted_server_is_absent_t4",
    ),
    TextMutant(
        "T4",
        "on OpenStack a node in error is gone",
        "cloud/openstack/node.py",
        '"ERROR": CloudState.STOPPED',
        '"ERROR": CloudState.TERMINATED',
        "tests/cloud/openstack/test_listings.py::test_only_a_deleted_server_is_absent_t4",
    ),
    TextMutant(
        "U9",
        "on OpenStack a create is sent again with a new token",
        "cloud/openstack/wire.py",
        '        return judged(self._sent(service, "POST", path, data=body), f"POST {path}")\n',
        '        answer = self._sent(service, "POST", path, data=body)\n        if answer.status == 401:\n            answer = self._sent(service, "POST", path, data=body)\n        return judged(answer, f"POST {path}")\n',
        "tests/cloud/openstack/test_token.py::test_a_create_is_not_repeated_for_a_new_token",
    ),
    TextMutant(
        "U6",
        "on OpenStack a failed question says that nothing was made",
        "cloud/openstack/adapter.py",
        "        except Exception:\n            # It is made",
        "        except ValueError:\n            # It is made",
        "tests/cloud/openstack/test_deeds.py::"
        "test_a_create_that_was_answered_stays_created_whatever_the_next_question_gives",
    ),
    TextMutant(
        "U6",
        "on OpenStack a 500 is a definite no",
        "cloud/openstack/errors.py",
        "        return errors.CloudError if status == 300 else super().meaning\n",
        "        return errors.BadRequest if status >= 500 else super().meaning\n",
        "tests/cloud/openstack/test_deeds.py::test_a_refusal_says_what_to_do_next_d6_u6",
    ),
    TextMutant(
        "D6",
        "on OpenStack a quota that is used up is a missing right",
        "cloud/openstack/errors.py",
        "    if status in (403, 409, 413) and QUOTA.search(message):\n",
        "    if False:\n",
        "tests/cloud/openstack/test_deeds.py::test_a_refusal_says_what_to_do_next_d6_u6",
    ),
    TextMutant(
        "D6",
        "on OpenStack a cloud without a host for it is an error like any other",
        "cloud/openstack/errors.py",
        "    if CAPACITY.search(message):\n",
        "    if False:\n",
        "tests/cloud/openstack/test_deeds.py::test_a_refusal_says_what_to_do_next_d6_u6",
    ),
    TextMutant(
        "D6",
        "on OpenStack the wait that is asked for is lost",
        "cloud/openstack/errors.py",
        "return refusal_of(answer.status, answer.content, answer.wait_asked_for)",
        "return refusal_of(answer.status, answer.content, None)",
        "tests/cloud/openstack/test_listings.py::"
        "test_the_wait_that_the_cloud_asks_for_is_passed_on",
    ),
    TextMutant(
        "L5",
        "on OpenStack a token of another project is used",
        "cloud/openstack/token.py",
        "        if self._told_for not in (None, token.project):\n",
        "        if False:\n",
        "tests/cloud/openstack/test_token.py::"
        "test_a_token_for_another_project_is_not_used_until_the_account_is_told_l5",
    ),
    TextMutant(
        "D4",
        "on OpenStack what another server uses is deleted",
        "cloud/openstack/leftovers.py",
        "        return frozenset() if is_address else thing.holders - {leftover.node_id}\n",
        "        return frozenset()\n",
        "tests/cloud/openstack/test_leftovers.py::test_what_another_server_uses_by_now_stays",
    ),
    TextMutant(
        "D4",
        "on OpenStack a port that nova gave back is deleted",
        "cloud/openstack/leftovers.py",
        "        if not leftover.tagged and thing.holders != {leftover.node_id}:\n",
        "        if False:\n",
        "tests/cloud/openstack/test_leftovers.py::"
        "test_a_port_without_a_name_that_nova_gave_back_stays",
    ),
    TextMutant(
        "D4",
        "on OpenStack an operator's port is nova's",
        "cloud/openstack/leftovers.py",
        '        made_by_nova = bare and owner.startswith("compute:")\n',
        '        made_by_nova = owner.startswith("compute:")\n',
        "tests/cloud/openstack/test_leftovers.py::test_a_port_that_nova_did_not_make_is_not_ours",
    ),
    TextMutant(
        "D4",
        "on OpenStack what a foreign node holds is ours",
        "cloud/openstack/leftovers.py",
        "        if server is None or server.metadata.get(POOL_TAG) != self.pool:\n",
        "        if server is None:\n",
        "tests/cloud/openstack/test_leftovers.py::test_a_node_of_no_pool_pins_nothing",
    ),
)
