"""The daemon's set-ups: the claim, the create, and what a refusal means (SAFETY.md U5, U6, D6)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence

from nodemanager.actors.messages import BindRecord, RecordBound
from nodemanager.actors.restore_desk import RestoreDesk
from nodemanager.core.binding import BindOrder
from nodemanager.core.execute.books import (
    Books,
    CreateRefused,
    Learned,
    NodeExpected,
    PinsFailed,
    WriteInDoubt,
    learned,
)
from nodemanager.core.execute.setup import order_setup
from nodemanager.core.execute.workflow import Action
from nodemanager.core.model import Claim
from nodemanager.core.plan import BootOrder
from nodemanager.core.reasons import Event
from nodemanager.errors import Throttled
from nodemanager.log import DEBUG, WARNING


class SetupDesk(RestoreDesk):
    """Hands out set-ups, and keeps what they leave behind."""

    _taken_back: Counter[str] = Counter()
    """By size, the set-ups withdrawn since the newest plan."""

    def _begin_setups(self, boots: Sequence[BootOrder], now: float) -> None:
        for boot in boots:
            assert self._store_id is not None, "a plan with boots has seen a record poll"
            order = order_setup(boot, self._claim_for(boot), self._store_id, now)
            self._runner.begin(Action.SETUP, order, boot.plan_id, now)
        if boots:
            self._probe_sent()

    def _claim_for(self, boot: BootOrder) -> Claim:
        incarnation = secrets.token_hex(16)
        return Claim(
            pool=self._settings.pool,
            manager=self._role.manager,
            token=self._role.token,
            at=0.0,
            node_name=f"compute-{incarnation[:12]}",
            incarnation=incarnation,
            size=boot.size.name,
            price=boot.size.price,
            window=self._settings.claim_window,
        )

    def _withdraw_setups(self) -> None:
        """Take back what no worker has begun; adoptions share the workers, and are left waiting."""
        dropped = self._setups.drop_waiting(lambda key: not key.startswith("adopt "))
        self._runner.drop(Action.SETUP, dropped)

    def learn(self, one: Learned) -> None:
        """What workflows leave behind for the plans."""
        now = self._clock.boottime()
        if isinstance(one, WriteInDoubt):
            self._may_be_late(one.record)
            return
        if isinstance(one, CreateRefused):
            self._role.observer.create_failed(type(one.error).__name__)
        if isinstance(one, PinsFailed) and isinstance(one.error, Throttled):
            self._throttled(one.error)
        before = Books(
            self._limits,
            self._expected,
            self._created,
            self._flights.sizes,
            self._taken_back,
        )
        after = learned(before, one, now, self._nodes_now(), self._settings)
        self._limits, self._taken_back = after.limits, after.withdrawn
        self._expected, self._created = dict(after.expected), dict(after.created)
        self._flights.sizes, self._pins_failed = dict(after.sizes), dict(after.pins_failed)
        if isinstance(one, NodeExpected) and one.node_id is not None and one.is_new:
            self._role.observer.booted(one.size)

    # The claim is told its node (P1a).

    def _begin_bind(self, order: BindOrder) -> None:
        self._flights.binds[order.uuid] = self._clock.boottime()
        self._cleaner.give(order.uuid, BindRecord(order))

    def on_RecordBound(self, message: RecordBound) -> None:
        """A ping that came in between, or a failure: the next plan tries again."""
        order, error = message.order, message.error
        self._cleaner.done(order.uuid)
        self._flights.bind_ended(order.uuid, self._clock.boottime())
        if error is None:
            self._wrote()
        else:
            self._write_failed(error)
        self._log.event(
            Event.RECORD_BOUND,
            level=DEBUG if error is None else WARNING,
            record=order.uuid,
            node=order.node_id,
            incarnation=order.incarnation,
            error=error,
        )
        self._settled()
