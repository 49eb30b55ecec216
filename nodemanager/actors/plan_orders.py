"""What a plan calls for: each order is told, and begins its workflow."""

from __future__ import annotations

import secrets

from nodemanager.actors.boot_failures import BootFailures
from nodemanager.actors.context import Context
from nodemanager.actors.false_cleans import FalseCleans
from nodemanager.actors.identities import Identities
from nodemanager.core.execute.setup import order_setup
from nodemanager.core.execute.workflow import Action
from nodemanager.core.model import Claim
from nodemanager.core.plan import BootOrder, Plan


class PlanOrders:
    """Hands the orders of a plan to the runner."""

    def __init__(
        self,
        context: Context,
        identities: Identities,
        boot_failures: BootFailures,
        false_cleans: FalseCleans,
    ) -> None:
        self._context = context
        self._identities = identities
        self._boot_failures = boot_failures
        self._false_cleans = false_cleans

    def carry_out(self, made: Plan, now: float) -> None:
        """Tell each order; begin it, where this daemon does what it decides (S3)."""
        narrator, runner = self._context.narrator, self._context.runner
        for clean in made.cleans:
            narrator.clean_ordered(clean)
        for prune in made.prunes:
            narrator.prune_ordered(prune)
        for shutdown in made.shutdowns:
            narrator.shutdown_ordered(shutdown)
        if not self._context.applies:
            for boot in made.boots:
                narrator.setup_started(boot, None)
            return
        for clean in made.cleans:
            runner.begin(Action.CLEAN, clean, clean.plan_id, now)
        for lift in made.lifts:
            runner.begin(Action.CLEAN, lift, lift.plan_id, now)
        for prune in made.prunes:
            runner.begin(Action.PRUNE, prune, prune.plan_id, now)
        for shutdown in made.shutdowns:
            runner.begin(Action.SHUTDOWN, shutdown, shutdown.plan_id, now)
        for drain in made.drains:
            runner.begin(Action.DRAIN, drain, drain.plan_id, now)
        for life in made.restores:
            self._false_cleans.begin_restore(life, made.plan_id, now)
        for bind in made.binds:
            runner.begin(Action.BIND, bind, bind.plan_id, now)
        for boot in made.boots:
            self._begin_setup(boot, now)
        if made.boots:
            self._boot_failures.probe_sent()

    def _begin_setup(self, boot: BootOrder, now: float) -> None:
        store = self._identities.store
        assert store is not None, "a plan with boots has seen a record poll"
        order = order_setup(boot, self._claim_for(boot), store, now)
        self._context.narrator.setup_started(boot, order.claim.incarnation)
        self._context.runner.begin(Action.SETUP, order, boot.plan_id, now)

    def _claim_for(self, boot: BootOrder) -> Claim:
        incarnation = secrets.token_hex(16)
        settings, role = self._context.settings, self._context.role
        return Claim(
            pool=settings.pool,
            manager=role.manager,
            token=role.token,
            at=0.0,
            node_name=f"compute-{incarnation[:12]}",
            incarnation=incarnation,
            size=boot.size.name,
            price=boot.size.price,
            window=settings.claim_window,
        )
