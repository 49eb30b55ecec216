"""One release on every way out: each end of a node frees what it held, though first tries fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Record
from nodemanager.errors import CloudError, StoreError
from tests.actors.conftest import MakeRig
from tests.actors.ends import SHUT_DOWN, WAYS, Way, enumerated
from tests.actors.rig import Rig
from tests.fakes import fail
from tests.fakes.script import Step, lose

pytestmark = pytest.mark.slow

WITHIN_S = 9000.0
"""What a node left behind that died unseen is looked for once an hour."""
OPTIONS: dict[str, object] = {
    "backlog": "clean",
    "min_nodes": 0,
    "max_nodes": 1,
    "poll_time": 60,
    "poll_stale_after": 300,
    "settle": 30,
    "node_stale_after": 900,
    "boot_fail_after": 300,
}


BY_STORE = {"read", "clean"}
LOSABLE = ("destroy", "clean")
"""The calls that can take effect although their answer is lost."""


def first_tries() -> Iterator[Any]:
    """Each way as it should go, and with all of its calls failing once.

    Of the ways with the same calls, one with each answer lost alone, too. That any step may fail
    alone is explored where the workflows are.
    """
    tried: set[tuple[str, ...]] = set()
    for way in WAYS:
        ways = {"as-it-should": ((), fail), "all-fail-once": (way.steps, fail)}
        if way.steps not in tried:
            ways |= {f"{step}-is-lost": ((step,), lose) for step in LOSABLE if step in way.steps}
            tried.add(way.steps)
        for name, (steps, how) in ways.items():
            yield pytest.param(way, steps, how, id=f"{way.reason.value}-{name}")


def test_each_way_out_that_core_has_is_among_them() -> None:
    """A shutdown or a clean for a new reason needs a scene here."""
    assert {way.reason for way in WAYS} == enumerated() - {Reason.AFTER_SHUTDOWN}


def is_over(rig: Rig, uuid: str | None, replaced: Record | None) -> bool:
    """Whether no node lives, nothing that it pinned is left, and its record holds nothing.

    Of a node that is `replaced`, which had that record: another one may live, on that record too.
    """
    row = None if uuid is None else rig.store.rows[uuid]
    if replaced is not None and row is not None:
        living = {machine.node.tags.incarnation for machine in rig.cloud.living()}
        is_free = row.incarnation != replaced.incarnation
        return is_free and replaced.incarnation not in living and not rig.cloud.things
    return not (
        rig.cloud.living()
        or rig.cloud.things
        or rig.store.used_slots()
        or (row is not None and row.holds_anything)
    )


@pytest.mark.parametrize(("way", "steps", "how"), list(first_tries()))
def test_a_node_that_ends_frees_record_slot_and_name_and_what_it_pinned(
    way: Way,
    steps: tuple[str, ...],
    how: Callable[[Exception], Step],
    make_rig: MakeRig,
    request: pytest.FixtureRequest,
) -> None:
    rig = make_rig(**{**OPTIONS, **dict(way.options)})
    if "dispatcher" in dict(way.options):
        rig.scheduler = request.getfixturevalue("scheduler")
    failed: list[str] = []
    for step in steps:
        error: Exception = (StoreError if step in BY_STORE else CloudError)("first try")
        scripted = replace(how(error), before=partial(failed.append, step))
        (rig.store if step in BY_STORE else rig.cloud).on(step, scripted)
    uuid = way.begin(rig)
    replaced = rig.store.rows[uuid] if way.replaced and uuid is not None else None
    end = rig.clock.boottime() + WITHIN_S
    while not is_over(rig, uuid, replaced) and rig.clock.boottime() < end:
        rig.turn(60)
    assert is_over(rig, uuid, replaced), [
        line for line in rig.out.fields if line["level"] != "info"
    ]
    assert sorted(failed) == sorted(steps)
    if not steps:
        ends = {*rig.reasons("node.shutdown_started"), *rig.reasons("record.cleaned")}
        assert ends == {one.value for one in (way.reason, way.cleaned) if one is not None}
        calls = {*rig.cloud.calls, *rig.store.calls} & set(SHUT_DOWN)
        assert calls == set(way.steps)
