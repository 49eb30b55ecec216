"""The daemon's set-ups: the claim, the create, and what a refusal means (SAFETY.md U5, U6, D6)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence

from nodemanager.actors.restore_desk import RestoreDesk
from nodemanager.core.execute.books import (
    Books,
    Learned,
    PinsFailed,
    WriteInDoubt,
    learned,
)
from nodemanager.core.execute.setup import order_setup
from nodemanager.core.execute.workflow import Action
from nodemanager.core.model import Claim
from nodemanager.core.plan import BootOrder
from nodemanager.errors import Throttled


class SetupDesk(RestoreDesk):
    """Hands out set-ups, and keeps what they leave behind."""

    _taken_back: Counter[str] = Counter()
    """By size, the set-ups withdrawn since the newest plan."""

    def _begin_setups(self, boots: Sequence[BootOrder], now: float) -> None:
        for boot in boots:
            assert self._store_id is not None, "a plan with boots has seen a record poll"
            order = order_setup(boot, self._claim_for(boot), self._store_id, now)
            self._narrator.setup_started(boot, order.claim.incarnation)
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

    def learn(self, one: Learned) -> None:
        """What workflows leave behind for the plans."""
        now = self._clock.boottime()
        if isinstance(one, WriteInDoubt):
            self._may_be_late(one.record)
            return
        if isinstance(one, PinsFailed) and isinstance(one.error, Throttled):
            self._throttled(one.error)
        before = Books(
            self._limits,
            self._expected,
            self._created,
            self._flights.sizes,
            self._taken_back,
            self._pins_failed,
            self._told_drains,
        )
        after = learned(before, one, now, self._nodes_now(), self._settings)
        self._limits, self._taken_back = after.limits, after.withdrawn
        self._expected, self._created = dict(after.expected), dict(after.created)
        self._told_drains = after.drains
        self._flights.sizes, self._pins_failed = dict(after.sizes), dict(after.pins_failed)
