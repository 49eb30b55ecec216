"""The daemon's set-ups: the claim, the create, and what a refusal means (SAFETY.md U5, U6, D6)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from nodemanager.actors.clean_desk import CleanDesk
from nodemanager.actors.intents import (
    LooseCreate,
    create_intent,
    create_key,
)
from nodemanager.actors.messages import (
    BindRecord,
    NodeCreated,
    RecordBound,
    RecordClaimed,
    SetupFailed,
    SetUpNode,
)
from nodemanager.actors.narrator import record_fields
from nodemanager.core.binding import BindOrder
from nodemanager.core.demand import after_refusal, after_success
from nodemanager.core.model import Claim
from nodemanager.core.orders import order_release
from nodemanager.core.plan import BootOrder
from nodemanager.core.reasons import Event, Reason
from nodemanager.core.settings import ORDER_TTL_S
from nodemanager.core.snapshot import Expected
from nodemanager.errors import Throttled
from nodemanager.journal.api import Intent
from nodemanager.log import DEBUG, WARNING


class SetupDesk(CleanDesk):
    """Hands out set-ups; a claim whose create was refused is released at once (U6)."""

    def _doubt_create(self, order_id: int, now: float) -> None:
        incarnation, size = self._creates.pop(order_id)
        self._recovery.doubt(LooseCreate(create_key(incarnation), incarnation, size, now))

    def _begin_setups(self, boots: Iterable[BootOrder], now: float) -> None:
        prepared = [(boot, self._claim_for(boot)) for boot in boots]
        intents: list[Intent] = [create_intent(boot, claim) for boot, claim in prepared]
        if not intents or not self._scribe.intend(intents):
            return
        for boot, claim in prepared:
            self._narrator.setup_started(boot, claim.incarnation)
            self._begin_setup(boot, claim, now)
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

    def _begin_setup(self, boot: BootOrder, claim: Claim, now: float) -> None:
        clock = self._history.clock
        assert clock is not None, "a plan with boots has seen a record poll, and so its clock"
        order_id = self._flights.setup_begun(boot, now)
        self._creates[order_id] = (claim.incarnation, boot.size.name)
        assert self._store_id is not None, "the same poll told the store's id"
        order = SetUpNode(order_id, boot, claim, self._store_id, clock.offset, now + ORDER_TTL_S)
        self._setups.give(str(order_id), order)

    def _withdraw_setups(self, outcome: str) -> None:
        """Take back what no worker has begun; adoptions share the workers, and are left waiting."""
        for key in self._setups.drop_waiting(str.isdigit):
            self._flights.setup_ended(int(key), self._clock.boottime())
            # One that waited for longer than action_timeout was given up before.
            create = self._creates.pop(int(key), None)
            if create is not None:
                self._conclude(create_key(create[0]), outcome)

    def on_RecordClaimed(self, message: RecordClaimed) -> None:
        record = message.record
        self._wrote()
        self._flights.claimed(message.order_id, record)
        self._log.event(
            Event.RECORD_CLAIMED,
            **record_fields(record, record.uuid),
            incarnation=record.incarnation,
        )

    def on_NodeCreated(self, message: NodeCreated) -> None:
        self._flights.setup_lands(message.order_id, self._clock.boottime())
        self._setups.done(str(message.order_id))
        setup = self._flights.setup_ended(message.order_id, self._clock.boottime())
        record, node, now = message.record, message.node, self._clock.boottime()
        size = setup.boot.size.name if setup is not None else node.size or ""
        self._expected[record.uuid] = Expected(node.id, size, now, record.incarnation)
        self._created[record.uuid] = (record.incarnation, size)
        self._creates.pop(message.order_id, None)
        if record.incarnation is not None:
            key = create_key(record.incarnation)
            self._conclude(key, "created", node=node.id, **record_fields(record, record.uuid))
        self._limits = after_success(self._limits, size, self._nodes_now())
        self._log.event(
            Event.NODE_CREATED,
            node=node.id,
            name=node.name,
            **record_fields(record, record.uuid),
            size=size,
            took_s=message.took_s,
        )
        self._settled()

    def on_SetupFailed(self, message: SetupFailed) -> None:
        in_doubt = not message.definite
        self._flights.setup_lands(message.order_id, self._clock.boottime(), in_doubt=in_doubt)
        self._setups.done(str(message.order_id))
        setup = self._flights.setup_ended(message.order_id, self._clock.boottime())
        record, error = message.record, message.error
        if message.stage == "claim":
            self._write_failed(error)
        uuid = record.uuid if record is not None else None
        if in_doubt and message.stage == "claim" and not getattr(error, "unsent", False):
            boot = setup.boot.record if setup is not None else None
            claimed = record or boot
            if claimed is not None:
                self._may_be_late(claimed.uuid)
        self._log.event(
            Event.NODE_SETUP_FAILED,
            level=WARNING,
            **(record_fields(record, record.uuid) if record is not None else {}),
            size=setup.boot.size.name if setup is not None else None,
            action=message.stage,
            definite=message.definite,
            error=error,
        )
        if message.stage == "image":
            # It is every size's.
            self._refused([size.name for size in self._settings.sizes], error)
        elif setup is not None and message.stage == "create":
            self._refused([setup.boot.size.name], error)
        if record is not None and uuid is not None and message.definite:
            order = order_release(
                uuid,
                Reason.CREATE_REFUSED,
                self._snapshot(setup.boot.plan_id if setup is not None else ""),
                incarnation=record.incarnation,
                instance_id=None,
                slot=record.slot_number,
                hostname=record.hostname,
            )
            self._narrator.clean_ordered(order)
            self._begin_clean(order)
        if message.definite and message.order_id in self._creates:
            incarnation, _ = self._creates.pop(message.order_id)
            whose = {} if record is None else record_fields(record, record.uuid)
            self._conclude(create_key(incarnation), "refused", stage=message.stage, **whose)
        elif message.order_id in self._creates:
            now = self._clock.boottime()
            if record is not None:
                size = setup.boot.size.name if setup is not None else ""
                self._expected[record.uuid] = Expected(None, size, now, record.incarnation)
            self._doubt_create(message.order_id, now)
        self._settled()

    def _refused(self, sizes: Iterable[str], error: Exception) -> None:
        if isinstance(error, Throttled):
            self._throttled(error)
        now = self._clock.boottime()
        for size in sizes:
            self._limits = after_refusal(
                self._limits, error, size, self._nodes_now(), now, self._settings
            )

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
