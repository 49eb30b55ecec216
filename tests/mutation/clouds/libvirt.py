"""Changes of the libvirt adapter, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

LIBVIRT = (
    TextMutant(
        "L1",
        "on libvirt a domain that can't be read is left out of the listing",
        "cloud/libvirt/driver.py",
        "            return self.within(_read, domain)\n        except Exception as error:\n            if code_of(error) != NO_DOMAIN:\n                raise\n",
        "            return self.within(_read, domain)\n        except Exception:\n",
        "tests/cloud/libvirt/test_adapter.py::"
        "test_a_domain_that_ends_while_it_is_read_is_left_out_and_any_other_failure_ends_the_listing_l1",
    ),
    TextMutant(
        "D3",
        "on libvirt any error denies a domain",
        "cloud/libvirt/driver.py",
        "            return self.within(self.ex_live().lookupByUUIDString, node_id)\n        except Exception as error:\n            if code_of(error) != NO_DOMAIN:\n                raise\n",
        "            return self.within(self.ex_live().lookupByUUIDString, node_id)\n        except Exception:\n",
        "tests/cloud/test_misbehaving.py::"
        "test_a_question_is_answered_wholly_or_not_at_all[libvirt]",
    ),
    TextMutant(
        "D3",
        "on libvirt a destroy is done before the domain is gone",
        "cloud/libvirt/adapter.py",
        "return Outcome.GONE if driver.ex_domain(node_id) is None else Outcome.ACCEPTED",
        "return Outcome.GONE",
        "tests/cloud/libvirt/test_adapter.py::"
        "test_a_domain_that_is_still_there_after_its_end_is_not_gone_d3",
    ),
    TextMutant(
        "D3",
        "on libvirt a node that is not found is gone at the first denial",
        "cloud/libvirt/adapter.py",
        "        if domain is None:\n            return Outcome.UNKNOWN\n",
        "        if domain is None:\n            return Outcome.GONE\n",
        "tests/cloud/test_misbehaving.py::"
        "test_a_node_that_vanished_is_unknown_and_not_gone_d3[libvirt]",
    ),
    TextMutant(
        "T4",
        "on libvirt a paused node is gone",
        "cloud/libvirt/domain.py",
        '    "paused": CloudState.STOPPED',
        '    "paused": CloudState.TERMINATED',
        "tests/cloud/libvirt/test_adapter.py::test_a_paused_domain_is_stopped_and_not_gone_t4",
    ),
    TextMutant(
        "T4",
        "on libvirt a node that crashed is gone",
        "cloud/libvirt/domain.py",
        '"crashed": CloudState.STOPPED',
        '"crashed": CloudState.TERMINATED',
        "tests/cloud/libvirt/test_adapter.py::test_no_state_of_libvirt_means_that_a_domain_is_gone",
    ),
    TextMutant(
        "U9",
        "on libvirt a repeated create makes a second domain",
        "cloud/libvirt/adapter.py",
        'str(uuid5(OF_A_TOKEN, f"{self.pool}\\n{order.client_token}"))',
        'str(UUID(bytes=__import__("os").urandom(16)))',
        "tests/cloud/libvirt/test_adapter.py::"
        "test_a_create_that_hung_is_unclear_stays_listed_and_is_finished_by_its_repeat_u9",
    ),
    TextMutant(
        "U6",
        "on libvirt a create that may still act is taken back",
        "cloud/libvirt/adapter.py",
        "        if plan is None or is_lost(error):\n",
        "        if plan is None:\n",
        "tests/cloud/libvirt/test_adapter.py::"
        "test_a_create_that_hung_is_unclear_stays_listed_and_is_finished_by_its_repeat_u9",
    ),
    TextMutant(
        "U6",
        "on libvirt a domain that runs loses its volumes",
        "cloud/libvirt/adapter.py",
        "            if self.within(domain.isActive):\n                raise",
        "            if False:\n                raise",
        "tests/cloud/libvirt/test_adapter.py::test_a_start_that_took_effect_late_is_not_taken_back",
    ),
    TextMutant(
        "U6",
        "on libvirt what can't be taken back is told as never made",
        "cloud/libvirt/adapter.py",
        '            raise CloudError(f"{error}; and that could not be taken back: {another}") from error\n',
        "            return\n",
        "tests/cloud/libvirt/test_adapter.py::test_a_create_that_cant_be_taken_back_is_unclear",
    ),
    TextMutant(
        "U6",
        "on libvirt an unknown error is a definite no",
        "cloud/libvirt/errors.py",
        "return BadRequest(text) if undone or code in REFUSED else CloudError(text)",
        "return BadRequest(text)",
        "tests/cloud/libvirt/test_errors.py::test_a_code_means_one_thing_u6",
    ),
    TextMutant(
        "U6",
        "on libvirt a broken pipe is the daemon's word",
        "cloud/libvirt/errors.py",
        " or error.get_error_domain() in FROM_THE_WAY",
        "",
        "tests/cloud/libvirt/test_errors.py::test_a_code_means_one_thing_u6",
    ),
    TextMutant(
        "D6",
        "on libvirt a host without room is a wrong order",
        "cloud/libvirt/errors.py",
        "    if undone and (number in NO_ROOM or _NO_ROOM.search(message)):\n",
        "    if False:\n",
        "tests/cloud/libvirt/test_adapter.py::"
        "test_a_full_storage_pool_is_no_capacity_and_nothing_is_left_u6",
    ),
    TextMutant(
        "L5",
        "on libvirt a connection that leads elsewhere is used",
        "cloud/libvirt/driver.py",
        "            if self._known not in (None, self._leads_to):\n",
        "            if False:\n",
        "tests/cloud/test_misbehaving.py::"
        "test_another_account_is_asked_nothing_until_it_was_told_l5[libvirt]",
    ),
    TextMutant(
        "P1a",
        "on libvirt any text is a node's id",
        "cloud/libvirt/adapter.py",
        "        if str(UUID(node_id)) == node_id:\n",
        "        if node_id:\n",
        "tests/cloud/libvirt/test_adapter.py::test_an_id_that_is_no_uuid_is_malformed",
    ),
    TextMutant(
        "P3",
        "on libvirt metadata that contradicts itself is believed",
        "cloud/libvirt/domain.py",
        "        if len(found) > 1:\n",
        "        if False:\n",
        "tests/cloud/libvirt/test_adapter.py::"
        "test_a_domain_with_two_elements_of_ours_has_no_readable_tags_p3",
    ),
    TextMutant(
        "T3",
        "on libvirt another pool's volume is a leftover",
        "cloud/libvirt/volumes.py",
        "        things = [thing for thing in self.things(driver) if thing.is_ours(self.pool)]\n",
        "        things = self.things(driver)\n",
        "tests/cloud/libvirt/test_adapter.py::test_only_a_volume_named_by_us_is_ever_deleted",
    ),
    TextMutant(
        "D4",
        "on libvirt a volume that another domain uses is deleted",
        "cloud/libvirt/volumes.py",
        "if marks & {node.id, *_holdings(node)}]",
        "if marks & {node.id}]",
        "tests/cloud/libvirt/test_adapter.py::test_a_volume_that_another_domain_uses_is_left_alone",
    ),
    TextMutant(
        "D4",
        "on libvirt a volume of a domain that lives is a leftover",
        "cloud/libvirt/volumes.py",
        "for thing in things if held.isdisjoint(_marks(thing))",
        "for thing in things",
        "tests/cloud/libvirt/test_adapter.py::test_a_node_keeps_its_volumes_while_it_lives",
    ),
)
