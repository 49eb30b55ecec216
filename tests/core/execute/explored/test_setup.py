"""Setting up, whatever happens: never two nodes of one set-up, no create that may not be sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import setup
from nodemanager.core.execute.effects import (
    CheckImage,
    ClaimRecord,
    Created,
    CreateNode,
    Effect,
    FindByTag,
    FinishCreate,
    RenewClaim,
    Wait,
)
from nodemanager.core.execute.news import CreateRefused, Learned
from nodemanager.core.execute.setup import SetUp, SetUpOrder, order_setup
from nodemanager.core.execute.workflow import Ended, Failed, News, Seen, Step
from nodemanager.core.model.annotations import PARK, Mark
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import CREATE_WITHIN_S
from nodemanager.core.model.world import (
    Claim,
    CloudNode,
    CloudState,
    Guarantee,
    Listing,
    Record,
    StoreTime,
    Tags,
)
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.orders import BootOrder
from nodemanager.errors import CapacityUnavailable, NoSuchRecord, PlaceFull, Throttled
from tests.cases import cases
from tests.core.build import POOL, SMALL, World, world
from tests.core.execute.explored.explorer import NOW, Answer, Explored, Explorer, Scene

pytestmark = pytest.mark.slow

LIFE = "a-life"
LATE_S = CREATE_WITHIN_S + 10.0
BACK_S = -7200.0


@dataclass(frozen=True)
class Tiny:
    """The record that is claimed, the nodes that were made, and what the manager may do."""

    claimed: bool = False
    nodes: int = 0
    where: frozenset[str | None] = frozenset()
    """The places that have a node; only a cloud with tokens notices that a create is a repeat."""
    full: frozenset[str] = frozenset()
    """The places without room."""
    rests: frozenset[str] = frozenset()
    """The places that the manager knows to be full."""
    pinged: bool = False
    tokens: bool = True
    """The cloud makes one node of creates with one token."""
    lease: bool = True
    wanted: bool = True
    limit: str = ""
    """What another node has reached since the order, `max_nodes` or `price`; or a `hold` on the
    claimed record."""
    late: bool = False
    """So much time has passed that a claim of the beginning is too old to send a create on."""
    back: bool = False
    """Meanwhile the store's clock was set back (T1): by it the claim is from the future."""
    throttled: bool | None = None
    """The cloud asks for fewer calls: None before it does so, False once it takes them again."""
    renewed: bool = False
    stamp: float = 0.0
    """The claim's time as its worker wrote it, in seconds from the beginning."""
    slow: bool = False
    """The cloud goes on with a create after it has answered it."""
    begun: frozenset[tuple[str | None, str]] = frozenset()
    """The creates of a slow cloud: where, and whether each `goes on`, is `made` or `failed`."""
    listed: bool = False
    """The cloud lists a node that was made as running."""

    @property
    def too_old(self) -> bool:
        return self.late and not self.renewed


class TinySetUp:
    workflow = SetUp()
    asks = frozenset({"flight.expired"})

    def __init__(self, *, tokens: bool, places: tuple[str, ...] = (), slow: bool = False) -> None:
        self._tokens = tokens
        self._slow = slow
        self._places = places
        made: World = world(max_nodes=4)
        made.round()
        claim = Claim(POOL, "manager-1", 1, 0.0, "compute-a", LIFE, size=SMALL.name)
        size = replace(SMALL, places=places)
        boot = BootOrder(size, Reason.WANTED, "p", place=places[0] if places else None)
        self._snapshot = made.snapshot()
        self._settings = made.settings
        self._order = order_setup(boot, claim, "store-1", self._snapshot.now)
        assert self._snapshot.history.clock is not None
        self._at = self._snapshot.history.clock.now(self._snapshot.now)

    def begins(self) -> Iterable[tuple[SetUpOrder, Tiny]]:
        yield self._order, Tiny(tokens=self._tokens, slow=self._slow)

    def _record(self, world: Tiny) -> Record:
        claim = replace(self._order.claim, at=self._at + world.stamp)
        last = self._at if world.pinged else None
        return Record("r", "v", slot_number=1, hostname="compute1", claim=claim, last_ping_at=last)

    def _node(self) -> CloudNode:
        return CloudNode("i-1", "compute1", CloudState.RUNNING, tags=Tags(POOL, "r", LIFE))

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        now = self._snapshot.now + (LATE_S if world.late else 0.0)
        items = (self._record(world),) if world.claimed else ()
        # A listing begun later than anything here: what it shows is what is.
        listing = Listing(items, now + 1.0, now + 1.0, complete=True)
        clock = self._snapshot.history.clock
        if world.back and clock is not None:
            clock = clock.read(StoreTime(clock.now(now) + BACK_S, now, 0.0))
        history = replace(self._snapshot.history, records=listing, clock=clock)
        if world.listed:
            history = replace(history, present={"i-1": self._node()})
        holds = frozenset({"r"} if world.limit == "hold" else ())
        limits = Limits(
            places={SMALL.name: dict.fromkeys(world.rests, now + 300.0)},
            throttled_until=now + 1.0 if world.throttled else 0.0,
        )
        marks = {PARK: Mark("ann", 0.0)} if world.limit == "park" else {}
        snapshot = replace(
            self._snapshot,
            now=now,
            history=history,
            lease=world.lease,
            holds=holds,
            limits=limits,
            pool_marks=marks,
        )
        needless = {} if world.wanted else {SMALL.name: 1}
        return Seen(
            snapshot,
            self._settings,
            Guarantee.CAS,
            needless=needless,
            too_many=world.limit == "max_nodes",
            too_dear={SMALL.name: 1} if world.limit == "price" else {},
            repeats_creates=world.tokens,
        )

    def _stamped(self, world: Tiny, offset: float) -> Tiny:
        """A claim written now bears the time that the worker works out from `offset`."""
        assert self._snapshot.history.clock is not None
        stamp = LATE_S * world.late + offset - self._snapshot.history.clock.offset
        return changed(world, renewed=world.late, stamp=stamp)

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        match effect:
            case CheckImage() | CreateNode() if world.throttled:
                return Throttled("slow down"), world
            case CheckImage():
                return None, world
            case ClaimRecord(offset=offset):
                made = changed(self._stamped(world, offset), claimed=True)
                return self._record(made), made
            case RenewClaim() if not world.claimed:
                return NoSuchRecord("gone"), world
            case RenewClaim(offset=offset):
                fresh = self._stamped(world, offset)
                return self._record(fresh), fresh
            case CreateNode(place=place) if place in world.full and place not in world.where:
                return PlaceFull("no room", place=str(place)), world
            case CreateNode(place=place):
                where = world.where | {place}
                nodes = len(where) if world.tokens else world.nodes + 1
                if not world.slow:
                    return Created(self._node(), 1.0), changed(world, nodes=nodes, where=where)
                return self._create_begun(world, place)
            case FinishCreate(place=place):
                return self._end_of(world, place), world
            case FindByTag():
                return (self._node(),) if world.nodes else (), world
        raise AssertionError(f"a set-up asks for no {effect}")

    def _create_begun(self, world: Tiny, place: str | None) -> tuple[Created, Tiny]:
        """A repeated create begins nothing more: it has the same token, and the node's name."""
        pending = Created(replace(self._node(), state=CloudState.PENDING, pending="asked by"), 1.0)
        if any(where == place for where, _ in world.begun):
            return pending, world
        begun = world.begun | {(place, "goes on")}
        where = world.where | {place}
        return pending, changed(world, nodes=world.nodes + 1, where=where, begun=begun)

    def _end_of(self, world: Tiny, place: str | None) -> object:
        (how,) = [how for where, how in world.begun if where == place]
        if how == "goes on":
            return "asked by"
        if how == "made":
            return None
        full = CapacityUnavailable("no room")
        return Answer(full if place is None else PlaceFull("no room", place=place))

    def _ended(self, world: Tiny, how: str) -> Tiny | None:
        """The world once a create that goes on has ended so; None where none does."""
        going = [one for one in world.begun if one[1] == "goes on"]
        if not going:
            return None
        begun = world.begun - {going[0]} | {(going[0][0], how)}
        if how == "made":
            return changed(world, begun=begun)
        where = world.where - {going[0][0]}
        return changed(world, begun=begun, nodes=world.nodes - 1, where=where)

    def expires(self, state: Any) -> bool:
        """Whether nothing but its time-out may end it: nobody asks without the lease."""
        return isinstance(state, setup.Finishing)

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.lease:
            yield "lease lost", changed(world, lease=False)
        if world.wanted:
            yield "demand ends", changed(world, wanted=False)
        if not world.limit and world.wanted:
            for limit in ("max_nodes", "price", "park", *(("hold",) if world.claimed else ())):
                yield f"{limit} is reached", changed(world, limit=limit)
        if not world.late:
            yield "time passes", changed(world, late=True)
            yield "the store's clock is set back", changed(world, late=True, back=True)
        if world.throttled is None and not self._places:
            yield "the cloud asks for fewer calls", changed(world, throttled=True)
        if world.throttled:
            yield "the cloud takes calls again", changed(world, throttled=False)
        for place in self._places:
            yield f"{place} fills or empties", changed(world, full=world.full ^ {place})
        if (failed := self._ended(world, "failed")) is not None:
            yield "the create fails in the end", failed

    def learns(self, world: Tiny, one: Learned) -> Tiny:
        if isinstance(one, CreateRefused) and isinstance(one.error, PlaceFull):
            return changed(world, rests=world.rests | {one.error.place})
        return world

    def forgets(self, world: Tiny) -> Tiny:
        return changed(world, rests=frozenset())

    def progress(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.throttled:
            yield "the cloud takes calls again", changed(world, throttled=False)
        if world.claimed and not world.nodes:
            # C21: long after; a create that was sent by then takes effect never (A2).
            yield "the claim is freed", changed(world, claimed=False)
        if (made := self._ended(world, "made")) is not None:
            yield "the create succeeds in the end", made
        if not world.listed and any(how == "made" for _, how in world.begun):
            yield "the node is listed as running", changed(world, listed=True)
        if world.nodes and not world.pinged:
            yield "the node pings", changed(world, pinged=True)

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        if after.world.nodes > 1:
            return "two nodes of one set-up"
        sent = [one for one in after.out if one not in before.out]
        if any(isinstance(one, CreateNode | ClaimRecord) for one in sent):
            if not before.world.lease:
                return "sent without a lease (U10)"
            if not before.world.wanted:
                return "sent though nothing wants it any more (U10)"
            if before.world.limit:
                return f"sent though {before.world.limit} forbids it (U10)"
            if before.world.throttled:
                return "sent though the cloud asks for fewer calls (D6)"
        may_destroy = before.world.lease and before.world.limit != "hold"
        if any(isinstance(one, FinishCreate) for one in sent) and not may_destroy:
            return "asked for a create's end, which may destroy, where nothing may be (B2)"
        comes_to_nothing = {where for where, how in after.world.begun if how == "failed"}
        if after.ended == "created" and before.ended is None and not after.world.nodes:
            is_known = not after.says("flight.expired")
            if isinstance(before.running, setup.Finishing) and comes_to_nothing and is_known:
                return "a create that was refused in the end is told as created (D6)"
        for one in sent:
            if not isinstance(one, CreateNode):
                continue
            if after.world.too_old:
                return "a create on a claim that is too old (U5)"
            if one.place in before.world.rests and isinstance(before.running, setup.Claiming):
                return "a create where the manager knows that there is no room (D6)"
            if any(isinstance(late, CreateNode) for late in before.loose):
                other = {late.place for late in before.loose if isinstance(late, CreateNode)}
                if other != {one.place}:
                    return "a create elsewhere, while one may still take effect (U6)"
        if after.ended == "refused" and after.world.nodes and not before.world.nodes:
            return "a node of a create that was told as refused"
        # The store compares: a claim that is still on its way is refused after the release.
        comes = any(isinstance(late, CreateNode) for late in after.loose)
        if "CLEAN" in str(after.begun) and (after.world.nodes or comes):
            return "its claim is released, and its node is there or may come (U6)"
        return None


def explored(
    *, tokens: bool, places: tuple[str, ...] = (), slow: bool = False, faults: int = 3
) -> Explored:
    return Explorer(TinySetUp(tokens=tokens, places=places, slow=slow), faults).explore()


@pytest.mark.parametrize("tokens", [True, False], ids=["client-tokens", "none"])
def test_whatever_happens_a_set_up_makes_one_node_at_the_most(tokens: bool) -> None:
    found = explored(tokens=tokens)
    print(found)
    assert found.wrong == [], "\n".join(found.wrong)
    assert found.states | {"Finishing"} == {one.__name__ for one in SetUp.states}


@pytest.mark.parametrize("tokens", [True, False], ids=["client-tokens", "none"])
def test_with_several_places_it_makes_one_node_at_the_most_too(tokens: bool) -> None:
    """A lost answer in one place is followed by no create in another (U6, D6)."""
    found = explored(tokens=tokens, places=("a", "b"), faults=2)
    print(found)
    assert found.wrong == [], "\n".join(found.wrong)
    moved = ("Creating", "CreateNode failed", "Creating", ("CreateNode",), ())
    assert moved in found.moves


@pytest.mark.parametrize(
    ("tokens", "places"),
    [
        pytest.param(True, (), id="client-tokens-one-place"),
        pytest.param(False, ("a", "b"), id="none-two-places"),
        pytest.param(False, (), id="none-one-place", marks=pytest.mark.proof),
        pytest.param(True, ("a", "b"), id="client-tokens-two-places", marks=pytest.mark.proof),
    ],
)
def test_a_create_that_goes_on_makes_one_node_at_the_most_too(
    tokens: bool, places: tuple[str, ...]
) -> None:
    """Its refusal in the end is read, and no restart forgets it (D6)."""
    found = explored(tokens=tokens, places=places, slow=True, faults=2)
    print(found)
    assert found.wrong == [], "\n".join(found.wrong)
    assert "Finishing" in found.states
    if places:
        moved = ("Finishing", "FinishCreate answered", "Creating", ("CreateNode",), ())
        assert moved in found.moves


def _always_elsewhere(original: Any) -> Any:
    """Takes a create whose answer was lost for refused, and tries the next place."""

    def creating(state: Any, event: Any, seen: Any) -> Any:
        if isinstance(event, Failed) and not isinstance(event.error, PlaceFull):
            event = replace(event, error=PlaceFull("lost", place=str(state.order.place)))
        return original(state, event, seen)

    return creating


def test_the_exploration_notices_a_lost_answer_that_is_followed_by_another_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setup, "_creating", _always_elsewhere(setup._creating))
    found = explored(tokens=True, places=("a", "b"), faults=1)
    assert any("two nodes" in one or "elsewhere" in one for one in found.wrong)


def test_the_next_place_is_tried_at_once_and_none_twice() -> None:
    tiny = TinySetUp(tokens=True, places=("a", "b", "c"))
    seen, record = tiny.seen(Tiny(claimed=True)), tiny._record(Tiny(claimed=True))
    state: Any = setup.Creating(tiny._order, record)
    places = []
    for place in ("a", "b", "c"):
        assert state.order.place == place
        refused = Failed(
            CreateNode(record, tiny._order.claim, tiny._order.size, place),
            PlaceFull("no room", place=place),
        )
        step = tiny.workflow.on(state, refused, seen)
        state = step.state
        places += [one.place for one in step.effects if isinstance(one, CreateNode)]
        learned = [one for one in step.learn if isinstance(one, CreateRefused)]
        assert [one.error.place for one in learned] == [place]  # type: ignore[attr-defined]
    assert places == ["b", "c"]
    assert step.ended is not None
    assert (state, step.ended.name) == (None, "refused")
    assert [one.action.name for one in step.begin] == ["CLEAN"]


def _nothing(*given: Any) -> None:
    return None


def _repeats(order: Any, record: Any, tries: int, seen: Any) -> Any:
    return Step(setup.Waiting(order, record, tries), (Wait(1.0),))


@cases(
    ("guard", "without", "tokens"),
    {
        "u10-asked-again": ("confirm_setup", _nothing, True),
        "u9-repeated-without-tokens": ("_again", _repeats, False),
        "u5-an-old-claim": ("CREATE_WITHIN_S", 1e9, True),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any, tokens: bool
) -> None:
    monkeypatch.setattr(setup, guard, without)
    assert explored(tokens=tokens).wrong


def _as_created(original: Any) -> Any:
    """Does not read how a create ended, but takes it for made."""

    def not_created(state: Any, error: Any, seen: Any) -> Any:
        if isinstance(state, setup.Finishing):
            return setup.created_as(state.order, state.record, state.created)
        return original(state, error, seen)

    return not_created


@cases(
    ("guard", "without", "told"),
    {
        "b2-asked-where-it-may-destroy": ("_may_ask", lambda *given: True, "B2"),
        "d6-a-late-refusal": ("_not_created", _as_created(setup._not_created), "D6"),
    },
)
def test_the_exploration_notices_what_is_wrong_with_a_slow_create(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any, told: str
) -> None:
    monkeypatch.setattr(setup, guard, without)
    found = explored(tokens=False, slow=True, faults=1).wrong
    assert any(told in one for one in found)


def test_a_no_to_a_repeated_create_that_passes_for_the_last_word_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The create before it may have made a node (U6)."""
    original = setup._creating

    def forgets(state: Any, event: Any, seen: Any) -> Any:
        return original(replace(state, tries=0), event, seen)

    monkeypatch.setattr(setup, "_creating", forgets)
    assert explored(tokens=True).wrong


def test_a_create_in_doubt_is_judged_on_listings_that_began_after_it_r1_u5() -> None:
    tiny = TinySetUp(tokens=True)
    seen = tiny.seen(Tiny())
    listing = seen.snapshot.history.records
    assert listing is not None
    older = setup.Doubtful(tiny._order, None, since=listing.started_at - 1.0)
    newer = replace(older, since=listing.started_at)
    assert tiny.workflow.on(newer, News(), seen).state == newer
    step = tiny.workflow.on(older, News(), seen)
    assert (step.state, step.ended) == (None, Ended("released"))
    # The listing shows what was before the claim, though it began later: it tells nothing (C21).
    late = replace(seen, snapshot=replace(seen.snapshot, touched={"r": listing.started_at}))
    known = replace(older, record="r")
    assert tiny.workflow.on(known, News(), late).state == known
    assert tiny.workflow.on(known, News(), seen).state is None
    claimed = tiny.workflow.on(older, News(), tiny.seen(Tiny(claimed=True)))
    assert claimed.effects == (FindByTag("r"),)
    assert NOW
