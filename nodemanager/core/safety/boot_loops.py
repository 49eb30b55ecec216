"""Boot loops: if boots in a row come to nothing, their size rests, and later all sizes (B5).

A node has failed to boot if it never pings, or never is up in its scheduler, where there is one. So
has one that the cloud ended or stopped before that (`observe.boots`, `observe.ended`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import Sizes, size_name
from nodemanager.core.model.streaks import POOL_LOOP, Loops, Streak
from nodemanager.core.model.world import CloudNode, Record, Size, life_key
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.ended import EndedNode, is_booting, seen_ended
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Snapshot

SIZE_LOOP = 5
"""A size rests after this many of its boots in a row came to nothing (B5)."""


def spent_on(size: Size | None, age_s: float | None, boot_fail_after: float) -> float:
    """The cost of a failed boot: 0 without a price, that of boot_fail_after without an age."""
    if size is None:
        return 0.0
    lived_s = boot_fail_after if age_s is None else max(0.0, age_s)
    return (size.price or 0.0) * lived_s / 3600.0


def after_failure(
    loops: Loops, size: str | None, spent: float, at: float, boot_fail_after: float
) -> Loops:
    """The loops after one more boot came to nothing; it does not lengthen a rest under way."""
    sizes = dict(loops.sizes)
    if size is not None:
        streak = sizes.get(size, Streak()).failed_again(spent)
        if streak.failed >= SIZE_LOOP and at >= streak.until:
            streak = streak.rested(at, boot_fail_after)
        sizes[size] = streak
    pool = loops.pool.failed_again(spent)
    if pool.failed == POOL_LOOP:
        pool = pool.rested(at, boot_fail_after)
    return replace(loops, sizes=sizes, pool=pool)


def after_end(
    loops: Loops,
    node: CloudNode | None,
    size_name: str | None,
    wall: MeasuredClock,
    at: float,
    settings: Settings,
    *,
    life: str | None = None,
) -> Loops:
    """The loops after that node's boot came to nothing: it was given up, ended, or vanished.

    `node` is what the cloud still shows of it. `life` is its record's life, by key, where the
    record still has it: it is counted once, also if a late list shows its node again.
    """
    if life is not None and life in loops.counted:
        return loops
    boot_fail_after, age_s = settings.boot_fail_after, None
    if node is not None and node.created_at is not None:
        age_s = wall.age(node.created_at, at)
    size = Sizes(settings.sizes).named(size_name)
    name = size_name if size is None else size.name
    spent = spent_on(size, age_s, boot_fail_after)
    after = after_failure(loops, name, spent, at, boot_fail_after)
    return after if life is None else replace(after, counted=after.counted | {life})


def counted(loops: Loops, life: str) -> Loops:
    """The loops that know the life's end: we ended it, or it is logged as lost."""
    return replace(loops, counted=loops.counted | {life})


def after_probe(loops: Loops, at: float, boot_fail_after: float) -> Loops:
    """The loops after a boot was sent: while probing, the next waits twice as long (B5)."""
    if not loops.probing:
        return loops
    return replace(loops, pool=loops.pool.rested(at, boot_fail_after))


def after_boot(loops: Loops, size: str | None) -> Loops:
    """The loops after a boot came to something: its size's streak and that of all sizes end."""
    sizes = {name: streak for name, streak in loops.sizes.items() if name != size}
    return replace(loops, sizes=sizes, pool=Streak())


def after_reset(loops: Loops) -> Loops:
    return Loops(counted=loops.counted)


def still_waiting(loops: Loops, records: Iterable[Record]) -> Loops:
    """The loops; of what was counted, only lives that the newest complete listing still shows."""
    if not loops.counted:
        return loops
    lives = {life_key(record.uuid, record.incarnation) for record in records}
    return loops if loops.counted <= lives else replace(loops, counted=loops.counted & lives)


def joined(kept: Loops, own: Loops) -> Loops:
    """What an earlier run kept, with what this one knows: its own streaks, if it has any."""
    streaks = kept if own.are_none else own
    return replace(streaks, counted=kept.counted | own.counted)


def came_up(
    before: History,
    after: History,
    records: Iterable[Record],
    claimed_sizes: Mapping[str, str],
    settings: Settings,
) -> Iterator[tuple[str, str | None]]:
    """The `records` whose boot came to something between the two histories, and their sizes.

    Each was booting before; or this run claimed it (`claimed_sizes`), and no listing showed it
    before its first ping. Where there is a scheduler, a ping alone is nothing yet (D17).
    """
    for record in records:
        uuid, incarnation = record.uuid, record.incarnation
        if record.last_ping_at is None or record.claim is None:
            continue
        unseen = uuid in claimed_sizes and not settings.scheduled
        if not (unseen or is_booting(uuid, incarnation, before)):
            continue
        if not is_booting(uuid, incarnation, after):
            nodes = after.nodes_by_record.get(uuid, ())
            known = size_name(nodes[0], record) if nodes else record.claim.size
            yield uuid, claimed_sizes.get(uuid) or known


def after_polls(
    loops: Loops,
    before: History,
    after: History,
    records: Iterable[Record],
    claimed_sizes: Mapping[str, str],
    settings: Settings,
) -> Iterator[Loops]:
    """The loops after each boot that came to something between the two histories."""
    if loops.are_none:
        return
    for _, named in came_up(before, after, records, claimed_sizes, settings):
        size = Sizes(settings.sizes).named(named)
        loops = after_boot(loops, size.name if size is not None else named)
        yield loops


def nodes_ended(snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, tuple[EndedNode, ...]]:
    """The snapshot that knows which lives have ended, and those that are news.

    Each that ended in its set-up is a failed boot. What a former run counted is no news (B5), nor
    what it destroyed: until that is known, nothing is. What we ended is counted for the next run.
    """
    history, seen, ours = seen_ended(snapshot, settings)
    if not snapshot.journal_read:
        return changed(snapshot, history=history), ()
    limits = snapshot.limits
    loops = limits.loops
    if history.records is not None and snapshot.breaker.part(Cause.RECORDS_COLLAPSED) is None:
        loops = still_waiting(loops, history.listed_records)
    news = tuple(one for one in seen if one.life not in loops.counted)
    if not ours <= loops.counted:
        loops = replace(loops, counted=loops.counted | ours)
    for one in news:
        if one.in_setup:
            loops = after_end(
                loops,
                one.node,
                one.size,
                snapshot.wall_clock,
                snapshot.now,
                settings,
                life=one.life,
            )
        else:
            loops = counted(loops, one.life)
    if loops is not limits.loops:
        snapshot = changed(snapshot, limits=replace(limits, loops=loops))
    if history is not snapshot.history:
        snapshot = changed(snapshot, history=history)
    return snapshot, news
