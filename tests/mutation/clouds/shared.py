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
        "tests/cloud/gce/test_leftovers.py::test_an_operators_own_disk_is_never_named_or_released",
    ),
    TextMutant(
        "D4",
        "what a node that lives holds is a leftover",
        "cloud/leftovers.py",
        "            if thing.incarnation not in live\n",
        "",
        "tests/cloud/openstack/test_leftovers.py::"
        "test_a_thing_of_a_live_incarnation_stays_though_its_node_id_is_unknown",
    ),
    TextMutant(
        "D4",
        "what an operator holds is released",
        "cloud/leftovers.py",
        "        if thing.held:\n",
        "        if False:\n",
        "tests/cloud/gce/test_leftovers.py::test_a_disk_on_hold_is_left_alone",
    ),
    TextMutant(
        "D4",
        "what lost our tags since is released",
        "cloud/leftovers.py",
        "        if leftover.tagged and not thing.is_ours(self.pool):\n",
        "        if False:\n",
        "tests/cloud/gce/test_leftovers.py::test_an_operators_own_disk_is_never_named_or_released",
    ),
    TextMutant(
        "D4",
        "what others use is released",
        "cloud/leftovers.py",
        "        if others := sorted(self.others(wire, leftover, thing, owners)):\n",
        "        if others := sorted(())[1:]:\n",
        "tests/cloud/gce/test_leftovers.py::"
        "test_a_disk_that_another_instance_uses_now_is_left_alone",
    ),
    TextMutant(
        "D4",
        "what a node that lives holds is released",
        "cloud/leftovers.py",
        "        if states := sorted({self.state(node) for node in owners()} - {self.ENDED}):\n",
        "        if states := sorted(()):\n",
        "tests/cloud/gce/test_leftovers.py::test_the_disk_of_a_node_that_lives_is_left_alone",
    ),
    TextMutant(
        "D4",
        "a thing whose node is unknown is nobody's",
        "cloud/leftovers.py",
        '            raise LeftAlone(f"the node of {thing.what} is unknown")\n',
        "            return []\n",
        "tests/cloud/gce/test_leftovers.py::test_a_disk_whose_node_is_unknown_is_left_alone",
    ),
    TextMutant(
        "D4",
        "a node that can't be read owns nothing",
        "cloud/leftovers.py",
        "            raise IncompleteListing(f\"find leftovers: node {node.id or '?'}: {error}\") from error\n",
        "            return str(error)[:0]\n",
        "tests/cloud/gce/test_leftovers.py::"
        "test_a_node_whose_labels_cant_be_read_might_own_any_disk",
    ),
    TextMutant(
        "D6",
        "a proxy's wait is lost",
        "cloud/transport.py",
        "            return Throttled(text, retry_after=self.wait_asked_for)\n",
        "            return Throttled(text)\n",
        "tests/cloud/test_misbehaving.py::"
        "test_each_call_passes_on_the_wait_that_it_is_asked_for_d6[gce]",
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
