"""Changes of what places do, each with the test that must notice it."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

PLACES = (
    TextMutant(
        "D6",
        "a place that rests is asked again",
        "core/plan/availability.py",
        "if place not in tried and not _until(size.name, place, rests) > now",
        "if place not in tried",
        "tests/core/plan/test_places.py::"
        "test_boots_go_to_the_first_place_and_to_the_next_while_that_rests",
    ),
    TextMutant(
        "D6",
        "one boot order asks a place twice",
        "core/plan/availability.py",
        "if place not in tried and not",
        "if not",
        "tests/core/execute/explored/test_setup.py::test_the_next_place_is_tried_at_once_and_none_twice",
    ),
    TextMutant(
        "D6",
        "a size rests with the first of its places",
        "core/plan/availability.py",
        "    until = min((_until",
        "    until = max((_until",
        "tests/core/plan/test_places.py::test_a_size_rests_until_the_first_of_its_places_wakes",
    ),
    TextMutant(
        "D6",
        "the rest of one place makes the others forget theirs",
        "core/plan/availability.py",
        "size: {**rests.get(size, {}), place: until}",
        "size: {place: until}",
        "tests/actors/test_places.py::"
        "test_while_every_place_rests_the_boot_is_refused_and_then_tried_again",
    ),
    TextMutant(
        "D6",
        "nodes that no listing shows yet count in no place",
        "core/plan/availability.py",
        " + Counter(snapshot.places_to_be)",
        "",
        "tests/core/plan/test_places.py::"
        "test_spread_counts_listed_nodes_those_to_be_and_those_of_the_same_plan",
    ),
    TextMutant(
        "D6",
        "the boots of one plan all go to the emptiest place",
        "core/plan/orders.py",
        "            nodes[place] += 1\n",
        "            pass\n",
        "tests/core/plan/test_places.py::"
        "test_spread_counts_listed_nodes_those_to_be_and_those_of_the_same_plan",
    ),
    TextMutant(
        "D6",
        "a size is booted though all its places rest",
        "core/plan/demand.py",
        "            return Reason.PLACES_REST\n",
        "            pass\n",
        "tests/core/plan/test_places.py::test_while_every_place_rests_the_size_is_refused",
    ),
    TextMutant(
        "D6",
        "a full place rests the whole size",
        "core/plan/availability.py",
        "    if isinstance(error, errors.PlaceFull):\n",
        "    if False:\n",
        "tests/core/plan/test_places.py::"
        "test_only_a_full_place_rests_a_place_and_anything_else_the_size",
    ),
    TextMutant(
        "D6",
        "a set-up that is refused in one place ends",
        "core/execute/setup.py",
        "        case PlaceFull() if not state.tries:\n",
        "        case PlaceFull() if False:\n",
        "tests/core/execute/explored/test_setup.py::test_the_next_place_is_tried_at_once_and_none_twice",
    ),
    TextMutant(
        "U6",
        "a full place is followed by the next though an earlier create there may make a node",
        "core/execute/setup.py",
        "        case PlaceFull() if not state.tries:\n",
        "        case PlaceFull():\n",
        "tests/core/execute/explored/test_setup.py::test_with_several_places_it_makes_one_node_at_the_most_too",
    ),
    TextMutant(
        "U9",
        "every place gets the same client token",
        "core/plan/availability.py",
        "    if place is None:\n",
        "    if True:\n",
        "tests/core/plan/test_places.py::"
        "test_a_client_token_is_the_same_for_one_place_and_another_for_each_u9",
    ),
    TextMutant(
        "R4",
        "a restart forgets which places rest",
        "actors/daemon/recovery.py",
        "                loaded.of(kept.PLACE_RESTS),\n",
        "                {},\n",
        "tests/actors/test_places.py::test_a_rest_goes_on_after_a_restart_and_ends_in_its_time",
    ),
    TextMutant(
        "R4",
        "a wall clock that was set back lengthens the rest of a place",
        "core/execute/state.py",
        "min(until, longest)",
        "until",
        "tests/actors/test_places.py::"
        "test_no_rest_outlasts_a_new_one_however_our_wall_clock_stepped_over_a_restart",
    ),
    TextMutant(
        "D6",
        "the end of a place's rest is neither told nor kept",
        "core/execute/state.py",
        "            rests = availability.without_ended(limits.places, at)\n",
        "",
        "tests/actors/test_places.py::test_a_resting_place_is_not_asked_until_its_rest_is_over",
    ),
    TextMutant(
        "D6",
        "a pool without places writes their rests",
        "actors/daemon/context.py",
        "if value(after) is not value(before):",
        "if what:",
        "tests/actors/test_places.py::"
        "test_a_pool_without_places_writes_no_rests_even_into_a_new_journal",
    ),
    TextMutant(
        "D6",
        "any refusal in a place passes for a full place",
        "cloud/libcloud_base.py",
        "    if not full_there and not isinstance(error, errors.CapacityUnavailable):\n",
        "    if False:\n",
        "tests/cloud/ec2/test_places.py::test_any_other_refusal_is_no_places",
    ),
    TextMutant(
        "D6",
        "a subnet without addresses on EC2 ends all boots though another has some",
        "cloud/ec2/errors.py",
        "    FULL_THERE = FULL_SUBNET\n",
        "",
        "tests/cloud/ec2/test_places.py::test_a_place_that_takes_no_node_is_full_whatever_the_code",
    ),
    TextMutant(
        "U9",
        "on Azure a create in another zone is answered with what the refused one left",
        "cloud/azure/order.py",
        '[:OF_INCARNATION] + (zone or "")',
        "[:OF_INCARNATION]",
        "tests/cloud/azure/test_places.py::"
        "test_a_machine_without_room_is_told_as_refused_once_it_is_gone_and_the_next_has_another_name",
    ),
    TextMutant(
        "P2",
        "on Azure a machine that is still being deleted passes for gone",
        "cloud/azure/adapter.py",
        "        if left is None or failure.meaning is CloudError:\n",
        "        if left is None or failure.meaning is CloudError or left.state == DELETING:\n",
        "tests/cloud/azure/test_places.py::"
        "test_a_machine_without_room_is_told_as_refused_once_it_is_gone_and_the_next_has_another_name",
    ),
    TextMutant(
        "U6",
        "on OpenStack a server that fails for any reason is deleted and told as refused",
        "cloud/openstack/adapter.py",
        " or not is_no_room(server.fault)",
        "",
        "tests/cloud/openstack/test_places.py::"
        "test_a_server_that_boots_for_long_or_fails_otherwise_is_left_to_the_listings",
    ),
    TextMutant(
        "D6",
        "on OpenStack a zone without a host is not noticed",
        "cloud/openstack/adapter.py",
        "        return GoesOn(server, made.id)\n",
        "        return server\n",
        "tests/contract/test_answers_contract.py::"
        "test_a_full_zone_is_told_by_its_name_and_the_next_one_takes_the_node_d6[openstack]",
    ),
    TextMutant(
        "P2",
        "on OpenStack a server that is still being deleted passes for gone",
        "cloud/openstack/adapter.py",
        "        if server is None:\n            return Refusal",
        "        if server is None or server.state == DELETING:\n            return Refusal",
        "tests/cloud/openstack/test_places.py::"
        "test_a_server_without_a_host_is_told_as_refused_once_it_is_gone",
    ),
    TextMutant(
        "D6",
        "on Google every node is made in the zone of the file",
        "cloud/gce/adapter.py",
        "order.place or self.access.zone",
        "self.access.zone",
        "tests/contract/test_answers_contract.py::"
        "test_a_full_zone_is_told_by_its_name_and_the_next_one_takes_the_node_d6[gce]",
    ),
)
