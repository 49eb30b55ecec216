"""Counts boots in a row that came to nothing, and says when booting rests (SAFETY.md B5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nodemanager.actors.daemon.context import Context
from nodemanager.core.execute.workflow import Action, End
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.streaks import Loops, Streak
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.history import History
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety import boot_loops
from nodemanager.journal.kept import BOOT_LOOPS
from nodemanager.log import WARNING


class BootFailures:
    """Keeps the streaks of failed boots; `Limits` takes them into every decision."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def _loops(self) -> Loops:
        return self._context.limits.loops

    def ended(self, end: End) -> None:
        """Note the end of a workflow: a clean may show that a node never came up."""
        if end.key.action is not Action.CLEAN or end.ended is None or end.ended.name != CLEANED:
            return
        books = self._context.books
        incarnation, size = books.created.get(end.key.id, (None, ""))
        left = {uuid: one for uuid, one in books.created.items() if uuid != end.key.id}
        self._context.books = replace(books, created=left)
        order = end.order
        if order.reason is Reason.CLAIM_EXPIRED and incarnation == order.incarnation:
            # It was created, and vanished before it came up.
            self.failed(None, size)

    def ended_in_setup(self, made: Plan) -> None:
        """Tell of each node that ended before its boot came to something; the plan counted it."""
        for one in made.ended:
            record, node = one.record, one.node
            self._context.log.event(
                Event.NODE_ENDED,
                level=WARNING,
                node=one.node_id,
                record=record.uuid,
                slot=record.slot_number,
                host=record.hostname,
                size=one.size,
                detail=(None if node is None else node.why) or None,
                plan=made.plan_id,
            )
            # Its record is cleaned later: it is not counted then once more.
            created = self._context.books.created
            left = {uuid: of for uuid, of in created.items() if uuid != record.uuid}
            self._context.books = replace(self._context.books, created=left)
        self._count(made.loops)

    def failed(
        self, node: CloudNode | None, size_name: str | None, life: str | None = None
    ) -> None:
        """Count a boot of ours that came to nothing: its node was given up, or vanished."""
        context = self._context
        self._count(
            boot_loops.after_end(
                self._loops,
                node,
                size_name,
                context.wall_clock,
                context.now,
                context.settings,
                life=life,
            )
        )

    def _count(self, after: Loops) -> None:
        """Take the streaks, and tell each rest that is new in them."""
        before = self._loops
        self._take(after)
        for name, streak in after.sizes.items():
            if streak.rests > before.sizes.get(name, Streak()).rests:
                self._tell_rest(streak, self._context.now, name)
        if after.probing and not before.probing:
            self._tell_rest(after.pool, self._context.now, None)

    def probe_sent(self) -> None:
        """Note that set-ups were begun: while the pool rests, one of them is its probe."""
        before, now = self._loops, self._context.now
        after = boot_loops.after_probe(before, now, self._context.settings.boot_fail_after)
        if after is not before:
            self._take(after)
            self._tell_rest(after.pool, now, None)

    def watch_boots(self, before: History, records: Iterable[Record]) -> None:
        """End the streaks that a successful boot ends; `before` is the history without the poll."""
        context = self._context
        if self._loops.are_none:
            return
        came_up = boot_loops.came_up(
            before, context.history, records, context.books.sizes, context.settings
        )
        for _, size_name in came_up:
            size = Sizes(context.settings.sizes).named(size_name)
            name = size.name if size is not None else size_name
            self._end(boot_loops.after_boot(self._loops, name), "a node came up")

    def reset(self) -> None:
        """End all streaks, because an operator reset the breaker."""
        self._end(boot_loops.after_reset(self._loops), "an operator's reset")

    def _end(self, after: Loops, why: str) -> None:
        """Keep these streaks only, and log it if anything rested because of the others."""
        before = self._loops
        if after == before:
            return
        rested = before.probing or any(
            streak.rests for name, streak in before.sizes.items() if name not in after.sizes
        )
        self._take(after)
        if rested:
            self._context.log.event(Event.BOOTS_RESUMED, detail=why, spent=before.pool.spent)
            self._context.decide_soon()

    def _tell_rest(self, streak: Streak, now: float, size: str | None) -> None:
        self._context.log.event(
            Event.BOOTS_REST,
            level=WARNING,
            reason=Reason.BOOT_LOOP,
            size=size,
            count=streak.failed,
            retry_s=max(0.0, streak.until - now),
            spent=streak.spent,
            clear="see why these nodes never come up (image, user data, network to the registry "
            "and the scheduler), then `nodemanager breaker reset`; a node that does ends it, too",
        )

    def _take(self, loops: Loops) -> None:
        if loops == self._loops:
            return
        books = self._context.books
        self._context.books = replace(books, limits=replace(books.limits, loops=loops))
        self._context.journal_writer.keep(BOOT_LOOPS, loops)

    def load(self, loops: Loops) -> None:
        """Take the streaks of a former run, if this run has none."""
        self._take(boot_loops.joined(loops, self._loops))
