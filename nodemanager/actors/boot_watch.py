"""The daemon's count of nodes that never pinged, and when booting goes on (SAFETY.md B5)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.actors.desk import Desk
from nodemanager.actors.runner import End
from nodemanager.core import boot_loops
from nodemanager.core.boot_loops import NONE, Loops, Streak
from nodemanager.core.execute.workflow import Action
from nodemanager.core.history import Records
from nodemanager.core.reasons import Event, Reason
from nodemanager.core.sizes import Sizes
from nodemanager.core.telling import CLEANED
from nodemanager.journal.codec import codec_of, decoded
from nodemanager.log import WARNING


class BootWatch(Desk):
    """Keeps the streaks; `Limits` carries them into every decision."""

    def ended(self, end: End) -> None:
        super().ended(end)
        if end.key.action is not Action.CLEAN or end.ended is None or end.ended.name != CLEANED:
            return
        incarnation, size = self._created.pop(end.key.id, (None, ""))
        order = end.order
        if order.reason is Reason.CLAIM_EXPIRED and incarnation == order.incarnation:
            # It was created, and vanished before it came up.
            self._boot_failed(None, size)

    def _boot_failed(self, node_id: str | None, size_name: str | None) -> None:
        """A node of ours was given up, or vanished, without a ping."""
        settings, now = self._settings, self._clock.boottime()
        size = Sizes(settings.sizes).named(size_name)
        name = size.name if size is not None else size_name
        node = self._history.present.get(node_id) if node_id is not None else None
        lived_s = settings.boot_fail_after
        if node is not None and node.created_at is not None:
            lived_s = max(0.0, self._clock.wall() - node.created_at)
        spent = (size.price or 0.0) * lived_s / 3600.0 if size is not None else 0.0
        before = self._limits.loops
        after = boot_loops.after_failure(before, name, spent, now, settings.boot_fail_after)
        self._take_loops(after)
        if name is not None and after.sizes[name].rests > before.sizes.get(name, Streak()).rests:
            self._tell_rest(after.sizes[name], now, name)
        if after.probing and not before.probing:
            self._tell_rest(after.pool, now, None)

    def _probe_sent(self) -> None:
        before, now = self._limits.loops, self._clock.boottime()
        after = boot_loops.after_probe(before, now, self._settings.boot_fail_after)
        if after is not before:
            self._take_loops(after)
            self._tell_rest(after.pool, now, None)

    def _watch_first_pings(self, listing: Records) -> None:
        """`self._history` is without the listing."""
        if self._limits.loops == NONE:
            return
        for _, size_name in boot_loops.first_pings(self._history, listing, self._flights.sizes):
            size = Sizes(self._settings.sizes).named(size_name)
            name = size.name if size is not None else size_name
            before = self._limits.loops
            self._end_loops(boot_loops.after_first_ping(before, name), "a node pinged")

    def _end_loops(self, after: Loops, why: str) -> None:
        """Forget streaks; told where something rested for them."""
        before = self._limits.loops
        if after == before:
            return
        rested = before.probing or any(
            streak.rests for name, streak in before.sizes.items() if name not in after.sizes
        )
        self._take_loops(after)
        if rested:
            self._log.event(Event.BOOTS_RESUMED, detail=why, spent=before.pool.spent)
            self._decide_soon()

    def _tell_rest(self, streak: Streak, now: float, size: str | None) -> None:
        self._log.event(
            Event.BOOTS_REST,
            level=WARNING,
            reason=Reason.BOOT_LOOP,
            size=size,
            count=streak.failed,
            retry_s=max(0.0, streak.until - now),
            spent=streak.spent,
            clear="see why these nodes never ping (image, user data, network to the registry), "
            "then `nodemanager breaker reset`; a first ping ends it, too",
        )

    def _take_loops(self, loops: Loops) -> None:
        self._limits = replace(self._limits, loops=loops)
        on_wall = _moved(loops, self._clock.wall() - self._clock.boottime())
        self._scribe.save_loops(codec_of(Loops).encode(on_wall))

    def _load_loops(self) -> None:
        """What a former run counted, on this boot's clock; the daemon has just loaded it."""
        try:
            kept: Loops = decoded(Loops, self._scribe.loops or {})
        except ValueError:
            return
        if self._limits.loops == NONE:
            loops = _moved(kept, self._clock.boottime() - self._clock.wall())
            self._limits = replace(self._limits, loops=loops)


def _moved(loops: Loops, by_s: float) -> Loops:
    """With its times on another clock."""
    sizes = {name: _streak_moved(streak, by_s) for name, streak in loops.sizes.items()}
    return Loops(sizes, _streak_moved(loops.pool, by_s))


def _streak_moved(streak: Streak, by_s: float) -> Streak:
    return replace(streak, until=streak.until + by_s) if streak.rests else streak
