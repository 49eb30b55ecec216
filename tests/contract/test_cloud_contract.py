"""What every cloud adapter promises (nodemanager/cloud/api.py), on each of them.

The first paragraph of a test's docstring is its row in doc/contract.rst: the operations, a colon,
and what they must do (tests/contract/table.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from libcloud.common.exceptions import BaseHTTPError, RateLimitReachedError
from libcloud.common.types import InvalidCredsError

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Leftover,
    LeftoverKind,
    Outcome,
    Size,
    Tags,
)
from nodemanager.errors import BadRequest, CloudError, IncompleteListing, Throttled, Unauthorized
from tests.cases import cases
from tests.cloud.orders import finished
from tests.contract.cloud_fixture import CloudFixture
from tests.contract.clouds import ADAPTERS, NEED, REAL
from tests.contract.lacks import Ability, Chooser
from tests.contract.models import CLOUD_MODELS
from tests.waiting import until

SMALL = Size("s.1", "s.1", cores=1, ram_mb=1000)
SECRET_URL = "http://127.0.0.1:9/arvados/v1/nodes/u/ping?ping_secret=verysecret"
POOL, OTHER_POOL = "mine", "another"


EVERY_CLOUD = {**ADAPTERS, **CLOUD_MODELS}


def case(cloud: str, *more: Any, id: str | None = None) -> Any:
    """A test on that cloud."""
    marks: Any = pytest.mark.server(cloud) if cloud in NEED else ()
    marks = pytest.mark.openstack if cloud == REAL else marks
    return pytest.param(cloud, *more, marks=marks, id=id or cloud)


adapters = pytest.mark.parametrize("cloud", [case(one) for one in ADAPTERS], indirect=True)
"""For what is between the cloud and our code: libcloud's answers and errors, threads, sizes."""

clouds = Chooser(EVERY_CLOUD, case)


@pytest.fixture(params=[case(one) for one in EVERY_CLOUD])
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CloudFixture]:
    with EVERY_CLOUD[request.param](tmp_path) as fixture:
        yield fixture


@pytest.fixture
def driver(cloud: CloudFixture) -> Iterator[CloudDriver]:
    opened = cloud.open(POOL)
    yield opened
    opened.close()


numbers = itertools.count(1)


def order(driver: CloudDriver, *, pool: str = POOL, token: str | None = None) -> CreateOrder:
    number = next(numbers)
    size = replace((driver.list_sizes() or (SMALL,))[0], name="a size's own name")
    return CreateOrder(
        name=f"compute{number}",
        size=size,
        tags=Tags(pool, f"zzzzz-7ekkf-{number:015}", f"{number:032x}", size.name),
        client_token=token or f"token-{number}",
        user_data=SECRET_URL,
    )


def is_gone(driver: CloudDriver, leftover: Leftover) -> bool:
    """Of things that take their time, and of a server that does."""
    outcome = driver.release(leftover)
    assert outcome in {Outcome.ACCEPTED, Outcome.GONE}
    return outcome is Outcome.GONE


def listed(driver: CloudDriver, node_id: str) -> CloudNode | None:
    listing = driver.list_nodes()
    assert listing.complete
    return next((node for node in listing.items if node.id == node_id), None)


def test_an_image_that_is_there_or_that_the_cloud_cant_tell_of_stops_no_boot(
    driver: CloudDriver,
) -> None:
    """check_image: An image that is there, or of which the cloud can't tell, stops no boot."""
    driver.check_image()


@clouds.needs(Ability.IMAGES)
def test_an_image_that_is_not_there_stops_the_boot_n32(cloud: CloudFixture) -> None:
    """check_image: An image that is not there stops the boot, and is named."""
    assert cloud.without_image is not None
    with pytest.raises(BadRequest, match="no-such"):
        cloud.without_image().check_image()


@clouds.needs(Ability.IMAGE_IDS)
def test_a_node_is_listed_with_the_image_that_new_nodes_have_d15(driver: CloudDriver) -> None:
    """image, list_nodes: A node is listed with the immutable id of the image that new nodes boot
    from, at the latest in the listing after the one that shows it first (D15)."""
    node = driver.create(order(driver))
    assert listed(driver, node.id) is not None
    wanted = driver.image()
    found = listed(driver, node.id)
    assert wanted is not None
    assert found is not None
    assert found.image == wanted


@clouds.needs(Ability.NEWER_IMAGES)
def test_a_newer_image_of_the_same_name_is_that_of_new_nodes_alone_d15(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """image, create, list_nodes: Once the configured name means another image, that one is told and
    booted from; older nodes keep theirs (D15)."""
    older = driver.create(order(driver))
    driver.list_nodes()
    former = driver.image()
    cloud.newer_image()
    wanted = driver.image()
    assert wanted not in (None, former)
    newer = driver.create(order(driver))
    driver.list_nodes()
    assert driver.image() == wanted
    images = {node.id: node.image for node in driver.list_nodes().items}
    assert (images[older.id], images[newer.id]) == (former, wanted)


def test_a_create_carries_all_tags_name_and_size_u5_u11(driver: CloudDriver) -> None:
    """create: The name, the size and all tags travel in the create call itself (U5, U11)."""
    asked = order(driver)
    node = driver.create(asked)
    assert (node.name, node.tags, node.size) == (
        asked.name,
        asked.tags,
        asked.size.instance_type,
    )
    assert node.managed
    assert not node.is_absent


def test_a_create_comes_to_an_end_that_finish_tells_d6(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """create, finish: A create that the cloud goes on with is asked for, also by another process,
    until its node is made (D6)."""
    node = finished(driver, order(driver))
    if node.pending:
        assert cloud.open(POOL).finish(node.pending, None) is None
    assert listed(driver, node.id) is not None


def test_a_created_node_is_listed_found_by_its_record_and_asked_for_alike(
    driver: CloudDriver,
) -> None:
    """list_nodes, find_by_record, ask: All three show a new node, with the same tags, name
    and size and with its launch time."""
    asked = order(driver)
    made = driver.create(asked)
    record = asked.tags.record
    assert record is not None
    views = [listed(driver, made.id), driver.ask(made.id), *driver.find_by_record(record)]
    assert [view.id for view in views if view] == [made.id] * 3
    for view in views:
        assert view is not None
        assert (view.tags, view.name, view.size) == (asked.tags, asked.name, made.size)
        assert view.problems == ()
        assert view.created_at is not None


@clouds.needs_each(*CloudState)
def test_a_node_is_seen_in_every_state(
    cloud: CloudFixture, driver: CloudDriver, need: CloudState
) -> None:
    """list_nodes, find_by_record, ask: All three show the state "{need}" (T4)."""
    asked = order(driver)
    made = driver.create(asked)
    cloud.states[need](made.id)
    record = asked.tags.record
    assert record is not None
    views = [listed(driver, made.id), driver.ask(made.id), *driver.find_by_record(record)]
    assert [view.state for view in views if view] == [need] * 3
    assert all(view.is_absent == (need is CloudState.TERMINATED) for view in views if view)


def test_an_unknown_id_and_an_unknown_record_are_answered_with_nothing(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """ask, find_by_record: An unknown id and an unknown record are answered with nothing."""
    assert driver.ask(cloud.unknown_id) is None
    assert driver.find_by_record("zzzzz-7ekkf-nosuchrecord000") == ()


def test_an_odd_id_never_finds_a_node(driver: CloudDriver) -> None:
    """ask: An id that no node can have finds none, whatever it contains."""
    driver.create(order(driver))
    for odd in ("../../etc", "", "ä", "a b", "x" * 500):
        found = None
        with suppress(CloudError):
            found = driver.ask(odd)
        assert found is None, odd


def test_destroy_ends_the_node_says_so_and_may_be_repeated(driver: CloudDriver) -> None:
    """destroy: It ends the node, says so, and may be repeated."""
    made = driver.create(order(driver))
    first = driver.destroy(made.id)
    assert first in {Outcome.GONE, Outcome.ACCEPTED}
    again = driver.destroy(made.id)
    assert again in {Outcome.GONE, Outcome.ACCEPTED, Outcome.UNKNOWN}
    if first is Outcome.GONE:
        for view in (listed(driver, made.id), driver.ask(made.id)):
            assert view is None or view.is_absent


@clouds.needs(Ability.CONFIRMED_ENDS)
def test_a_destroy_is_confirmed_by_the_cloud_itself_d3(driver: CloudDriver) -> None:
    """destroy: It says "gone" once the node has ended (D3)."""
    made = driver.create(order(driver))
    assert Outcome.GONE in {driver.destroy(made.id), driver.destroy(made.id)}


@clouds.lacks(Ability.CONFIRMED_ENDS)
def test_what_no_cloud_confirms_is_never_called_gone_d3(driver: CloudDriver) -> None:
    made = driver.create(order(driver))
    assert driver.destroy(made.id) is Outcome.ACCEPTED
    assert driver.destroy(made.id) in {Outcome.ACCEPTED, Outcome.UNKNOWN}
    seen = driver.ask(made.id)
    assert seen is None or not seen.is_absent


def test_destroying_what_is_not_there_is_unknown_not_gone(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """destroy: A node that is not there is "unknown", and not "gone" (D3)."""
    assert driver.destroy(cloud.unknown_id) is Outcome.UNKNOWN


def test_destroying_one_node_leaves_the_others(driver: CloudDriver) -> None:
    """destroy: The other nodes stay."""
    doomed, kept = driver.create(order(driver)), driver.create(order(driver))
    driver.destroy(doomed.id)
    survivor = driver.ask(kept.id)
    assert survivor is not None
    assert not survivor.is_absent


@clouds.needs(Ability.LEFTOVERS)
def test_what_a_node_pins_is_named_in_order_and_goes_after_it_d4(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """pins, find_leftovers, release: What outlives a node is named in the order of its release,
    is found without the node, and goes after it (D4)."""
    made, other = driver.create(order(driver)), driver.create(order(driver))
    wanted = cloud.pin(made)
    theirs = cloud.pin(other)
    assert wanted
    pinned = driver.pins(made.id)
    assert {leftover.key for leftover in pinned} == wanted
    assert [leftover.order for leftover in pinned] == sorted(one.order for one in pinned)
    assert {leftover.node_id for leftover in pinned} <= {made.id}
    assert driver.find_leftovers() == ()
    driver.destroy(made.id)
    assert {leftover.key for leftover in driver.find_leftovers()} <= wanted
    for leftover in pinned:
        assert driver.release(leftover) in {Outcome.ACCEPTED, Outcome.GONE}
        until("its end", partial(is_gone, driver, leftover))
        assert driver.release(leftover) is Outcome.GONE
    assert driver.find_leftovers() == ()
    assert {leftover.key for leftover in driver.pins(other.id)} == theirs


@clouds.lacks(Ability.LEFTOVERS)
def test_a_node_that_can_leave_nothing_behind_leaves_nothing(driver: CloudDriver) -> None:
    made = driver.create(order(driver))
    assert driver.pins(made.id) == ()
    driver.destroy(made.id)
    assert driver.find_leftovers() == ()


@clouds.needs(Ability.LEFTOVERS)
def test_another_pool_s_things_are_not_found(cloud: CloudFixture, driver: CloudDriver) -> None:
    """pins, find_leftovers: What belongs to another pool's nodes is not named."""
    other = cloud.open(OTHER_POOL)
    theirs = other.create(order(other, pool=OTHER_POOL))
    assert cloud.pin(theirs)
    assert driver.pins(theirs.id) == ()
    other.destroy(theirs.id)
    assert driver.find_leftovers() == ()


def test_a_node_that_is_not_there_pins_nothing(cloud: CloudFixture, driver: CloudDriver) -> None:
    """pins: A node that is not there holds nothing."""
    assert driver.pins(cloud.unknown_id) == ()


def test_releasing_what_is_not_there_is_gone(driver: CloudDriver) -> None:
    """release: What is not there is "gone"."""
    for kind, name in zip(LeftoverKind, ("eni", "vol", "eipalloc"), strict=True):
        assert driver.release(Leftover(kind, f"{name}-0123456789abcdef0", "")) is Outcome.GONE


def test_another_pools_node_is_seen_by_record_and_by_id_and_is_not_ours(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """ask, find_by_record: Another pool's node is shown, and is not ours (C11)."""
    other = cloud.open(OTHER_POOL)
    asked = order(other, pool=OTHER_POOL)
    theirs = other.create(asked)
    assert theirs.managed
    assert asked.tags.record is not None
    views = [driver.ask(theirs.id), *driver.find_by_record(asked.tags.record)]
    assert [(view.id, view.tags.pool) for view in views if view] == [(theirs.id, OTHER_POOL)] * 2
    seen = listed(driver, theirs.id)
    assert seen is None or not seen.managed


@cases(
    "tags",
    {"pool": Tags(POOL), "pool-and-record": Tags(POOL, "zzzzz-7ekkf-000000000000077", "f" * 32)},
)
def test_a_node_made_by_hand_is_ours_once_it_is_adopted_d11(
    cloud: CloudFixture, driver: CloudDriver, tags: Tags
) -> None:
    """adopt: A node that somebody made by hand is ours from then on, with the tags that were
    given (D11)."""
    node_id = cloud.by_hand()
    before = driver.ask(node_id)
    assert before is not None
    assert before.tags == Tags()
    driver.adopt(node_id, tags)
    driver.adopt(node_id, tags)
    after = driver.ask(node_id)
    assert after is not None
    assert after.tags == tags
    assert (after.name, after.created_at) == (before.name, before.created_at)
    seen = listed(driver, node_id)
    assert seen is not None
    assert seen.managed
    if tags.record is not None:
        assert [one.id for one in driver.find_by_record(tags.record)] == [node_id]


def test_what_is_not_there_can_not_be_adopted(cloud: CloudFixture, driver: CloudDriver) -> None:
    """adopt: A node that is not there is refused."""
    with pytest.raises(BadRequest) as caught:
        driver.adopt(cloud.unknown_id, Tags(POOL))
    assert caught.value.definite


@clouds.needs(Ability.CLIENT_TOKENS)
def test_the_same_client_token_twice_makes_one_node_u9(driver: CloudDriver) -> None:
    """create, find_by_record: An order that is sent twice makes one node (U9)."""
    assert driver.takes_client_tokens
    assert len(sent_twice(driver)) == 1


@clouds.lacks(Ability.CLIENT_TOKENS)
def test_without_client_tokens_an_order_sent_twice_makes_two_nodes_of_its_record(
    driver: CloudDriver,
) -> None:
    assert not driver.takes_client_tokens
    assert len(sent_twice(driver)) == 2


def sent_twice(driver: CloudDriver) -> set[str]:
    """What one order makes, which is what its record's tag finds."""
    asked = order(driver, token="the-same")
    assert asked.tags.record is not None
    made = {driver.create(asked).id, driver.create(asked).id}
    assert {node.id for node in driver.find_by_record(asked.tags.record)} == made
    return made


def test_listing_twice_gives_the_same(driver: CloudDriver) -> None:
    """list_nodes: It follows every page; two listings of the same nodes are the same, and have
    no node twice."""
    made = {driver.create(order(driver)).id for _ in range(5)}
    first, second = driver.list_nodes(), driver.list_nodes()
    assert made <= {node.id for node in first.items}
    assert sorted(node.id for node in first.items) == sorted(node.id for node in second.items)
    assert len({node.id for node in first.items}) == len(first.items)


@adapters
def test_sizes_are_sane_and_named_by_the_clouds_own_id(driver: CloudDriver) -> None:
    """list_sizes: Each size has the cloud's own name, once, and numbers that can be."""
    sizes = driver.list_sizes()
    assert sizes
    assert len({size.name for size in sizes}) == len(sizes)
    for size in sizes:
        assert size.name == size.instance_type != ""
        assert size.cores >= 1
        assert size.ram_mb >= 0
        assert size.scratch_mb >= 0
        assert size.price is None or (size.price >= 0 and math.isfinite(size.price))


def test_the_account_is_one_stable_line(cloud: CloudFixture, driver: CloudDriver) -> None:
    """account: It is one line, the same for each connection (L5)."""
    line = driver.account()
    assert line == cloud.open(OTHER_POOL).account()
    assert line
    assert "\n" not in line


@adapters
def test_none_in_a_listing_makes_it_incomplete_and_keeps_the_rest(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """list_nodes: A listing with an empty item is incomplete; the other nodes stay in it (L1)."""
    made = driver.create(order(driver))
    with cloud.listing_through(lambda nodes: [None, *nodes]):
        listing = driver.list_nodes()
    assert not listing.complete
    assert listing.problems
    assert made.id in {node.id for node in listing.items}


@adapters
def test_a_node_without_an_id_makes_the_listing_incomplete(
    cloud: CloudFixture, driver: CloudDriver
) -> None:
    """list_nodes: A listing with a node without an id is incomplete (L1)."""
    driver.create(order(driver))

    def without_ids(nodes: list[Any]) -> list[Any]:
        return [damaged(node, id=None) for node in nodes]

    with cloud.listing_through(without_ids):
        listing = driver.list_nodes()
    assert (listing.items, listing.complete) == ((), False)


def damaged(node: Any, **fields: Any) -> Any:
    """A copy of a libcloud node with those fields."""
    twin = object.__new__(type(node))
    twin.__dict__.update(node.__dict__)
    twin.__dict__.update(fields)
    return twin


@adapters
def test_an_answer_that_is_no_list_is_no_listing(cloud: CloudFixture, driver: CloudDriver) -> None:
    """list_nodes: An answer that is no list is an error, and never an empty listing (L1, L2)."""
    driver.create(order(driver))
    for answer in (None, "nodes", {"nodes": []}):
        with cloud.listing_through(lambda _, told=answer: told), pytest.raises(IncompleteListing):
            driver.list_nodes()


FAILURES = (
    (RateLimitReachedError(headers={"retry-after": "7"}), Throttled, True),
    (InvalidCredsError(), Unauthorized, True),
    (BaseHTTPError(503, "come later"), CloudError, False),
    (TimeoutError("too slow"), CloudError, False),
    (ConnectionResetError(), CloudError, False),
    (KeyError("surprise"), CloudError, False),
)
"""What libcloud raises, the error that it is, and whether that is definite."""


@adapters
def test_a_failed_listing_raises_an_error_of_ours(cloud: CloudFixture, driver: CloudDriver) -> None:
    """list_nodes: Each failure is an error of its kind, with the wait that the cloud asks for
    (D6)."""
    driver.create(order(driver))
    for raised, expected, definite in FAILURES:

        def fail(_nodes: Any, error: Exception = raised) -> Any:
            raise error

        with cloud.listing_through(fail), pytest.raises(CloudError) as caught:
            driver.list_nodes()
        assert (type(caught.value), caught.value.definite) == (expected, definite), raised
        assert caught.value.retry_after == (7.0 if expected is Throttled else None)


@adapters
def test_two_threads_at_once_do_not_disturb_each_other(driver: CloudDriver) -> None:
    """create, list_nodes, ask: Several threads at once get their own answers."""
    orders = [order(driver) for _ in range(6)]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(driver.create, orders))
        listings = list(threads.map(lambda _: driver.list_nodes(), range(4)))
        asked = list(threads.map(driver.ask, [node.id for node in made]))
    assert [node.tags for node in made] == [one.tags for one in orders]
    assert [node.tags for node in asked if node] == [one.tags for one in orders]
    for listing in listings:
        assert listing.complete
        assert {node.id for node in made} <= {node.id for node in listing.items}


def test_close_leaves_the_nodes_alive(cloud: CloudFixture) -> None:
    """close: The nodes live on."""
    first = cloud.open(POOL)
    made = first.create(order(first))
    first.close()
    again = cloud.open(POOL).ask(made.id)
    assert again is not None
    assert not again.is_absent


def test_an_order_does_not_show_its_user_data(driver: CloudDriver) -> None:
    """create: The ping secret is in no text that the order or the node shows."""
    asked = order(driver)
    assert "verysecret" not in repr(asked) + repr(driver.create(asked))
