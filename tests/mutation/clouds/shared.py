"""Changes of what all clouds share, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

SHARED = (
    TextMutant(
        "D4",
        "what another pool's node left behind is ours",
        "cloud/leftovers.py",
        "return self.tags.get(POOL_TAG) == pool and bool(self.incarnation)",
        "return bool(self.incarnation)",
        "tests/contract/test_leftovers_contract.py::test_an_operator_s_own_things_are_never_pinned_found_or_released[gce]",
    ),
    TextMutant(
        "D4",
        "what a node that lives holds is a leftover",
        "cloud/leftovers.py",
        "            if thing.incarnation not in live\n",
        "",
        "tests/contract/test_leftovers_contract.py::test_nothing_of_a_node_that_lives_is_released[openstack]",
    ),
    TextMutant(
        "D4",
        "what an operator holds is released",
        "cloud/leftovers.py",
        "        if thing.held:\n",
        "        if False:\n",
        "tests/contract/test_leftovers_contract.py::test_an_operator_may_take_a_thing_out_of_our_hands[gce-on-hold]",
    ),
    TextMutant(
        "D4",
        "what lost our tags since is released",
        "cloud/leftovers.py",
        "        if leftover.tagged and not thing.is_ours(self.pool):\n",
        "        if False:\n",
        "tests/contract/test_leftovers_contract.py::test_an_operator_s_own_things_are_never_pinned_found_or_released[gce]",
    ),
    TextMutant(
        "D4",
        "what others use is released",
        "cloud/leftovers.py",
        "        if others := sorted(self.others(wire, leftover, thing, owners)):\n",
        "        if others := sorted(())[1:]:\n",
        "tests/contract/test_leftovers_contract.py::test_what_another_node_uses_by_now_stays[gce]",
    ),
    TextMutant(
        "D4",
        "what a node that lives holds is released",
        "cloud/leftovers.py",
        "        if states := sorted({self.state(node) for node in owners()} - {self.ENDED}):\n",
        "        if states := sorted(()):\n",
        "tests/contract/test_leftovers_contract.py::test_nothing_of_a_node_that_lives_is_released[gce]",
    ),
    TextMutant(
        "D4",
        "a thing whose node is unknown is nobody's",
        "cloud/leftovers.py",
        '            raise LeftAlone(f"the node of {thing.what} is unknown")\n',
        "            return []\n",
        "tests/contract/test_leftovers_contract.py::test_a_thing_of_nobody_known_is_left_alone[gce]",
    ),
    TextMutant(
        "D4",
        "a node that can't be read owns nothing",
        "cloud/leftovers.py",
        "            raise IncompleteListing(f\"find leftovers: node {node.id or '?'}: {error}\") from error\n",
        "            return str(error)[:0]\n",
        "tests/contract/test_leftovers_contract.py::test_a_node_whose_tags_can_t_be_read_might_own_anything[gce]",
    ),
    TextMutant(
        "D6",
        "a proxy's wait is lost",
        "cloud/transport.py",
        "            return Throttled(text, retry_after=self.wait_asked_for)\n",
        "            return Throttled(text)\n",
        "tests/cloud/test_misbehaving.py::test_each_call_passes_on_the_wait_that_it_is_asked_for_d6[gce]",
    ),
    TextMutant(
        "U6",
        "a server's error is a definite no",
        "cloud/refusal.py",
        "    return CloudError(text, retry_after=wait)\n",
        "    return BadRequest(text, retry_after=wait)\n",
        "tests/cloud/test_translate.py::test_every_exception_becomes_one_of_ours",
    ),
    TextMutant(
        "D6",
        "what an operation quotes of user data in base64 is told",
        "cloud/refusal.py",
        '_BASE64.sub("[data]", _QUERY.sub("?[query]", text))',
        '_QUERY.sub("?[query]", text)',
        "tests/cloud/azure/test_deeds.py::test_no_secret_is_in_an_error_that_repeats_what_was_sent",
    ),
)
