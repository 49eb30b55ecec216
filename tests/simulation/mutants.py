"""Each rule switched off, with the rules that back it up: what the seeds must notice.

A mutant is caught when, in a run of one of the seeds that `make test` plays, the rule's own monitor
or the promise's (SAFETY) finds something; that it crashed, or that another rule's monitor found
something, is not enough.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.actors.daemon.identities import Identities
from nodemanager.actors.daemon.leftovers import LeftoverBook
from nodemanager.actors.daemon.operators import PoolOrders
from nodemanager.actors.daemon.recovery import Recovery
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.poll.polling import CloudNodeListActor, RecordListActor, SchedulerActor
from nodemanager.actors.report.event_log import EventLog
from nodemanager.actors.report.journal_writer import JournalAccess, JournalWriter
from nodemanager.actors.report.plan_log import DemandLog
from nodemanager.actors.workers.workers import NodeSetupActor, NodeShutdownActor
from nodemanager.cloud.api import CreateOrder
from nodemanager.core.execute import clean, pre_write_check, setup, state, writes
from nodemanager.core.execute import shutdown as shutdowns
from nodemanager.core.judge import false_clean, idle, node_view, nodes, preconditions, records
from nodemanager.core.judge.node_view import Silence
from nodemanager.core.judge.records import RecordJudge
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Listed
from nodemanager.core.observe import (
    ended,
    history,
    listing_history,
    nodes_since,
    pairing,
    pools,
    scheduled,
    signs,
    unlisted,
)
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.evidence import Impossible
from nodemanager.core.plan import (
    destroy,
    due,
    errands,
    leftovers,
    plan,
    rotation,
    slots,
    spares,
    supply,
    wishes,
)
from nodemanager.core.plan import orders as ordered
from nodemanager.core.plan.demand import Market
from nodemanager.core.safety import boot_loops, breaker, orders
from nodemanager.errors import RemoteError
from nodemanager.journal import kept
from nodemanager.records import seats
from tests.simulation.registry import CasStore
from tests.simulation.scenario import Storm
from tests.simulation.seats import Seating
from tests.simulation.slurm import Dispatching
from tests.simulation.switch import Switch

PROMISE = frozenset({"SAFETY"})
STILL = ("LIVENESS", "PROGRESS")
"""The monitors of a manager that does nothing."""
WORK = ("WORK",)
"""The monitor of busy nodes destroyed as idle."""

DISPATCHING = Dispatching(every=15.0, job_s=40.0)


@dataclass(frozen=True)
class Mutant:
    """`rule` switched off: `what` says how, `with_` names the rules switched off beside it."""

    rule: str
    what: str
    switches: tuple[Switch, ...]
    with_: tuple[str, ...] = ()
    open: str | None = None
    """Why no seed notices it, where none does: a hole in the simulation."""
    by: tuple[str, ...] = ()
    """The monitors that count besides the rule's own and the promise's."""
    storm: Storm | None = None
    """What goes wrong in its worlds, where the seed's own faults come together too rarely."""
    seed: int | None = None
    """The world that once broke the rule so (tests/test_simulation.py), to be played first."""

    @property
    def name(self) -> str:
        return f"{self.rule} {self.what}"

    @property
    def noticed_by(self) -> frozenset[str]:
        return PROMISE | {self.rule, *self.by}


def mutant(rule: str, what: str, *switches: Switch, **more: Any) -> Mutant:
    return Mutant(rule, what, switches, **more)


def off(function: Any, of: str, to: str = "False", **names: Any) -> Switch:
    return Switch(function, of, to, names)


def instead(function: Any, of: str, to: str, **names: Any) -> Switch:
    """What stood there is not evaluated at all."""
    return Switch(function, of, to, names, counts=False)


def _empty_on_failure(call: Any) -> Listed[Any]:
    try:
        listed: Listed[Any] = call()
    except RemoteError:
        return Listed(())
    return listed


def _but_for_the_lease(block: Objection | None) -> Objection | None:
    return None if block is not None and block.reason is Reason.NO_LEASE else block


JOURNAL_WITHOUT_THE_LEASE = (
    instead(
        JournalAccess.problem, "self.failure if self.may_write() else NO_LEASE", "self.failure"
    ),
    instead(JournalAccess.owes, "not self.may_write()", "False"),
)
"""It backs up every other check of the lease: what is not written down is not sent."""
_TOKENS = itertools.count()


def _with_another_token(order: CreateOrder) -> CreateOrder:
    return replace(order, client_token=f"token-{next(_TOKENS)}")


USURPED = Storm(
    ("the lease is taken over amid a set-up", "creates fail", "creates time out but succeed"),
    count=30,
)
UNCLEAR = Storm(("creates fail", "creates answered by an error but succeed", "a node dies unseen"))
YOUNG_TWIN = "an operator kills a node whose twin is unseen"
OUT_OF_SIGHT = Storm(
    ("a node vanishes from sight", "destroys accepted and never happen", "manager paused"), count=12
)
NEVER_LISTED = Storm(("a created node is never listed and never boots",))
SET_BACK = Storm(
    ("manager's machine reboots", "the store's clock steps", "a node dies unseen", "store down"),
    count=12,
)
ONE_DATE = Storm(
    (
        "the one clock of manager and store steps",
        "a node says that it is down",
        "destroys accepted and never happen",
        "demand changes",
        "an operator kills a node whose twin is unseen",
        "nodes boot slowly",
    ),
    count=24,
)
NEVER_QUIET = off(RecordJudge._past_its_window, "not quiet_s > window_s")
BUSY_OR_IDLE = off(
    RecordJudge._not_at_work, "state is WorkerState.BUSY or state is WorkerState.IDLE"
)
QUIET_AT_LAST_LOOK = off(
    pre_write_check._not_stale, "not order.fenced and (quiet_s is None or not quiet_s > window_s)"
)
NOT_ASKED_AGAIN = instead(destroy._not_done, "reported is not None and is_done(reported)", "True")
"""What the scheduler says right before the destroy of an idle node."""
DISPATCHED = Storm(
    ("the scheduler's replies are lost", "the scheduler answers late", "manager killed"),
    count=8,
    dispatching=DISPATCHING,
)
SEATED = Storm(
    ("a node dies unseen", "store writes late", "manager killed"),
    count=8,
    seated=Seating(every=60.0, job_s=200.0),
)
"""A world whose records are Slurm's nodes."""
SPARE_SEATS = Storm(
    ("a node dies unseen", "manager killed"),
    count=8,
    seated=Seating(every=60.0, job_s=200.0, spare=3),
)
"""There more of Slurm's nodes wait than may live."""
SUSPENDING = Storm(
    ("a node dies unseen", "manager killed"),
    count=8,
    seated=Seating(every=60.0, job_s=40.0, suspend_time=120.0),
)
"""There Slurm itself switches idle nodes off, too."""
NO_SLURMD = Storm(
    ("no node ever boots", "manager restarted by systemd"),
    count=6,
    seated=Seating(every=60.0, job_s=200.0),
)
"""There no machine's slurmd comes up for a while."""
SHARED = Storm(
    ("a node dies unseen", "manager killed"),
    count=8,
    seated=Seating(every=60.0, job_s=40.0, second_pool=True),
)
"""There two pools share a Slurm, with a partition each."""
OUTLIVED = Storm(
    ("cloud list short", "destroys accepted and never happen", "demand changes"), count=16
)
"""There nodes outlive their destroys, and a list lacks them."""
LOSING = Storm(("a node dies unseen",), count=10)
PARKING = Storm(("an operator parks the pool", "manager killed", "demand changes"), count=16)
UNHEARD = Storm(("pings lost on the way",), count=6, dispatching=Dispatching(15.0, 900.0))
UNJOINED = Storm(
    ("machines never join the scheduler", "manager killed"),
    count=6,
    dispatching=Dispatching(15.0, 40.0),
)
"""There machines ping that their scheduler never hears."""
NAMELESS = Storm(("slurm.conf lacks a name",), count=6, dispatching=Dispatching(15.0, 200.0))
"""There the scheduler lists a name no more for a while, whoever has it."""
TAKEN_BACK = Storm(("the cloud takes back what boots",), count=2)
"""Each node ends before it pings."""
NEVER_UP = Storm(
    ("no node ever boots", "the cloud takes back what boots", "manager restarted by systemd"),
    count=4,
)
LARGER = Storm(("a job for a larger size", "demand changes"), count=8)
"""Jobs wait for nodes of several sizes."""
DYING = Storm(("a node dies unseen",), count=20, dispatching=DISPATCHING)
SEEN_IS_ABSENT = (
    off(
        listing_history.absences,
        "own and claim is not None and own[0].tags.incarnation == claim.incarnation",
    ),
    off(listing_history.absences, "node_of(record, nodes_by_record, present) is not None"),
)
JUDGED_BEFORE = (
    "history.base_index.get(uuid) != record.version "
    "or history.partially_listed.get(uuid, record.version) != record.version "
    "or uuid in history.vetoed"
)
SETTLED = "not absence.has_settled(self.settings)"
BLOCKED = "standing_block(snapshot, settings)"
BUT_FOR_THE_BREAKER = "standing_block(snapshot, settings, breaker=False)"
UNPAIRED_LONG = "since_s <= settings.boot_fail_after or listings < 2"

MUTANTS: tuple[Mutant, ...] = (
    # C. When a record is cleaned.
    mutant(
        "C0",
        "another pool's record is judged like ours",
        off(RecordJudge._ours, "foreign is not None"),
        off(pre_write_check._still_permitted, "foreign is not None"),
    ),
    mutant(
        "C1",
        "a record that holds nothing is cleaned, too",
        off(RecordJudge._holding, "not record.holds_anything"),
        off(listing_history.absences, "not record.holds_anything"),
        # Nothing to ask the cloud by, either.
        off(
            RecordJudge._verifiable, "node_id is None or (answer is not None and answer.malformed)"
        ),
        off(pre_write_check._can_be_told, "blind and not _broken(order, Reason.UNVERIFIABLE)"),
        with_=("C5", "C11"),
    ),
    mutant(
        "C2",
        "a node's fresh ping that says busy or idle is not heard",
        BUSY_OR_IDLE,
        NEVER_QUIET,
        with_=("C3",),
    ),
    mutant("C3", "the window is not waited for", NEVER_QUIET, QUIET_AT_LAST_LOOK),
    mutant(
        "C4",
        "a listed node does not hold its record",
        off(RecordJudge._unpaired, "node is None", "True"),
        # Else it stays paired without being asked.
        off(records._stays_paired, "before.reason is not PAIRED", "True"),
        off(RecordJudge._unlisted, "listed is not None"),
        *SEEN_IS_ABSENT,
        with_=("C5",),
    ),
    mutant("C5", "one listing without the node is enough", off(RecordJudge._settled, SETTLED)),
    mutant(
        "C5",
        "an absence goes on over a gap in the polls",
        off(listing_history.one_more, "gap_s > settings.poll_stale_after"),
        off(listing_history.Absence.has_settled, "self.gap_s > settings.poll_stale_after"),
    ),
    mutant(
        "C5",
        "what an incomplete listing shows was not seen",
        instead(
            history._nodes_partially_listed,
            "listing_history.without_seen(history.absence, seen, history.listed_records)",
            "history.absence",
        ),
        off(RecordJudge._unseen, "record.uuid in self.partial_uuids or is_named"),
        storm=Storm(
            ("a node vanishes from sight", "a zone vanishes from sight", "cloud list incomplete")
        ),
    ),
    mutant(
        "C6",
        "the record may have moved since the listing that it is judged on",
        off(RecordJudge._unchanged_since_base, JUDGED_BEFORE),
        NEVER_QUIET,
        BUSY_OR_IDLE,
        with_=("C3", "C2"),
    ),
    mutant(
        "C7",
        "old polls are as good as fresh ones",
        off(preconditions._polls, "stale is not None"),
        # The listing judged on, and the reading of the clock, grow old with the polls.
        off(RecordJudge._on_a_fresh_base, "age_s > limit_s"),
        off(signs.trusted_clock, "not clock.trusted_at(snapshot.now, settings.poll_stale_after)"),
        with_=("C6", "T1"),
    ),
    mutant(
        "C8",
        "what is under way for a record is not asked for",
        off(RecordJudge._not_in_flight, "flight is not None"),
        off(RecordJudge._untouched, "is_touched(record.uuid, self.snapshot)"),
        off(pre_write_check._still_permitted, "uuid in snapshot.record_flights"),
        NEVER_QUIET,
        with_=("C3",),
    ),
    mutant(
        "C9",
        "a hold on a record is not looked at",
        off(
            RecordJudge._free_of_holds,
            "record.held or (holds and (record.uuid in holds or record.instance_id in holds))",
        ),
        off(
            pre_write_check._still_permitted,
            "record.held or uuid in snapshot.holds or order.instance_id in snapshot.holds",
        ),
    ),
    mutant(
        "C10",
        "an open breaker stops nothing",
        off(preconditions._breaker, "snapshot.breaker.cause is not None"),
        off(
            pre_write_check._still_permitted,
            "snapshot.breaker.generation != order.breaker_generation or snapshot.breaker.is_open",
        ),
    ),
    mutant(
        "C10",
        "without the lease it cleans on",
        off(preconditions._leased, "not snapshot.lease"),
        *JOURNAL_WITHOUT_THE_LEASE,
        storm=Storm(("the lease is taken over", "a node dies unseen", "manager paused")),
    ),
    mutant("C10", "the cycle has no cap", instead(due._room, "cap - _taken(snapshot)", "at_once")),
    mutant(
        "C11",
        "signs of life at the pre-write check are not seen",
        off(pre_write_check.confirm_clean, "_sign_of_life(check)", "None"),
    ),
    mutant(
        "C11",
        "an order never expires",
        off(pre_write_check._still_permitted, "snapshot.now > order.not_after"),
        storm=Storm(("a node dies unseen", "manager paused at a call", "cloud questions slow")),
    ),
    mutant(
        "C11",
        "a denial counts however young the node is",
        instead(pre_write_check._denied_too_early, "age_s > limit_s", "True"),
        NEVER_QUIET,
        BUSY_OR_IDLE,
        QUIET_AT_LAST_LOOK,
        off(pre_write_check._not_stale, "state in (WorkerState.BUSY, WorkerState.IDLE)"),
        with_=("C3", "C2"),
    ),
    mutant(
        "C12",
        "the write is not conditional",
        # What stands here for the WHERE of records.sql.
        off(CasStore._row_at, "str(row['version']) != record.version"),
    ),
    mutant(
        "C12",
        "there is no fence where the store can't compare",
        off(clean._confirmed, "seen.guarantee is Guarantee.FENCED"),
    ),
    mutant("C12", "nobody waits behind the fence", instead(clean._stand, "seen.fence_wait", "0.0")),
    mutant(
        "C12",
        "a slurmd of the life before is a sign of this life of a seat",
        off(seats.news, "node.start in slurmds.others"),
        by=STILL,
        storm=SEATED,
        open="none of its first 300 seeds draws it; ``tests/contract/test_seat_contract.py`` sees "
        "it",
    ),
    mutant(
        "C12",
        "no slurmd gives a sign of life",
        instead(seats.news, "NodeReport(values, lives=True)", "NodeReport(values)"),
        by=STILL,
        storm=SEATED,
    ),
    mutant(
        "T1",
        "a reading that took long stands for the exact one before it",
        instead(
            MeasuredClock.read,
            "self.firm or (self.offset, self.error_s)",
            "(self.offset, self.error_s)",
        ),
        open="every age counts from the next reading that shows a jump: one that passes in two "
        "parts matters for a round alone; ``tests/core/observe/test_clocks.py`` sees it",
    ),
    mutant(
        "D12",
        "a node that Slurm has switched off is kept as any idle one",
        instead(nodes._not_suspended, "word is None", "True"),
        by=STILL,
        storm=SUSPENDING,
        open="Slurm asks its slurmd no more, so it falls silent: past node_stale_after, which is "
        "short there, it goes all the same",
    ),
    mutant(
        "T3",
        "a node of another pool's partition is resumed and switched off",
        instead(errands._free_seats, "node.elsewhere", "False"),
        storm=SHARED,
    ),
    mutant(
        "T3",
        "a seat that nobody had yet waits for a pool's name for ever",
        off(pools.is_ours_to_claim, "settings.seats"),
        by=STILL,
        storm=SHARED,
    ),
    mutant(
        "PROGRESS",
        "a name that Slurm has given up is never resumed",
        instead(errands._seats_to_return, "node.given_up", "False"),
        storm=SEATED,
    ),
    mutant(
        "C12",
        "what moved before the fence is not compared",
        off(
            orders.fenced_order,
            "judged.last_ping_at != fenced.last_ping_at "
            "or judged.first_ping_at != fenced.first_ping_at "
            "or judged.slot_number != fenced.slot_number "
            "or judged.hostname != fenced.hostname "
            "or judged.ip_address != fenced.ip_address "
            "or judged.instance_id != fenced.instance_id "
            "or judged.claim != fenced.claim",
        ),
        open="none of the fixed seeds draws it any more; ``tests/core/execute/test_last_look.py`` "
        "and the explorer of cleans see it",
    ),
    mutant(
        "C20",
        "after a shutdown whatever stands in the record is freed",
        off(pre_write_check._changed, "record.incarnation != order.incarnation"),
        off(
            pre_write_check._changed,
            "order.is_exception and record.instance_id not in (None, order.instance_id)",
        ),
        off(shutdowns._freed, "order.reason is Reason.UNPAIRED"),
        off(
            pre_write_check._sign_of_life,
            "_is_alive(node, order) and (is_other or may_be_of(node, record, known_as))",
        ),
    ),
    mutant(
        "C20",
        "a twin that is too young to be seen is not waited for",
        instead(pre_write_check._may_have_a_twin, "settings.visible_after == 0", "True"),
        storm=Storm((YOUNG_TWIN, "demand changes", "a node dies unseen"), count=30),
    ),
    mutant(
        "C20",
        "a create has taken effect soon after its claim, or never will",
        instead(signs.age_of_nodes, "quiet_s - create_s", "quiet_s"),
        storm=Storm(
            (YOUNG_TWIN, "creates time out but succeed", "nodes boot slowly", "a node dies unseen"),
            count=40,
        ),
    ),
    mutant(
        "C21",
        "a claim expires like any record",
        off(signs.window_of, "record.claim is not None and waits_for_first_ping(record)"),
    ),
    mutant(
        "C22",
        "startup-fail is reason enough",
        off(
            RecordJudge._past_its_window,
            "not quiet_s > window_s",
            "not quiet_s > window_s and (record.first_ping_at or record.last_ping_at)",
        ),
    ),
    # U. Reuse.
    mutant(
        "U1",
        "another pool's record is used again",
        off(ordered._is_reusable, "not is_ours_to_claim(record, settings)"),
    ),
    mutant(
        "U1",
        "the claim does not compare",
        instead(
            NodeSetupActor._claim,
            "self._context.store.claim(effect.record, claim)",
            "self._context.store.claim("
            "self._context.store.read(effect.record.uuid) or effect.record, claim)",
        ),
        # What stands here for the transaction of records.sql.
        off(CasStore._claim, "held.holds_anything and not renewed"),
        with_=("U3",),
    ),
    mutant(
        "U2",
        "a record that somebody just wrote is used again",
        off(supply.is_locked, "settings.compare_and_set", "True"),
    ),
    mutant(
        "U2",
        "a record that names no pool is claimed where nobody compares",
        off(pools.is_ours_to_claim, "settings.compare_and_set", "True"),
    ),
    mutant(
        "U3",
        "a record that holds something is used again",
        off(ordered._is_reusable, "record.holds_anything or record.problems or record.held"),
    ),
    mutant(
        "U8",
        "whose record was freed pings on, and nobody is told",
        off(false_clean.reported, "sign.life.key not in breaker.reported"),
    ),
    mutant(
        "U7",
        "nobody counts the slots",
        off(Market._refusal, "self.slots.free is not None and booted >= self.slots.free + going"),
    ),
    mutant(
        "U9",
        "a node that the cloud ended in its set-up counts as booting",
        instead(ended.seen_ended, "node is None", "True"),
        storm=Storm(("the cloud ends nodes in their set-up",), count=3),
    ),
    mutant(
        "U9",
        "an unclear create is repeated with another token",
        instead(
            NodeSetupActor._create,
            "self._context.cloud.create(order)",
            "self._context.cloud.create(with_another_token(order))",
            with_another_token=_with_another_token,
        ),
        storm=UNCLEAR,
    ),
    mutant(
        "U9",
        "an unclear create is repeated where the cloud takes no token",
        off(setup._again, "not seen.repeats_creates"),
        storm=UNCLEAR,
    ),
    mutant(
        "U9",
        "an unclear create is repeated at once, and again and again",
        instead(
            setup._again, "min(LONGEST_REPEAT_S, FIRST_REPEAT_S * 2.0 ** min(tries - 1, 16))", "0.0"
        ),
        storm=UNCLEAR,
    ),
    mutant(
        "U9",
        "an unclear create is never repeated",
        off(setup._again, "not seen.repeats_creates", "True"),
        open="its claim stands for a node to be until its window has passed, in truth as well, and "
        "the calm begins with that; ``tests/actors/test_booting.py`` sees it",
    ),
    mutant(
        "U10",
        "a create is sent after the lease is lost",
        instead(
            setup._go_on,
            "confirm_setup(order, seen, record)",
            "but_for_the_lease(confirm_setup(order, seen, record))",
            but_for_the_lease=_but_for_the_lease,
        ),
        *JOURNAL_WITHOUT_THE_LEASE,
        storm=USURPED,
    ),
    mutant(
        "U10",
        "a claim is sent after the lease is lost",
        instead(
            setup._checking,
            "confirm_setup(order, seen, order.record)",
            "but_for_the_lease(confirm_setup(order, seen, order.record))",
            but_for_the_lease=_but_for_the_lease,
        ),
        *JOURNAL_WITHOUT_THE_LEASE,
        storm=USURPED,
    ),
    mutant(
        "U10",
        "a repeated create waits for a worker with its look behind it",
        instead(
            setup._waiting,
            "Step(state, (CheckImage(),))",
            "_go_on(state.order, state.record, state.tries, seen)",
        ),
        storm=USURPED,
    ),
    mutant(
        "U10",
        "a create is sent though a listing since shows that its node is one too many",
        off(setup.confirm_setup, "seen.too_many"),
        off(setup.confirm_setup, "seen.too_dear.get(order.size.name, 0) > 0"),
        open="none of the fixed seeds draws it any more; "
        "``tests/core/execute/explored/test_setup.py`` sees it",
    ),
    # P. Pairing.
    mutant(
        "P1",
        "the incarnation is not compared",
        off(
            pairing._bearer,
            "claim is None or node.tags.incarnation != claim.incarnation",
            "claim is None",
        ),
    ),
    mutant(
        "P1",
        "an instance id pairs whenever it was pinged with",
        instead(
            pairing._same_life,
            "node.tags.record is None and record.first_ping_at is not None "
            "and node.created_at is not None and record.first_ping_at >= node.created_at",
            "True",
        ),
    ),
    mutant("P2", "the first of two candidates pairs", off(pairing._bearer, "len(mine) > 1")),
    mutant(
        "P4",
        "a node is missed from its first ping on",
        instead(unlisted.is_missed, "max(since, born_at + settings.visible_after)", "since"),
        by=("MAX",),
        storm=OUT_OF_SIGHT,
        seed=39,
    ),
    mutant(
        "P4",
        "a created node counts until it is listed, though it was heard and ended",
        off(supply.pending_claims, "(uuid, expected.incarnation) not in heard", "True"),
        by=STILL,
        seed=250000152,
    ),
    mutant(
        "P4",
        "an unclear create may take effect for as long from a restart on as from its claim",
        instead(setup.SetUp.resume, "seen.left_at", "None"),
        by=STILL,
        open="it serves demand until the cloud has denied it, so its time matters for max_nodes "
        "alone: none of the fixed seeds draws that",
    ),
    # L. Listings.
    mutant(
        "L1",
        "a listing that failed is an empty one",
        instead(
            CloudNodeListActor.poll,
            "self._context.cloud.list_nodes()",
            "empty_on_failure(self._context.cloud.list_nodes)",
            empty_on_failure=_empty_on_failure,
        ),
    ),
    mutant(
        "L1",
        "an incomplete listing of the cloud counts as complete",
        instead(CloudNodeListActor.poll, "listed.complete", "True"),
    ),
    mutant(
        "L1",
        "an incomplete listing of records counts as complete",
        instead(RecordListActor.poll, "listed.complete", "True"),
    ),
    mutant(
        "L2",
        "an adapter without proof may authorise",
        off(preconditions._authorised, "not settings.may_authorise"),
    ),
    mutant(
        "L3",
        "a listing that lost most of what was known is believed",
        off(
            breaker.collapses,
            "known >= COLLAPSE_FLOOR and lost > settings.collapse_fraction * known",
        ),
    ),
    mutant(
        "L4",
        "a listing that contradicts itself is decided on",
        off(Impossible.too_many, "len(self.ids) > IMPOSSIBLE_FRACTION * self.listed"),
    ),
    # D. Nodes.
    mutant(
        "D3",
        "one denial is gone, however soon",
        off(shutdowns.judge_gone, "visible_after == 0", "True"),
    ),
    mutant(
        "D3",
        "an accepted destroy is gone",
        instead(
            NodeShutdownActor._carry_out,
            "self._context.cloud.destroy(node_id)",
            "self._context.cloud.destroy(node_id) and Outcome.GONE",
        ),
    ),
    mutant("D7", "an unpaired node is destroyed at once", off(nodes._unpaired, UNPAIRED_LONG)),
    mutant(
        "D8",
        "silence counts while the store is down",
        off(history.store_answered, "0.0 <= gap <= settings.poll_stale_after", "True"),
        off(history._answered_by, "0.0 < gap <= settings.poll_stale_after", "True"),
    ),
    mutant(
        "D9",
        "any number is destroyed in one cycle",
        off(ordered.shutdown_orders, "capped and room <= 0"),
    ),
    mutant(
        "D9",
        "a wave of silence opens no breaker",
        off(
            breaker.mass_silence,
            "population >= COLLAPSE_FLOOR and turned > settings.collapse_fraction * population",
        ),
        storm=Storm(("all nodes lose the network", "a node freezes", "nodes boot slowly")),
    ),
    mutant(
        "D10",
        "a node whose record is not listed is destroyed at once",
        off(
            nodes._unpaired,
            UNPAIRED_LONG,
            f"({UNPAIRED_LONG}) and any(one.uuid == node.tags.record "
            "for one in facts.history.records.items)",
        ),
    ),
    mutant(
        "D10",
        "a node loses the record that only named it, and is destroyed at once",
        off(nodes_since.pairing_seen, "before.named and node_id not in named"),
        seed=438001474,
    ),
    mutant(
        "D13",
        "a created node that no listing shows is not asked for",
        off(unlisted._is_missing, "overdue_s(record, snapshot, settings) > 0"),
        by=STILL,
        storm=NEVER_LISTED,
        open=(
            "the pre-write check of its expired claim finds the node, and the node ends within the "
            "bound; ``tests/core/observe/test_unlisted.py`` notices that nobody asked before"
        ),
    ),
    mutant(
        "D13",
        "a created node that the cloud has, and that no listing shows, is left to itself",
        off(unlisted.look_for_unlisted, "node is not None"),
        by=STILL,
        storm=NEVER_LISTED,
    ),
    mutant(
        "D4",
        "what a node pins is not written down",
        instead(
            LeftoverBook.enter,
            "self._context.journal_writer.enter([ledger.entries[pin.key] for pin in pins])",
            "True",
        ),
    ),
    mutant(
        "D4",
        "one listing without a node is enough to release what it pins",
        off(
            leftovers.next_release,
            "(unsettled := _unsettled(entry, ledger, claimed, snapshot, settings)) is not None",
        ),
        storm=OUTLIVED,
    ),
    # O. Operators.
    mutant(
        "O4", "a paused pool goes on", off(preconditions._running, "snapshot.paused is not None")
    ),
    mutant(
        "O5",
        "a cordoned node goes as idle, down or unpaired like any other",
        instead(nodes._not_cordoned, "of_node(facts.snapshot.drains, subject.node)", "None"),
        storm=Storm(("an operator cordons nodes", "a node is stopped", "a node freezes"), count=30),
    ),
    mutant(
        "O7",
        "a parked pool boots for its demand",
        off(Market._standing_refusal, "snapshot.parked is not None"),
        storm=PARKING,
    ),
    mutant(
        "O7",
        "nobody knows after a restart that the pool is parked",
        instead(
            kept._write_marks,
            "codec_of(Marks).encode(marks)",
            "codec_of(Marks).encode(replace(marks, pool={}))",
        ),
        storm=PARKING,
    ),
    # R. Restart.
    mutant(
        "R1", "what a former run left open is not taken up", instead(Runner.load, "intents", "()")
    ),
    mutant(
        "R4",
        "what a create was answered is forgotten with the run",
        instead(Recovery._expect, "expected_again(answers, ends, waiting, now, settings)", "{}"),
        open="an operator has to take a node's tags in the seconds between its create and the end "
        "of that run; ``tests/actors/test_recovery.py`` sees it",
    ),
    # Progress: what a manager that does nothing breaks.
    mutant(
        "C7",
        "every poll is stale, always",
        instead(preconditions.stale_poll, "age > settings.poll_stale_after", "True"),
        by=STILL,
    ),
    mutant(
        "U1",
        "nothing is ever booted",
        off(ordered.boot_orders, "not wants.boots", "True"),
        by=STILL,
    ),
    mutant(
        "T1",
        "the store's clock is never trusted again after a step",
        instead(MeasuredClock.read, "min(self.agreed + 1, CLOCK_AGREE_POLLS)", "self.agreed"),
        by=STILL,
    ),
    mutant(
        "T1",
        "ages count time before a jump of the clock that they are measured by",
        instead(
            MeasuredClock.read,
            "changed(first_reading(seen), agreed=1, known_since=seen.boottime)",
            "changed(first_reading(seen), agreed=1, known_since=self.known_since)",
        ),
        seed=49,
        storm=ONE_DATE,
        by=("D1", "D15"),
    ),
    mutant(
        "T1",
        "after a jump a node may be older than its claim",
        off(signs.launched_for, "wall.has_jumped or clock.has_jumped"),
        open="it shows only where a node that is made long after the jump says that it is down, or "
        "is destroyed and denied, within a minute; ``tests/core/observe/test_jumps.py`` sees it",
    ),
    mutant(
        "T1",
        "a first ping ahead of a clock that was set back is young until that clock is there again",
        off(signs.age_of_nodes, "age_s < 0.0 or first <= (record.last_ping_at or 0.0)"),
        by=STILL,
        storm=SET_BACK,
    ),
    mutant(
        "B2",
        "destroys go on while the breaker is open",
        instead(ordered.shutdown_orders, BLOCKED, BUT_FOR_THE_BREAKER),
        instead(destroy.confirm_shutdown, BLOCKED, BUT_FOR_THE_BREAKER),
        off(
            destroy.confirm_shutdown,
            "snapshot.breaker.is_open or snapshot.breaker.generation != order.breaker_generation",
        ),
        storm=Storm(
            ("a living node is written off", "store writes fail", "demand changes"),
            breaks="A1",
            count=14,
        ),
    ),
    mutant(
        "B3",
        "a collapse is over only by an operator's reset",
        off(breaker.after_listing, "is_back or part.back | part.confirmed >= lost"),
        off(breaker.after_answers, "part.back | part.confirmed >= part.ids"),
    ),
    mutant(
        "B3",
        "mass silence is over only by an operator's reset",
        instead(
            breaker.after_silence,
            "len(part.ids - no_more - ended) > settings.collapse_fraction * len(part.ids)",
            "True",
        ),
    ),
    mutant(
        "B3",
        "mass silence is over where nothing tells any more that the nodes are ill",
        instead(
            node_view.recovered,
            "(is_well(view, view.record) or suspended_word(view.record, snapshot, settings))",
            "True",
        ),
        seed=64,
    ),
    mutant(
        "B3",
        "mass silence is over once one node is heard",
        instead(
            breaker.after_silence,
            "len(part.ids - no_more - ended) > settings.collapse_fraction * len(part.ids)",
            "not part.ids & no_more",
        ),
        seed=110,
    ),
    mutant(
        "B3",
        "a collapse of the cloud's listing is over with the next one",
        instead(
            breaker.after_listing,
            "is_back or part.back | part.confirmed >= lost",
            "cloud or is_back",
        ),
        storm=Storm(("cloud list short", "a zone vanishes from sight", "demand changes"), count=12),
    ),
    mutant(
        "B3",
        "a collapse of the records' listing is over with the next one",
        instead(
            breaker.after_listing,
            "is_back or part.back | part.confirmed >= lost",
            "not cloud or is_back",
        ),
        storm=Storm(("store list short", "demand changes"), count=12),
    ),
    mutant(
        "B3",
        "one denial of a lost node confirms its end",
        instead(
            breaker.after_answers,
            "asked_at - part.opened_at > settings.visible_after "
            "and asked_at - denied.setdefault(node_id, at) >= ASK_AGAIN_S",
            "True",
        ),
        storm=Storm(("all nodes die", "demand changes"), count=12),
    ),
    mutant(
        "B3",
        "a false clean is over while its node lives",
        instead(breaker.with_changed, "part.back | part.confirmed >= part.ids", "True"),
        storm=Storm(("a living node is written off", "demand changes"), breaks="A1", count=12),
    ),
    mutant(
        "B3",
        "failed writes are over with the next record poll",
        instead(
            writes.after_poll,
            "rate_limits.may_try_writes(breaker, at, settings)",
            "breaker.is_open",
        ),
        storm=Storm(("store writes fail", "demand changes", "a node dies unseen"), count=12),
    ),
    mutant(
        "B3",
        "a breaker is forgotten at a restart",
        off(Recovery._take, "breaker is not None"),
        storm=Storm(
            ("manager killed", "all nodes lose the network", "a living node is written off"),
            count=12,
        ),
    ),
    mutant(
        "B3",
        "a false clean is over only by an operator's reset",
        off(breaker.with_changed, "part.back | part.confirmed >= part.ids"),
    ),
    mutant(
        "B3",
        "a clock set back during a reboot puts the breaker's times ahead",
        instead(kept.breaker_from, "moved_by(data, now)", "0.0"),
        seed=230000591,
    ),
    mutant(
        "B3",
        "no operator's reset closes it",
        instead(PoolOrders.reset_breaker, "breakers.reset(breaker, self._context.now)", "breaker"),
    ),
    mutant(
        "B5",
        "a size rests never, however many of it come to nothing",
        instead(
            boot_loops.after_failure, "streak.failed >= SIZE_LOOP and at >= streak.until", "False"
        ),
        storm=NEVER_UP,
    ),
    mutant(
        "B5",
        "a size rests never where its records are Slurm's nodes",
        off(boot_loops.Loops.resting_until, "until > at", "at == 0.0"),
        storm=NO_SLURMD,
    ),
    mutant(
        "B5",
        "each rest of a size is as short as the first",
        instead(
            boot_loops.Streak.rested,
            "min(LONGEST_REST_S, first_s * 2.0 ** min(self.rests, 32))",
            "first_s",
        ),
        storm=TAKEN_BACK,
    ),
    mutant(
        "B5",
        "after ten over all sizes, many are booted at once",
        instead(boot_loops.Loops.probing, "self.pool.failed >= POOL_LOOP", "False"),
        storm=NEVER_UP,
    ),
    mutant(
        "B5",
        "the next probe does not wait for twice as long",
        instead(
            boot_loops.after_probe,
            "replace(loops, pool=loops.pool.rested(at, boot_fail_after))",
            "loops",
        ),
        storm=NEVER_UP,
    ),
    mutant(
        "B5",
        "a node that was given up is no failed boot",
        instead(
            state._after_gone,
            "gone.reason in FAILED_BOOTS or _ended_in_setup(gone, state.history)",
            "False",
        ),
        storm=Storm(("no node ever boots",), count=2),
    ),
    mutant(
        "B5",
        "a node that the cloud took back is no failed boot",
        instead(boot_loops.nodes_ended, "replace(limits, loops=loops)", "limits"),
        storm=TAKEN_BACK,
    ),
    mutant(
        "B5",
        "a node that ends while its claim is told its id is neither told nor counted",
        instead(
            ended.seen_ended,
            "not is_shut_down and not _is_our_doing(node_id, key, snapshot)",
            "not action and not _is_our_doing(node_id, key, snapshot)",
        ),
        seed=993200298,
    ),
    mutant(
        "B5",
        "the cloud's own reason is not told",
        instead(EventLog.nodes_ended, "node.why", "None"),
    ),
    mutant(
        "B5",
        "the plan that counts the fifth boots one more",
        instead(
            plan._planned,
            "Market(supply, snapshot, settings, slots, seats)",
            "Market(supply, changed(snapshot, limits=replace(snapshot.limits, "
            "loops=NONE)) if ended else snapshot, settings, slots, seats)",
        ),
        storm=TAKEN_BACK,
    ),
    mutant(
        "B5",
        "a streak outlives no restart",
        instead(boot_loops.joined, "kept if own.are_none else own", "own"),
        storm=NEVER_UP,
    ),
    mutant(
        "B5",
        "a node that ended over a restart is no failed boot",
        instead(
            boot_loops.nodes_ended,
            "one.life not in loops.counted",
            "one.life not in loops.counted and one.record.uuid in snapshot.claimed_sizes",
        ),
        storm=NEVER_UP,
    ),
    mutant(
        "B5",
        "a node that comes up ends no rest",
        instead(
            boot_loops.after_polls,
            "after_boot(loops, size.name if size is not None else named)",
            "loops",
        ),
        by=STILL,
        storm=NEVER_UP,
    ),
    mutant(
        "D7",
        "an unpaired node is never destroyed",
        off(nodes._unpaired, UNPAIRED_LONG, "True"),
        by=STILL,
    ),
    mutant(
        "D8",
        "a node that never pinged is booting for ever",
        off(nodes._heard_of, "silent_s <= limit_s or facts.clock is None", "True"),
        by=STILL,
    ),
    mutant(
        "D1",
        "a node that is listed as stopped once is destroyed at once",
        off(nodes._up, "stopped_s < settle_s"),
        storm=Storm(("a node is stopped",), count=12),
    ),
    mutant(
        "D1",
        "a node that was started again is as old as the silence before that",
        instead(
            Silence.is_past_grace,
            "max(self.age_s, min(self.silent_s, self.seen_s)) > self.grace_s",
            "max(self.age_s, self.silent_s) > self.grace_s",
        ),
        storm=Storm(
            (*("a node is stopped",) * 3, "cloud list duplicated", "the store's clock steps"),
            count=14,
        ),
    ),
    mutant(
        "D1",
        "an idle node is never shut down",
        instead(
            Market.trade,
            "frozenset(view.node.id for view in unwanted if view.surplus_if_idle)",
            "frozenset()",
        ),
        by=STILL,
    ),
    mutant(
        "D14",
        "spare nodes are never booted",
        instead(Market.trade, "self._below_spare(spares)", "[]"),
        by=STILL,
    ),
    mutant(
        "D14",
        "no spare node makes room",
        instead(
            spares.spares_of,
            "kept > 0 and has > 0 and (nodes > 0 or (money > 0 and size.price))",
            "False",
        ),
    ),
    mutant(
        "D14",
        "more spare nodes are kept than the file wants",
        instead(
            Market.trade,
            "{name: one.kept for name, one in spares.items()}",
            "{name: one.kept + 2 for name, one in spares.items()}",
        ),
    ),
    mutant(
        "D6",
        "how a create that went on was refused is not read",
        instead(
            setup._finishing,
            "_not_created(state, error, seen)",
            "created_as(order, record, created)",
        ),
    ),
    mutant(
        "B2",
        "a create that goes on is asked for, and what it left removed, whatever the breaker says",
        instead(setup._asked, "_may_ask(state.record, listed or node, seen)", "True"),
    ),
    mutant(
        "D15",
        "a busy node is replaced",
        instead(rotation._Turn._is_free, "view.verdict.reason in IDLE", "True"),
        instead(ordered._asking, "view.surplus_if_idle", "True"),
    ),
    mutant(
        "D15",
        "a replacement in vain stops nothing",
        instead(
            rotation._Turn._next, "is_in_vain(view.node, view.record, self.size, snapshot)", "False"
        ),
    ),
    mutant(
        "U12",
        "more nodes of one job than max_nodes are booted as far as there is room",
        off(wishes._Weighing._causes, "job.count > settings.max_nodes"),
        storm=Storm(("a job that fits no size",), count=4),
    ),
    mutant(
        "U12",
        "the last job of the queue is served first",
        instead(wishes.weigh, "snapshot.demand or ()", "(snapshot.demand or ())[::-1]"),
    ),
    mutant(
        "U12",
        "the dearest size is booted first, whoever waits for it",
        instead(
            Market.trade,
            "self._grant(lots, refused, [])",
            "self._grant(sorted(lots, key=lambda lot: -(lot.size.price or 0)), refused, [])",
        ),
        storm=LARGER,
    ),
    mutant(
        "U12",
        "a later job takes the room under max_total_price that an earlier one waits for",
        instead(
            Market._grant, "reason is Reason.AT_MAX_PRICE and self._gets_its_turn(size)", "False"
        ),
        storm=LARGER,
    ),
    mutant(
        "U12",
        "nobody is told of a job that can't be had",
        instead(
            DemandLog._tell_unsatisfiable,
            "WARNING if is_due and logged <= JOBS_TOLD else DEBUG",
            "DEBUG",
        ),
        storm=Storm(("a job that fits no size",), count=4),
    ),
    mutant(
        "D16",
        "an idle node serves no job that waits",
        instead(wishes._Weighing._serve, "self._packing.take(job, one, lacks)", "()"),
    ),
    mutant(
        "D16",
        "min_nodes counts no node that there is",
        instead(
            Market.trade,
            "max(0, self.settings.min_nodes - there)",
            "max(0, self.settings.min_nodes - len(boots))",
        ),
    ),
    mutant(
        "D16",
        "a drained or reserved node is a lack of min_nodes",
        instead(
            supply.Supply._count_views, "not view.counts", "not view.counts or reason in SET_ASIDE"
        ),
        storm=Storm(
            ("somebody drains all nodes", "all nodes are reserved for maintenance"),
            count=4,
            dispatching=Dispatching(15.0, 200.0),
        ),
    ),
    mutant(
        "U12",
        "a node boots under a name that the scheduler lacks",
        instead(slots.next_names, "name not in known", "False"),
        storm=NAMELESS,
    ),
    mutant(
        "U12",
        "what min_nodes lacks is powered up before the nodes that Slurm waits for",
        instead(
            Market.trade,
            "self._grant(lots, refused, [])",
            "self._grant([Lot(self._cheapest(), Reason.BELOW_MIN_NODES, "
            "max(0, self.settings.min_nodes - self.supply.serving)), *lots], refused, [])",
        ),
        storm=SPARE_SEATS,
    ),
    mutant(
        "U14",
        "a name that Slurm itself switched off is told at its machine's end, however late",
        instead(shutdowns._gone, "(Reason.UNPAIRED, Reason.SUSPENDED)", "(Reason.UNPAIRED,)"),
        instead(shutdowns._mark_down, "life is not None and not life.waits", "False"),
        seed=999002997,
    ),
    mutant(
        "D17",
        "a node that pings, and never joins its scheduler, stays for ever",
        instead(
            nodes._joins, 'not measures or measures["unjoined_s"] <= measures["limit_s"]', "True"
        ),
        storm=UNJOINED,
    ),
    mutant(
        "D17",
        "who joined its scheduler is ended as never joined once that lists its name no more",
        instead(scheduled._after_joins, "node.responds", "False"),
        storm=NAMELESS,
    ),
    mutant(
        "D15",
        "the next node goes though the cloud refused the one in place of the one before",
        instead(Market.trade, "self._waited_for(lots, refused)", "{}"),
        storm=Storm(("no replacement can be had", "the image changes"), count=2),
    ),
    mutant(
        "D15",
        "another one goes while min_nodes counts on nodes that are still to come",
        instead(rotation._Turn._unready, "self._fills_min_nodes()", "False"),
        seed=995002215,
    ),
    mutant(
        "D15",
        "outdated nodes stay for ever",
        instead(
            Market.trade,
            "self._replaced(wishes, kept, self._waited_for(lots, refused), gone)",
            "NO_ROTATIONS",
        ),
    ),
    mutant(
        "D15",
        "a node that is as new ones are is replaced, too",
        instead(idle.outdated, "node.image != image", "True"),
    ),
    mutant(
        "D15",
        "the next node does not wait until the one before is gone and refilled",
        instead(rotation._Turn._next, "unready is not None", "False"),
        instead(rotation._Turn._next, "flight is not None and flight.kind == ROTATING", "False"),
        instead(rotation._Turn._next, "self.size.name in lacking", "False"),
        storm=Storm(("no replacement can be had", "the image changes"), count=2),
    ),
    mutant(
        "D12",
        "any ping that says idle is believed, however old",
        instead(
            idle.doubt,
            "keep(node_id, Reason.IDLE_WORD_OLD, word_s=word_s, unwanted_s=now - since)",
            "None",
        ),
        by=WORK,
    ),
    mutant(
        "D12",
        "a ping that said idle before the node was unwanted counts",
        instead(
            idle.doubt, "stamp is not None and stamp - clock.error_s > clock.now(since)", "True"
        ),
        by=WORK,
    ),
    mutant(
        "D12",
        "a node goes once it was told to drain, before it says that it did",
        instead(idle.doubt, "record.drain == order == record.drained", "record.drain == order"),
        by=WORK,
    ),
    mutant(
        "D12",
        "a node without a slot is told to drain, and never hears it",
        off(idle.can_drain, "record.slot_number is not None and record.slot_number > 0", "True"),
        by=STILL,
        seed=360002344,
    ),
    mutant(
        "U8",
        "what was freed by mistake is never given back",
        off(plan._restores, "verdict.kind is Kind.RESTORE"),
        storm=Storm(("a living node is written off",), breaks="A1", count=3),
    ),
    mutant(
        "L5",
        "once read-only it is read-only for ever",
        instead(Identities._compare, "_without(mismatched, kind)", "mismatched"),
        by=STILL,
    ),
    mutant(
        "R1",
        "a journal that failed once is not written again",
        off(JournalWriter.mend, "not self._journal.retry()", "True"),
        by=STILL,
    ),
    mutant(
        "D12",
        "an idle node goes without a drain in its scheduler",
        instead(idle.doubt, "is_drained(record, snapshot, settings)", "True"),
        NOT_ASKED_AGAIN,
        by=WORK,
        storm=DISPATCHED,
    ),
    mutant(
        "D12",
        "an idle node of Slurm's seats goes without a drain",
        instead(idle.doubt, "is_drained(record, snapshot, settings)", "True"),
        NOT_ASKED_AGAIN,
        by=WORK,
        storm=SEATED,
    ),
    mutant(
        "D12",
        "a node that was drained in its scheduler is never given work again",
        instead(
            ordered._order_of,
            "word.is_drained_by_us and not has_work and not stays(node_id, record, snapshot)",
            "False",
        ),
        by=STILL,
        storm=DISPATCHED,
    ),
    mutant(
        "D12",
        "a node is never drained in its scheduler",
        instead(ordered._is_to_go, "view.verdict.reason is Reason.DRAIN_AWAITED", "False"),
        by=STILL,
        storm=DISPATCHED,
    ),
    mutant(
        "T6",
        "the scheduler's word that a silent node works is not heard",
        instead(
            scheduled.joined,
            "word is not None and word.node.state is BUSY and (is_heard or word.node.responds)",
            "False",
        ),
        instead(
            destroy._not_bad,
            "reported is not None and reported.state is WorkerState.BUSY and reported.responds",
            "False",
        ),
        by=WORK,
        storm=UNHEARD,
    ),
    mutant(
        "T6",
        "a name is marked down once its record was freed, whoever has it now",
        instead(errands._gone_nodes, "node.name in named", "False"),
        instead(errands._gone_nodes, "not is_left(node)", "False"),
        instead(
            SchedulerActor._run,
            "any(one.name == name and errands.is_left(one) for one in listed.items)",
            "True",
        ),
        by=WORK,
        storm=DYING,
    ),
    mutant(
        "NODE_LOST",
        "a node that ended at work is told to nobody",
        off(ended.seen_ended, "not is_shut_down and not _is_our_doing(node_id, key, snapshot)"),
        storm=LOSING,
    ),
)
