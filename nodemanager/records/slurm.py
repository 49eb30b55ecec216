"""Slurm's CLOUD nodes as the record store: no Arvados, no registry, no pings (records/api.py).

scontrol has no conditional writes. So every write reads the node first, writes, and reads it back,
and a clean stands behind a fence: the node is drained, so that Slurm starts no work on one that
comes back meanwhile.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from nodemanager.clock import Clock
from nodemanager.core.model.world import Claim, Guarantee, LatePing, Listed, Record, StoreTime
from nodemanager.errors import (
    Conflict,
    NoFreeSlot,
    NoSuchRecord,
    SchedulerError,
    StoreError,
    StoreRefused,
    before_writing,
)
from nodemanager.program import Ended, inherited, run
from nodemanager.records import slurm_nodes as slurm
from nodemanager.records import wire
from nodemanager.records.slurm_nodes import SlurmNode

REASON = "nodemanager: "
_REFUSED = re.compile(r"invalid|denied|not permitted|unrecognized|unknown|too many", re.IGNORECASE)
_AS_IT_IS = re.compile(r"invalid node state", re.IGNORECASE)
_SAID = re.compile(r"^(\w+) += (.*)$", re.MULTILINE)
_AS_OF = re.compile(r"^Configuration data as of (\d+)$", re.MULTILINE)
_FORBIDDEN = frozenset({"SLURM_CLUSTERS"})


class _Sign(NamedTuple):
    """When a slurmd, begun at `start`, was last seen alive, or first seen not `alive`."""

    start: str | None
    at: float
    alive: bool


class SlurmRecordStore:
    """The CLOUD nodes of the cluster of `conf`, or of the machine's own slurm.conf.

    `timeout` is in seconds, for each call of scontrol; a question needs two, a write up to seven.
    `partitions` are those whose nodes are slots; none is all of them. A node that names no pool is
    of `pool`: managers that share a Slurm must have partitions that share no node. `call` runs
    scontrol, as program.run does.
    """

    provider = "slurm"
    guarantee = Guarantee.FENCED
    may_authorise = True
    tells_drain = False

    def __init__(
        self,
        timeout: float,
        clock: Clock,
        *,
        conf: str | None = None,
        partitions: Sequence[str] = (),
        pool: str | None = None,
        call: Callable[..., Ended] = run,
    ) -> None:
        self._pool = pool
        self._call = call
        self.settle_wait = timeout
        self._timeout = timeout
        self._clock = clock
        self._partitions = frozenset(partitions)
        kept = {name: said for name, said in inherited().items() if name not in _FORBIDDEN}
        self._environment = {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        if conf is not None:
            self._environment["SLURM_CONF"] = conf
        self._signs: dict[str, _Sign] = {}
        """By the name of each node that has come."""
        self._lock = threading.RLock()

    def store_id(self) -> str:
        """Slurm's own name of its cluster, which slurmdbd and its state files hold it to."""
        return f"slurm:{self._config()[0]}"

    def slots(self) -> int | None:
        return len(self._listed()[1])

    def store_time(self, *, writes: bool = True) -> StoreTime:
        """The controller's clock, which tells whole seconds; nothing is written for it."""
        before = self._clock.boottime()
        _, at = self._config()
        after = self._clock.boottime()
        return StoreTime(at + 0.5, (before + after) / 2, (after - before) / 2 + 0.5)

    def list_records(self) -> Listed[Record]:
        """Every CLOUD node, each once.

        Raises StoreError where slurm.conf lets slurmctld leave out those that are powered down.
        """
        cluster, found, at = self._listed()
        records = [self._record(cluster, node, at) for node in found]
        problems = tuple(f"{one.uuid}: {text}" for one in records for text in one.problems)
        twice = len({record.uuid for record in records}) < len(records)
        if twice:
            problems = (*problems, "a node is listed twice")
        return Listed(tuple(records), complete=not twice, problems=problems)

    def read(self, uuid: str) -> Record | None:
        cluster, found, at = self._listed()
        node = dict(slurm.by_uuid(cluster, found)).get(uuid)
        return None if node is None else self._record(cluster, node, at)

    def create(self, claim: Claim) -> Record:
        """Claim a free node of the claim's size: this store's records are made in slurm.conf.

        A node is of the size that its feature `instancetype=NAME` names, or of any without one.
        """
        with self._lock:
            with before_writing():
                cluster, found, at = self._listed()
            for node in found:
                made = self._record(cluster, node, at)
                if made.incarnation == claim.incarnation:
                    return made
            for node in found:
                free = self._record(cluster, node, at)
                fits = not node.sizes or claim.size in node.sizes
                fits = fits and free.pool in (None, claim.pool)
                if fits and not free.holds_anything and not free.problems:
                    return self._claim(node, free, claim)
        raise NoFreeSlot(f"no CLOUD node of Slurm is free for size {claim.size}")

    def claim(self, record: Record, claim: Claim) -> Record:
        with self._lock:
            node, now = self._unmoved(record)
            wire.refuse_unfit(now, claim, renewed=now.incarnation == claim.incarnation)
            return self._claim(node, now, claim)

    def _claim(self, node: SlurmNode, now: Record, claim: Claim) -> Record:
        renewed = now.incarnation == claim.incarnation
        with before_writing():
            _, at = self._config()
        kept = {
            slurm.POOL: claim.pool,
            slurm.CLAIM: wire.claim_json(claim),
            slurm.AT: at,
            # Only a slurmd that starts after this is a sign of this life.
            slurm.START: node.kept.get(slurm.START) if renewed else node.start,
        }
        self._update(node.name, f"Extra={slurm.extra_of(kept)}")
        if node.is_off and not renewed:
            # Slurm must expect the slurmd that will register, and let no other job begin it.
            self._update(node.name, "State=POWER_UP", or_as_it_is=True)
        _, after = self._node(now.uuid)
        if after.claim != claim:
            raise Conflict(f"{node.name} bears another claim")
        return after

    def fence(self, record: Record) -> Record:
        """Drain the node, so that no work begins on it should it come back (C12)."""
        node, now = self._unmoved(record)
        # The fence's own reason must not look like a later sign of life.
        quiet = now.last_ping_at if now.last_ping_at is not None else 0.0
        kept = {**node.kept, slurm.QUIET: quiet}
        told = (f"Extra={slurm.extra_of(kept)}", "State=DRAIN", f"Reason={REASON}fenced")
        self._update(node.name, *told)
        after, fenced = self._node(now.uuid)
        if not fenced.fenced or "drain" not in after.words:
            raise StoreError(f"the fence of {node.name} did not hold")
        return fenced

    def unfence(self, record: Record, ping_secret: str | None) -> Record:
        """Give the node work again, where there still is a fence; change nothing else."""
        with before_writing():
            node, now = self._node(record.uuid)
        if not now.fenced:
            return now
        kept = {key: said for key, said in node.kept.items() if key != slurm.QUIET}
        if "drain" in node.words:
            self._update(node.name, "State=UNDRAIN")
        self._update(node.name, f"Extra={slurm.extra_of(kept)}")
        _, after = self._node(now.uuid)
        if after.fenced:
            raise StoreError(f"the fence of {node.name} was not lifted")
        return after

    def clean(self, record: Record, reason: str) -> Record:
        """Power the node down in Slurm, and forget its claim; call `fence` before (C12).

        What ran there is requeued, and Slurm may power the node up for a job at once. Raises
        Conflict where a node that has come is neither drained nor down, whoever lifted the fence.
        """
        node, now = self._unmoved(record)
        if node.is_off:
            # Refused for a node that is neither down nor drained.
            self._update(node.name, "State=RESUME", or_as_it_is=True)
        elif "powering_down" not in node.words:
            if node.has_come and not node.is_down and "drain" not in node.words:
                # By a late order of ours, perhaps. It may be given work, which this would end. One
                # that has not come runs nothing yet.
                raise Conflict(f"{node.name} may get work again: its fence was lifted")
            self._update(node.name, "State=POWER_DOWN_FORCE")
        with before_writing():
            _, at = self._config()
        kept = {
            slurm.POOL: now.pool,
            slurm.AT: at,
            slurm.START: node.start,
            slurm.ACTION: reason[:200],
        }
        self._update(node.name, f"Extra={slurm.extra_of(kept)}")
        _, after = self._node(now.uuid)
        if after.holds_anything:
            raise StoreError(f"{node.name} came back while it was freed")
        return after

    def delete(self, record: Record) -> None:
        raise StoreRefused("the records of this store are the nodes of slurm.conf: remove it there")

    def drain(self, record: Record, *, on: bool) -> Record:
        raise StoreRefused("nodes of this store send no pings: the scheduler drains them")

    def late_pings(self) -> tuple[LatePing, ...]:
        """Always empty: a slurmd that comes back shows as a record that holds its slot again."""
        return ()

    def restore(self, record: Record, before: Record) -> Record:
        """Give the node its claim back; its slot is its own."""
        if before.uuid != record.uuid or before.claim is None or before.problems:
            raise StoreRefused(f"the pre-image of record {record.uuid} is incomplete")
        node, now = self._unmoved(record)
        if now.claim is not None:
            raise StoreRefused(f"record {now.uuid} holds something again")
        kept = {
            slurm.POOL: before.claim.pool,
            slurm.CLAIM: wire.claim_json(before.claim),
            slurm.AT: before.claim.at,
        }
        self._update(node.name, f"Extra={slurm.extra_of(kept)}")
        _, after = self._node(now.uuid)
        if after.claim != before.claim:
            raise StoreError(f"record {now.uuid} was written to after it was restored")
        return after

    def ping_url(self, record: Record) -> str:
        """What takes the ping URL's place in user data: the name that its slurmd must have."""
        if record.claim is None or record.hostname is None:
            raise StoreRefused(f"record {record.uuid} is not claimed")
        return record.hostname

    def probe(self) -> bool:
        """Whether slurmctld answers, which is where slurmds register (D8)."""
        try:
            self._config()
        except StoreError:
            return False
        return True

    def close(self) -> None:
        """Do nothing: no connection outlives its question."""

    def _record(self, cluster: str, node: SlurmNode, at: float) -> Record:
        return slurm.record(cluster, node, self._last_sign(node, at), self._pool)

    def _last_sign(self, node: SlurmNode, at: float) -> float | None:
        """When Slurm last took the node for alive, or later; None in a life without a slurmd.

        Slurm does not tell when it last heard a node. It tells when it called it down for its
        silence, at most SlurmdTimeout later. Without that, it is when this process first saw it
        not alive: Slurm may have heard it until then.
        """
        if not node.has_come:
            return None
        with self._lock:
            if node.responds:
                self._signs[node.name] = _Sign(node.start, at, alive=True)
                return at
            quiet = node.kept.get(slurm.QUIET)
            if quiet:
                return float(quiet)
            if node.is_down and node.silent_at is not None:
                return node.silent_at
            known = self._signs.get(node.name)
            if known is None or known.alive or known.start != node.start:
                known = self._signs[node.name] = _Sign(node.start, at, alive=False)
            return known.at

    def _unmoved(self, record: Record) -> tuple[SlurmNode, Record]:
        """The current node and record if it has `record.version`; else raises Conflict."""
        with before_writing():
            node, now = self._node(record.uuid)
        if now.version != record.version:
            raise Conflict(f"{node.name} is at version {now.version}, not {record.version}")
        return node, now

    def _node(self, uuid: str) -> tuple[SlurmNode, Record]:
        cluster, found, at = self._listed()
        node = dict(slurm.by_uuid(cluster, found)).get(uuid)
        if node is None:
            raise NoSuchRecord(f"no CLOUD node of Slurm is record {uuid}")
        return node, self._record(cluster, node, at)

    def _listed(self) -> tuple[str, list[SlurmNode], float]:
        """The cluster, its nodes, and the controller's clock right before."""
        cluster, at = self._config()
        output = self._ask("--oneliner", "--all", "show", "node")
        try:
            return cluster, slurm.nodes(output, self._partitions), at
        except ValueError as error:
            raise StoreError(f"scontrol show node: {error}") from error

    def _config(self) -> tuple[str, float]:
        """The cluster's name, and the controller's clock in whole seconds."""
        output = self._ask("show", "config")
        said, as_of = dict(_SAID.findall(output)), _AS_OF.search(output)
        cluster = said.get("ClusterName", "").strip()
        if as_of is None or not cluster:
            raise StoreError("scontrol show config: it tells no cluster or no time")
        if "cloud" not in said.get("PrivateData", "").split(","):
            raise StoreError(
                "slurm.conf needs PrivateData=cloud: without it slurmctld leaves out nodes"
            )
        return cluster, float(as_of[1])

    def _ask(self, *arguments: str) -> str:
        ended = self._run(*arguments)
        if ended.returncode != 0:
            raise StoreError(f"scontrol exited {ended.returncode}: {ended.said}")
        return ended.output.decode("utf-8", "replace")

    def _update(self, name: str, *told: str, or_as_it_is: bool = False) -> None:
        ended = self._run("update", f"NodeName={name}", *told)
        if ended.returncode == 0 or (or_as_it_is and _AS_IT_IS.search(ended.said)):
            return
        kind = StoreRefused if _REFUSED.search(ended.said) else StoreError
        what = " ".join(word.partition("=")[0] for word in told)
        raise kind(f"scontrol update {what} of {name}: {ended.said}")

    def _run(self, *arguments: str) -> Ended:
        environment: Mapping[str, Any] = self._environment
        try:
            return self._call(
                "slurm", ("scontrol", *arguments), self._timeout, environment=environment
            )
        except SchedulerError as error:
            raise StoreError(str(error)) from error
