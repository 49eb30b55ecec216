"""What goes wrong between us and a cloud, on each cloud, at each request of each operation.

The adapter is the real one, and so is the socket. The first paragraph of a docstring is a row of
doc/contract.rst (tests/contract/table.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, Outcome, Tags
from nodemanager.errors import CloudError, Throttled, Unauthorized
from tests.cloud.each_request import PATIENT_S, each_request
from tests.cloud.world import World
from tests.cloud.worlds import WORLDS
from tests.contract.lacks import Ability, Chooser
from tests.live.proxy import RETRY_S, Fate
from tests.waiting import until

pytestmark = pytest.mark.socket
IMPATIENT_S = 0.5
LATE_S = 4.0
"""An impatient call that took so long was not ended by its time-out."""


def case(cloud: str, *more: Any, id: str | None = None) -> Any:
    """A test on that cloud."""
    marks = pytest.mark.server("libvirt", "libvirtd") if cloud == "libvirt" else ()
    return pytest.param(cloud, *more, marks=marks, id=id or cloud)


clouds = Chooser(WORLDS, case)


@pytest.fixture(params=[case(one) for one in WORLDS])
def cloud(request: pytest.FixtureRequest) -> Iterator[World]:
    with WORLDS[request.param]() as world, closing(world.straight):
        yield world


def test_a_question_is_answered_wholly_or_not_at_all(cloud: World) -> None:
    """list_nodes, find_by_record, ask: When any of their requests is cut, or gets half an answer,
    another server's, an empty one or none, they give all that is there or an error (L1, L2)."""
    asked = cloud.order()
    record = asked.tags.record
    assert record is not None
    node = cloud.straight.create(asked)
    made = {node.id, *(cloud.straight.create(cloud.order()).id for _ in range(2))}
    failed = 0
    for how, listing in each_request(
        cloud, lambda driver: driver.list_nodes(), least=2, of_a_node=False, only_asks=True
    ):
        if isinstance(listing, CloudError):
            failed += 1
            assert isinstance(listing, Throttled) or not listing.definite, how
        else:
            assert not listing.complete or made <= {one.id for one in listing.items}, how
    # Each fate but one spoils each of a listing's two requests, at the least.
    assert failed >= 2 * (len(cloud.fates) - 1)
    for how, found in each_request(
        cloud, lambda driver: driver.find_by_record(record), of_a_node=False, only_asks=True
    ):
        assert isinstance(found, CloudError) or [one.id for one in found] == [node.id], how
    # Who has seen a node before may know where to ask for it.
    for how, seen in each_request(
        cloud, lambda driver: driver.ask(node.id), stranger=True, only_asks=True
    ):
        assert isinstance(seen, CloudError) or (seen is not None and seen.id == node.id), how


def test_an_account_is_told_truly_or_not_at_all_l5(cloud: World) -> None:
    """account: What goes wrong on the way makes no other account of the one that was told (L5)."""
    line = ""
    # A cloud whose sign-in tells the account is asked no more.
    for how, came in each_request(cloud, lambda driver: driver.account(), least=0, only_asks=True):
        line = line or str(came)
        assert isinstance(came, CloudError) or came == line, how


@clouds.needs(Ability.OTHER_ACCOUNTS)
def test_another_account_is_asked_nothing_until_it_was_told_l5(cloud: World) -> None:
    """account, list_nodes, find_by_record, ask, create, destroy: Where the same credentials or the
    same address lead to another account, every call is refused until that one was told (L5)."""
    with closing(cloud.open(PATIENT_S)) as driver:
        before = driver.account()
        node = cloud.straight.create(cloud.order())
        driver.list_nodes()
        with cloud.elsewhere():
            for name, call in calls(cloud, node.id).items():
                until(f"a refusal of {name}", partial(is_refused, driver, call))
            assert driver.account() != before
            assert driver.list_nodes().complete
    assert cloud.straight.ask(node.id) is not None


@clouds.needs(Ability.LEFTOVERS)
def test_what_is_left_behind_is_named_wholly_or_not_at_all(cloud: World) -> None:
    """pins, find_leftovers: When any of their requests gets half an answer, another server's or an
    empty one, they name all that outlives a node or give an error (D4)."""
    doomed, kept = (cloud.straight.create(cloud.order()) for _ in range(2))
    for node in (doomed, kept):
        cloud.pin(node)
    cloud.straight.destroy(doomed.id)
    pinned, left = cloud.straight.pins(kept.id), cloud.straight.find_leftovers()
    assert pinned
    assert left
    for how, found in each_request(cloud, lambda driver: driver.pins(kept.id), only_answers=True):
        assert isinstance(found, CloudError) or found == pinned, how
    for how, found in each_request(
        cloud, lambda driver: driver.find_leftovers(), of_a_node=False, only_answers=True
    ):
        assert isinstance(found, CloudError) or set(found) == set(left), how


def test_a_create_that_went_wrong_is_found_and_never_made_twice_u6_u9(cloud: World) -> None:
    """create, find_by_record: When any of its requests is cut or its answer is lost, spoilt or
    another server's, what was made is found by its record; a definite error means that nothing was
    made (U6). With client tokens, sending it again makes no second node (U9)."""
    asked = cloud.order()

    def create(driver: CloudDriver) -> CloudNode:
        nonlocal asked
        asked = cloud.order()
        return driver.create(asked)

    unclear = 0
    for how, came in each_request(cloud, create, anew=True):
        record = asked.tags.record
        assert record is not None
        found = cloud.straight.find_by_record(record)
        if not isinstance(came, CloudError):
            assert [one.id for one in found] == [came.id], how
        elif came.definite:
            assert found == (), how
        unclear += isinstance(came, CloudError) and bool(found)
        assert len(found) <= 1, how
        assert "hush" not in how
        if found and cloud.straight.takes_client_tokens:
            again = cloud.straight.create(asked)
            found = cloud.straight.find_by_record(record)
            assert [(one.id, one.tags) for one in found] == [(again.id, asked.tags)], how
        for one in found:
            cloud.straight.destroy(one.id)
            cloud.forget(one.id)
    assert unclear >= 3


def test_a_destroy_that_went_wrong_never_calls_a_live_node_gone_d3(cloud: World) -> None:
    """destroy: When any of its requests is cut or its answer is lost, spoilt or another server's,
    a node that lives is neither "gone" nor "unknown", and a repeated destroy ends it (D3)."""
    made = ""

    def destroy(driver: CloudDriver) -> Outcome:
        nonlocal made
        made = made or cloud.straight.create(cloud.order()).id
        return driver.destroy(made)

    for how, came in each_request(cloud, destroy):
        node = cloud.straight.ask(made)
        if node is not None and not node.is_absent:
            assert isinstance(came, CloudError) or came is Outcome.ACCEPTED, how
            if node.state is CloudState.RUNNING and isinstance(came, CloudError):
                # The next order ends it, or the one after that.
                continue
        cloud.straight.destroy(made)
        left = cloud.straight.ask(made)
        assert left is None or left.state in {"stopping", "terminated"}, how
        cloud.forget(made)
        made = ""


@clouds.needs(Ability.LEFTOVERS)
def test_a_release_that_went_wrong_never_calls_what_is_there_gone_d4(cloud: World) -> None:
    """release: Whatever goes wrong with one of its requests, a thing that is there is not "gone",
    and a repeated release ends it (D4)."""
    left: list[Leftover] = []
    ended: list[str] = []

    def release(driver: CloudDriver) -> Outcome:
        # What no fault let go is released again under the next one.
        if not left:
            node = cloud.straight.create(cloud.order())
            cloud.pin(node)
            cloud.straight.destroy(node.id)
            left[:] = cloud.straight.find_leftovers()
            ended.append(node.id)
        return driver.release(left[0])

    for how, came in each_request(cloud, release):
        if isinstance(came, CloudError) and not came.definite:
            # What may have been done is ordered again under the next fault.
            continue
        is_there = left[0].key in {one.key for one in cloud.straight.find_leftovers()}
        if isinstance(came, CloudError):
            assert isinstance(came, Throttled), how
            assert is_there, how
        else:
            assert not (is_there and came is Outcome.GONE), how
            until("the end of all that is left", partial(releases_all, cloud.straight))
            left.clear()
            cloud.forget(ended[-1])


def releases_all(driver: CloudDriver) -> bool:
    """Whether nothing is left. If not, each thing is released once more: one may have held
    another."""
    left = driver.find_leftovers()
    for one in left:
        driver.release(one)
    return left == ()


def test_an_adoption_that_went_wrong_sets_all_tags_or_none_d11(cloud: World) -> None:
    """adopt: Whatever goes wrong with one of its requests, the node has all of the tags or none,
    and none after a definite error (D11)."""
    tags = cloud.order().tags
    theirs = ""

    def adopt(driver: CloudDriver) -> str:
        nonlocal theirs
        theirs = theirs or cloud.by_hand()
        driver.adopt(theirs, tags)
        return "adopted"

    for how, came in each_request(cloud, adopt):
        node = cloud.straight.ask(theirs)
        assert node is not None, how
        assert node.tags in (tags, Tags()), how
        if came == "adopted":
            assert node.tags == tags, how
        elif isinstance(came, CloudError) and came.definite:
            assert node.tags == Tags(), how
        if node.tags == tags:
            cloud.straight.destroy(theirs)
            cloud.forget(theirs)
            theirs = ""


@clouds.needs(Ability.THROTTLES)
def test_each_call_passes_on_the_wait_that_it_is_asked_for_d6(cloud: World) -> None:
    """list_nodes, find_by_record, ask, create, destroy: "Too many requests" is told with the wait
    that was asked for, and nothing was done (D6)."""
    node = cloud.straight.create(cloud.order())
    with closing(cloud.open(PATIENT_S)) as driver, cloud.meeting(lambda _: Fate.THROTTLED):
        for call in calls(cloud, node.id).values():
            with pytest.raises(Throttled) as caught:
                call(driver)
            assert (caught.value.retry_after, caught.value.definite) == (RETRY_S, True)
    assert [one.id for one in cloud.straight.list_nodes().items] == [node.id]


def calls(world: World, node_id: str) -> dict[str, Callable[[CloudDriver], object]]:
    return {
        "list_nodes": lambda driver: driver.list_nodes(),
        "find_by_record": lambda driver: driver.find_by_record("zzzzz-7ekkf-000000000000001"),
        "ask": lambda driver: driver.ask(node_id),
        "create": lambda driver: driver.create(world.order()),
        "destroy": lambda driver: driver.destroy(node_id),
    }


@pytest.mark.slow
@pytest.mark.parametrize("fate", [Fate.HUNG, Fate.DRIPPED], ids=lambda fate: fate.name.lower())
def test_each_call_ends_within_its_time_out(cloud: World, fate: Fate) -> None:
    """list_nodes, find_by_record, ask, create, destroy: A call that gets no answer, or a byte of it
    now and then, ends with its time-out, says that it may have taken effect, and harms no later
    one."""
    node = cloud.straight.create(cloud.order())
    every = calls(cloud, node.id)
    with ExitStack() as stack:
        drivers = [stack.enter_context(closing(cloud.open(IMPATIENT_S))) for _ in every]
        for driver in drivers:
            driver.account()

        def ends(call: Callable[[CloudDriver], object], driver: CloudDriver) -> float:
            began = time.monotonic()
            with pytest.raises(CloudError) as caught:
                call(driver)
            assert not caught.value.definite
            return time.monotonic() - began

        with ThreadPoolExecutor(len(every)) as threads, cloud.meeting(lambda _: fate):
            took = dict(zip(every, threads.map(ends, every.values(), drivers), strict=True))
        for driver in drivers:
            until("a later answer", partial(answered, driver))
    assert {name: took_s for name, took_s in took.items() if took_s > LATE_S} == {}


def is_refused(driver: CloudDriver, call: Callable[[CloudDriver], object]) -> bool:
    """Whether that call is; one may find a connection that ends just then."""
    try:
        call(driver)
    except Unauthorized:
        return True
    except CloudError:
        return False
    pytest.fail("it was answered")


def answered(driver: CloudDriver) -> bool:
    """Whether a question is answered; one may find a connection that ends just then."""
    try:
        return driver.list_nodes().complete
    except CloudError:
        return False


@clouds.needs(Ability.SLOW_ENDS)
def test_a_destroy_that_is_accepted_and_never_done_leaves_a_live_node_d3(cloud: World) -> None:
    """destroy, ask, list_nodes: A node whose destroy was accepted and is never done stays listed,
    and is never "gone" (D3)."""
    node = cloud.straight.create(cloud.order())
    cloud.ends_nothing()
    with closing(cloud.open(PATIENT_S)) as driver:
        for _ in range(3):
            assert driver.destroy(node.id) is Outcome.ACCEPTED
            seen = driver.ask(node.id)
            assert seen is not None
            assert not seen.is_absent
            listing = driver.list_nodes()
            assert [one.id for one in listing.items if not one.is_absent] == [node.id]


def test_a_node_that_vanished_is_unknown_and_not_gone_d3(cloud: World) -> None:
    """list_nodes, ask, find_by_record, destroy, pins: A node that vanished is in no answer; its
    destroy is "unknown", and it holds nothing (D3)."""
    lost, kept = cloud.order(), cloud.order()
    node, other = cloud.straight.create(lost), cloud.straight.create(kept)
    record = lost.tags.record
    assert record is not None
    with closing(cloud.open(PATIENT_S)) as driver:
        before = {one.id for one in driver.list_nodes().items}
        assert before >= {node.id, other.id}
        cloud.vanish(node.id)
        listing = driver.list_nodes()
        assert listing.complete
        assert {one.id for one in listing.items} == before - {node.id}
        assert driver.ask(node.id) is None
        assert driver.find_by_record(record) == ()
        assert driver.pins(node.id) == ()
        assert driver.destroy(node.id) is Outcome.UNKNOWN
