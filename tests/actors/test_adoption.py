"""Hand-made nodes are adopted, where an operator names them, by the whole team (D11)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nodemanager.actors.messages import Beat, Ordered
from nodemanager.core.model.world import Tags
from nodemanager.core.operate.backlog import Item, ItemState, Order, StopBacklog, adoptable
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import BadRequest, CloudError, NotSent, RemoteError, Throttled
from tests.actors.rig import Rig
from tests.actors.test_backlog import apply, finish, marked, shown, skipped
from tests.cases import cases
from tests.fakes.script import fail, first

pytestmark = pytest.mark.slow


def named(rig: Rig) -> dict[str, Item]:
    """What may be adopted, by node id."""
    found = shown(rig)
    assert found.seen is not None
    return {one.item.id: one.item for one in adoptable(found.seen, found.settings)}


def order(rig: Rig, *items: Item) -> Order:
    found = shown(rig)
    return Order("eve", "pool", found.store or "", found.account or "", items)


@pytest.fixture
def beside(make_rig: Any) -> Rig:
    """Two nodes that somebody made by hand."""
    rig: Rig = make_rig()
    rig.cloud.add(age=1000.0, name="alices")
    rig.cloud.add(age=1000.0, name="bobs")
    rig.start()
    rig.turn(60)
    return rig


def tags_of(rig: Rig) -> dict[str, Tags]:
    return {machine.node.name: machine.node.tags for machine in rig.cloud.machines.values()}


def test_only_the_node_that_is_named_gets_our_tags_d11(beside: Rig) -> None:
    first, _ = named(beside).values()
    assert not isinstance(apply(beside, order(beside, first)), str)
    finish(beside)
    assert tags_of(beside) == {"alices": Tags("pool"), "bobs": Tags()}
    (line,) = beside.lines("node.adopted")
    assert (line["node"], line["pool"], line["by"]) == (first.id, "pool", "eve")
    beside.turn(60)
    assert beside.cloud.calls["adopt"] == 1


def test_a_node_that_changed_since_the_plan_keeps_its_tags(beside: Rig) -> None:
    first, second = named(beside).values()
    beside.cloud.change(first.id, name="carols")
    beside.cloud.vanish(second.id)
    beside.turn(60)
    apply(beside, order(beside, first, second))
    finish(beside)
    assert skipped(beside) == {first.id: "changed_since_plan", second.id: "node_absent"}
    assert beside.cloud.calls["adopt"] == 0


def test_a_pause_amid_adoptions_stops_them_and_a_resume_goes_on(make_rig: Any) -> None:
    """N11: those that no worker had begun were taken for set-ups, which ended the daemon."""
    rig: Rig = make_rig()
    for number in range(6):
        rig.cloud.add(age=1000.0, name=f"n{number}")
    rig.start()
    rig.turn(60)
    items = tuple(named(rig).values())
    paused, said = threading.Event(), []

    def pause() -> None:
        rig.system.daemon.tell(
            Ordered(Command(Verb.PAUSE, "ann", "upgrade"), lambda reply: said.append(reply))
        )
        rig.system.daemon.ask(Beat(paused.set), timeout=30)

    rig.cloud.on("ask", first(pause), *[first(lambda: paused.wait(30))] * 2)
    apply(rig, order(rig, *items))
    rig.turn(10)
    assert len(said) == 1
    rig.turn(300)
    assert rig.lines("node.adopted") == []

    rig.system.daemon.tell(Ordered(Command(Verb.RESUME, "ann"), said.append))
    rig.turn(600)
    assert len(rig.lines("node.adopted")) == 6


def test_a_change_that_only_the_last_look_sees_is_heeded(beside: Rig) -> None:
    first, _ = named(beside).values()
    beside.cloud.change(first.id, tags=Tags("other"))
    apply(beside, order(beside, first))
    finish(beside)
    assert beside.reasons("backlog.skipped") == ["other_pool"]
    assert beside.cloud.machines[first.id].node.tags == Tags("other")


@cases(
    "error",
    {
        "unknown": CloudError("timed out"),
        "throttled": Throttled("slow down", retry_after=20.0),
        "unsent": NotSent("it was not sent: this manager lacks the pool's lease"),
    },
)
def test_a_failure_that_may_pass_is_tried_again(beside: Rig, error: RemoteError) -> None:
    first, _ = named(beside).values()
    beside.cloud.on("adopt", fail(error))
    apply(beside, order(beside, first))
    assert beside.lines("node.adopt_failed")
    finish(beside)
    assert tags_of(beside)["alices"] == Tags("pool")
    assert [line["node"] for line in beside.lines("node.adopted")] == [first.id]


def test_a_refusal_of_the_cloud_is_the_end_of_it(beside: Rig) -> None:
    first, _ = named(beside).values()
    beside.cloud.on("adopt", fail(BadRequest("no tags here")))
    apply(beside, order(beside, first))
    finish(beside)
    assert beside.reasons("backlog.skipped") == ["adopt_refused"]
    assert tags_of(beside)["alices"] == Tags()


def test_without_the_lease_no_tag_is_written_l6(beside: Rig) -> None:
    node, _ = named(beside).values()
    beside.cloud.on("ask", first(lambda: setattr(beside, "lease", False)))
    apply(beside, order(beside, node))
    beside.turn(120)
    assert beside.cloud.calls["adopt"] == 0
    beside.lease = True
    finish(beside)
    assert tags_of(beside)["alices"] == Tags("pool")


def test_without_the_lease_no_plan_is_taken_l6(beside: Rig) -> None:
    """It would go into a journal that may be another manager's by now."""
    node, _ = named(beside).values()
    beside.lease = False
    assert "lacks the pool's lease" in str(apply(beside, order(beside, node)))
    beside.lease = True
    beside.turn(60)
    assert beside.cloud.calls["adopt"] == 0


def test_an_adoption_that_a_kill_cut_off_is_gone_on_with_r2(make_rig: Any) -> None:
    rig: Rig = make_rig()
    rig.cloud.add(age=1000.0, name="alices")
    rig.cloud.add(age=1000.0, name="bobs")
    rig.start()
    rig.turn(60)
    rig.cloud.on("adopt", first(lambda: setattr(rig, "lease", False)))
    apply(rig, order(rig, *named(rig).values()))
    assert len(rig.lines("node.adopted")) == 1
    rig.kill()
    rig.lease = True
    rig.start()
    finish(rig)
    assert set(tags_of(rig).values()) == {Tags("pool")}
    assert rig.cloud.calls["adopt"] == 2


def test_a_plan_that_is_ended_adopts_nothing_more(make_rig: Any) -> None:
    """It is ended during the first of two adoptions, of which one is under way at a time."""
    rig: Rig = make_rig(max_cleans_per_cycle=1)
    rig.cloud.add(age=1000.0, name="alices")
    rig.cloud.add(age=1000.0, name="bobs")
    rig.start()
    rig.turn(60)
    said: list[Any] = []
    stop = StopBacklog("eve", said.append)
    rig.cloud.on("adopt", first(lambda: rig.system.daemon.tell(stop)))
    apply(rig, order(rig, *named(rig).values()))
    rig.turn(300)
    assert len(said) == 1
    assert rig.cloud.calls["adopt"] == 1
    assert said == [2]
    assert marked(rig) == 0


def test_the_same_node_again_is_done_already(beside: Rig) -> None:
    first, _ = named(beside).values()
    apply(beside, order(beside, first))
    finish(beside)
    beside.turn(60)
    again = apply(beside, order(beside, first))
    assert not isinstance(again, str)
    assert [one.state for _, one in again] == [ItemState.DONE]
    assert beside.cloud.calls["adopt"] == 1
