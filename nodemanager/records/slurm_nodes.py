"""Slurm's CLOUD nodes, as `scontrol show node` tells them, read as records.

A node's own life is in its Extra, which Slurm keeps and never reads: the pool, the claim, and when
this life began. Liveness is Slurm's word, since nodes of this store send no pings.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.seats import SEAT, SEAT_SIZE
from nodemanager.core.model.worker_words import NO_ANSWER, NOT_RESPONDING, words_of, worker_state
from nodemanager.core.model.world import Claim, Record
from nodemanager.records import wire

MARK = "nodemanager:"
"""What our Extra begins with. Any other Extra is somebody else's."""
CLAIM, POOL, AT, START, ACTION, QUIET = "claim", "pool", "at", "start", "action", "quiet"
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
PREFIX = "slurm"
_FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z]*)=(\S*)")
_EXTRA = re.compile(r" Extra=(\S*)")
_SILENT_AT = re.compile(rf" Reason={NO_ANSWER} \[\S*@(\d+)\]")
"""Any other reason may be older than the node's silence: Slurm leaves that of a drain as it is."""
_OUT = frozenset({"powered_down", "powering_down", "powering_up", "unknown", "future"})
"""With one of these words, a node's slurmd has not registered since, or is about to be ended."""


@dataclass(frozen=True)
class SlurmNode:
    """One CLOUD node; `start` is when its newest slurmd started, by that machine's clock.

    `sizes` are the names of its size, none for a node of any. `kept` is what its Extra has of ours;
    `place` is its place among the CLOUD nodes, from 1.
    """

    name: str
    place: int
    words: frozenset[str]
    start: str | None
    silent_at: float | None
    address: str | None
    sizes: tuple[str, ...]
    partitions: frozenset[str]
    extra: str
    kept: Mapping[str, Any] = field(repr=False)
    problems: tuple[str, ...] = ()

    @property
    def has_come(self) -> bool:
        """Whether a slurmd has registered in this life: not the one known when it began."""
        return self.start is not None and self.start != self.kept.get(START)

    @property
    def is_down(self) -> bool:
        return any(word.startswith("down") for word in self.words)

    @property
    def responds(self) -> bool:
        """Whether Slurm takes it for alive: it may be silent for as long as SlurmdTimeout."""
        return self.has_come and not self.is_down and self.words.isdisjoint(_OUT)

    @property
    def is_off(self) -> bool:
        return "powered_down" in self.words

    @property
    def has_life(self) -> bool:
        return self.kept.get(CLAIM) is not None or self.has_come


def nodes(output: str, partitions: frozenset[str] = frozenset()) -> list[SlurmNode]:
    """The CLOUD nodes of `scontrol --oneliner show node`, of `partitions` unless there are none.

    Times are epoch seconds, as SLURM_TIME_FORMAT=%s prints them. Raises ValueError for a line that
    can't be read.
    """
    found: list[SlurmNode] = []
    for line in output.splitlines():
        if not line.strip():
            continue
        told: dict[str, str] = {}
        for key, said in _FIELD.findall(line):
            # What a reason or a comment says comes last, so the first word counts.
            told.setdefault(key, said)
        if "NodeName" not in told or "State" not in told:
            raise ValueError(f"{line[:60]!r} is no node")
        words = words_of(told["State"])
        its = frozenset(told.get("Partitions", "").split(","))
        if "cloud" in words and (not partitions or partitions & its):
            found.append(_node(line, told, words, its, len(found) + 1))
    return found


def _node(
    line: str, told: Mapping[str, str], words: frozenset[str], its: frozenset[str], place: int
) -> SlurmNode:
    name, start = told["NodeName"], told.get("SlurmdStartTime", "")
    features = told.get("AvailableFeatures", "").split(",")
    sizes = [one.removeprefix(SIZE_FEATURE) for one in features if one.startswith(SIZE_FEATURE)]
    silent = _SILENT_AT.search(line)
    extras = _EXTRA.findall(line)
    kept, problems = _kept(extras)
    address = told.get("NodeAddr")
    return SlurmNode(
        name=name,
        place=place,
        words=words,
        start=start if start.isdigit() else None,
        silent_at=float(silent[1]) if silent else None,
        address=None if address in (None, name, "(null)") else address,
        sizes=tuple(sizes),
        partitions=its,
        extra=extras[-1] if extras else "",
        kept=kept,
        problems=problems,
    )


def _kept(extras: list[str]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    if not extras or extras == ["(null)"] or extras == [""]:
        return {}, ()
    if len(extras) > 1:
        return {}, ("its reason or comment looks like an Extra",)
    if not extras[0].startswith(MARK):
        return {}, ("its Extra is somebody else's",)
    try:
        kept = json.loads(base64.b64decode(extras[0].removeprefix(MARK), b"-_", validate=True))
        if not isinstance(kept, dict):
            raise ValueError("is no object")
        if kept.get(CLAIM) is not None:
            wire.checked_claim(kept[CLAIM])
        for key, kinds in ((POOL, str), (START, str), (AT, int | float), (QUIET, int | float)):
            if kept.get(key) is not None and not isinstance(kept[key], kinds):
                raise ValueError(f"has a strange {key}")
    except ValueError as error:
        return {}, (f"its Extra can't be read: {error}",)
    return kept, ()


def extra_of(kept: Mapping[str, Any]) -> str:
    """The Extra that says `kept`: one word, whatever names are in it."""
    told = {key: said for key, said in kept.items() if said is not None}
    packed = json.dumps(told, separators=(",", ":")).encode()
    return MARK + base64.urlsafe_b64encode(packed).decode()


def uuid_of(cluster: str, name: str) -> str:
    """The uuid of the record that is that node of that cluster, always the same."""
    digest = hashlib.blake2b(f"{cluster}/{name}".encode(), digest_size=16).digest()
    number, letters = int.from_bytes(digest, "big"), ""
    for _ in range(15):
        number, rest = divmod(number, 36)
        letters += ALPHABET[rest]
    return f"{PREFIX}-7ekkf-{letters}"


def version_of(node: SlurmNode) -> str:
    """It changes with every write of ours and with every sign of life, but not by time alone."""
    told = [node.extra, node.start, node.has_come, node.responds, node.is_down]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=12).hexdigest()


def record(
    cluster: str, node: SlurmNode, last_sign: float | None, default_pool: str | None = None
) -> Record:
    """The record that the node is; `last_sign` is when it last lived, on Slurm's clock."""
    claim = _claim(node)
    lives = node.has_life
    at = float(node.kept.get(AT) or 0.0)
    first = max(float(node.start), at) if node.has_come and node.start is not None else None
    pool = node.kept.get(POOL) or default_pool
    return Record(
        uuid=uuid_of(cluster, node.name),
        version=version_of(node),
        slot_number=node.place if lives else None,
        hostname=node.name if lives else None,
        ip_address=node.address if node.has_come else None,
        first_ping_at=first if last_sign is None or first is None else min(first, last_sign),
        last_ping_at=last_sign,
        # A sign of life is a write, as a ping is; else the clock would seem to be set back (T1).
        modified_at=max(at, first or 0.0, last_sign or 0.0),
        worker_state=worker_state(node.words - {NOT_RESPONDING}) if node.responds else None,
        instance_id=None if claim is None else claim.node_id,
        pool=pool,
        claim=claim,
        properties=_properties(node, pool, claim),
        info={wire.LAST_ACTION: node.kept[ACTION]} if node.kept.get(ACTION) else {},
        problems=node.problems,
        fenced=node.kept.get(QUIET) is not None,
    )


def _properties(node: SlurmNode, pool: str | None, claim: Claim | None) -> Mapping[str, Any]:
    properties = {SEAT: node.name, **({SEAT_SIZE: list(node.sizes)} if node.sizes else {})}
    if pool is not None:
        properties[wire.POOL] = pool
    return properties if claim is None else wire.claimed(properties, claim)


def _claim(node: SlurmNode) -> Claim | None:
    said = node.kept.get(CLAIM)
    return None if said is None else wire.parse_claim(said)


def by_uuid(cluster: str, found: list[SlurmNode]) -> Iterator[tuple[str, SlurmNode]]:
    for node in found:
        yield uuid_of(cluster, node.name), node
