"""How long each kind of progress may take at most, from a pool's settings; seconds.

`TABLE` says the same in words, for doc/fault-model.rst. A round is the longest gap between two
complete listings of one source that was seen in the calm: the poll interval in force and the
listing's own time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nodemanager.core.model.settings import ASK_AGAIN_S, CLOCK_AGREE_POLLS, Settings
from nodemanager.core.model.world import Record
from tests.simulation.machine import Habits

SLACK_S = 20.0
"""For the messages and calls of one action, in fair weather."""
CALL_S = 60.0
"""The longest time-out of a call: one that was under way when the calm began ends by then."""
PING_SPREAD = 1.2
"""A node pings up to this much later than every `ping_every`."""
RESET_S = 15.0
"""An operator's command is carried out by then."""
RECOVERS_S = 200.0
"""A manager has both its listings by then, and has asked after all that it inherited."""
FENCE_STANDS_S = 180.0
"""Longer than any fence is up in fair weather: its wait, the last look, and the lift."""
TOLD_S = 300.0
"""A manager has listed the records by then, some times over."""

TABLE = (
    (
        "polls",
        "Every configured poll is answered, whole, and the lease is held",
        "max_poll_time + the time-out of a call",
    ),
    (
        "slot",
        "A slot whose node is gone is free (Liveness)",
        "its window + settle + max(2, absent_listings) rounds + a round for each "
        "max_cleans_per_cycle records + 20 s for its fence where the store can't compare (C12) "
        "+ 3 rounds for the clock to agree (T1)",
    ),
    (
        "wanted",
        "A node is created that demand or min_nodes lacks and that max_nodes, price and slots "
        "leave room for",
        "3 rounds, once what the cloud refused may be asked for again (D6) and a node's end is "
        "settled (settle + max(2, absent_listings) + 1 rounds: C5; before its first ping also "
        "visible_after + 30 s: D3; where it ended sooner than "
        "visible_after past its first ping, from then on), and a busy node is listed "
        "(visible_after past its create; until then it counts as one that a waiting job may get); "
        "anew whenever another pool's set-up takes the last free slot; "
        "+ the rest of a boot loop (B5); + node_stale_after where the store can't compare (U2)",
    ),
    (
        "surplus",
        "An idle node beyond demand, min_nodes or max_nodes is shut down",
        "consecutive_idle_count + 1 words (the longer of a round and the ping interval) + "
        "3 rounds + one turn of shutdown_windows; after action_timeout where a destroy that the "
        "storm's runs sent, or wrote down and never sent, has not ended its node (D3, R1)",
    ),
    (
        "replaced",
        "An idle outdated node that the queue does not want is replaced, one after the other (D15)",
        "as a surplus one, once the one before it has gone and its place is taken: + a turn for "
        "max_shutdowns_per_cycle + 4 rounds + the ping interval + the settling of a node's end",
    ),
    (
        "silent",
        "A node that will never ping (again) is shut down",
        "boot_fail_after, or node_stale_after once it pinged, past its boot grace, + 3 rounds + "
        "action_timeout + a turn for each max_shutdowns_per_cycle of such nodes",
    ),
    (
        "unjoined",
        "A node that pings, and never joins its scheduler, is shut down (D17); where its manager "
        "did not watch it from its boot grace on, an operator is told",
        "boot_fail_after, past its boot grace, + 4 rounds + action_timeout + a turn for each "
        "max_shutdowns_per_cycle of such nodes",
    ),
    (
        "unpaired",
        "A node of ours without a record is shut down (D7). With a scheduler, one whose tags name "
        "no record stays while any name that may be its own is up there: an operator ends it",
        "the longer of boot_fail_after and node_stale_after + 4 rounds + action_timeout + a turn "
        "for each max_shutdowns_per_cycle of such nodes",
    ),
    (
        "cloud_collapsed",
        "The breaker of a cloud listing closes: the lost are listed, or gone by id (B3)",
        "visible_after + 30 s + 4 rounds",
    ),
    (
        "records_collapsed",
        "The breaker of a record listing closes once the lost records are listed (B3)",
        "2 rounds",
    ),
    (
        "mass_silence",
        "The breaker of mass silence closes once those nodes are heard, or ended by id (B3)",
        "a ping interval + visible_after + 30 s + 4 rounds; after action_timeout where one of them "
        "lives on after its destroy (D3)",
    ),
    (
        "false_clean",
        "The breaker of a false clean closes once the life is restored, or its node gone (B3)",
        "visible_after + 30 s + 6 rounds; + node_stale_after where the store can't compare",
    ),
    (
        "writes_fail",
        "The breaker of failed writes closes once a probe write succeeds (B3)",
        "max_poll_time + 2 rounds",
    ),
    (
        "reset",
        "An operator's `breaker reset` closes it for every cause",
        "15 s",
    ),
    (
        "restored",
        "A record freed by mistake is its node's again, where slot and record are still free, no "
        "operator reset the breaker for it (U8), and the node has its tags or its pings name no "
        "other instance than the record did (P1a)",
        "6 rounds + the ping interval; + node_stale_after where the store can't compare",
    ),
    ("told", "Somebody is told that a record was freed and its node pings on (U8)", "300 s"),
    ("inherited", "What a former run left open is taken up (R1)", "200 s"),
    (
        "fence",
        "No node that lives is locked out of its record (C12)",
        "180 s; + node_stale_after, from a manager's start, where its former run may have sent the "
        "clean",
    ),
)
"""Name, what comes, and within which time."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of one pool at one moment. `round_s` and `records` are measured in the world."""

    settings: Settings
    habits: Habits
    fenced: bool
    round_s: float
    records: int
    stops_in: float

    def rounds(self, count: float) -> float:
        return count * self.round_s

    @property
    def ping(self) -> float:
        return self.habits.ping_every * PING_SPREAD + SLACK_S

    @property
    def locked(self) -> float:
        """U2: where the store can't compare, what somebody wrote waits for a whole window."""
        return self.settings.node_stale_after if self.fenced else 0.0

    @property
    def fence(self) -> float:
        """C12: a fence stands for a time-out; those of one cycle, and of the next, side by side."""
        return SLACK_S if self.fenced else 0.0

    @property
    def polls(self) -> float:
        return self.settings.max_poll_time + CALL_S

    @property
    def clock(self) -> float:
        return self.rounds(CLOCK_AGREE_POLLS)

    def slot(self, record: Record) -> float:
        settings = self.settings
        window = settings.node_stale_after
        if record.claim is not None and record.first_ping_at is record.last_ping_at is None:
            window = settings.window_of(record.claim)
        backlog = math.ceil(self.records / settings.max_cleans_per_cycle)
        rounds = self.rounds(max(2, settings.absent_listings) + backlog)
        return window + settings.settle + rounds + self.fence + SLACK_S

    @property
    def settled(self) -> float:
        """C5: from a node's end on, until the pool counts it no more."""
        settings = self.settings
        return settings.settle + self.rounds(max(2, settings.absent_listings) + 1)

    def wanted(self, rest: float) -> float:
        """A listing that shows what lacks, demand's own, and one that settles a claim in doubt.

        A create in doubt is none that lacks: its claim stands for a node to be (U9).
        """
        return self.rounds(3) + self.locked + rest + SLACK_S

    @property
    def surplus(self) -> float:
        """Enough idle words, one of them from after the plan that first wanted the node no more.

        Set-ups under way do not keep it: what demand wants no more is withdrawn (U10).
        """
        settings = self.settings
        words = (settings.consecutive_idle_count + 1) * max(self.round_s, self.ping)
        windows = sum(settings.shutdown_windows)
        return words + self.rounds(3) + windows + SLACK_S

    @property
    def replaced(self) -> float:
        """It goes as a surplus node does, once the one before it is gone and refilled."""
        return self.surplus + self._turns(1) + self.rounds(4) + self.settled + self.ping

    def _turns(self, nodes: int) -> float:
        """The cap of D9: each turn is a destroy, its wait for gone, and both listings."""
        settings = self.settings
        turns = math.ceil(nodes / settings.max_shutdowns_per_cycle)
        return turns * (self.stops_in + settings.max_poll_time + self.rounds(2))

    def silent(self, nodes: int, *, pinged: bool) -> float:
        settings = self.settings
        window = settings.node_stale_after if pinged else settings.boot_fail_after
        return window + self.rounds(3) + settings.action_timeout + self._turns(nodes) + SLACK_S

    def unjoined(self, nodes: int) -> float:
        settings = self.settings
        grace = 2 * settings.boot_fail_after
        return grace + self.rounds(4) + settings.action_timeout + self._turns(nodes) + SLACK_S

    def unpaired(self, nodes: int) -> float:
        settings = self.settings
        window = max(settings.boot_fail_after, settings.node_stale_after)
        return window + self.rounds(4) + settings.action_timeout + self._turns(nodes) + SLACK_S

    @property
    def gone_by_id(self) -> float:
        """D3, for nodes that are asked for by id."""
        return self.settings.visible_after + ASK_AGAIN_S

    def breaker(self, cause: str) -> float:
        return SLACK_S + {
            "cloud_collapsed": self.gone_by_id + self.rounds(4),
            "records_collapsed": self.rounds(2),
            "mass_silence": self.ping + self.gone_by_id + self.rounds(4),
            "false_clean": self.gone_by_id + self.rounds(6) + self.locked,
            "writes_fail": self.settings.max_poll_time + self.rounds(2),
        }.get(cause, 0.0)

    @property
    def restored(self) -> float:
        return self.rounds(6) + self.ping + self.locked + SLACK_S
