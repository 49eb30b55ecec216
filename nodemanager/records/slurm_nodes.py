"""Slurm's CLOUD nodes, as `scontrol show node` tells them, and slurmctld itself (`show config`).

They give names, sizes and signs of life; nothing of ours is kept in them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.worker_words import (
    MAY_COME,
    NOT_RESPONDING,
    POWERED_DOWN,
    POWERING_DOWN,
    POWERING_UP,
    words_of,
)
from nodemanager.errors import SchedulerError, StoreError
from nodemanager.lib.program import ProgramResult, inherited, run

_FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z]*)=(\S*)")
_SAID = re.compile(r"^(\w+) += (.*)$", re.MULTILINE)
_AS_OF = re.compile(r"^Configuration data as of (\d+)$", re.MULTILINE)
_SECONDS = re.compile(r"(\d+) sec")
_UNASKED = frozenset({POWERED_DOWN, POWERING_DOWN, POWERING_UP, "unknown", "future"})
"""With one of these words, a node's slurmd has not registered since, or is about to be ended."""
_FORBIDDEN = frozenset({"SLURM_CLUSTERS"})


@dataclass(frozen=True)
class SlurmNode:
    """One CLOUD node; `start` is when its newest slurmd started, by that machine's clock.

    `start` is None where slurmctld does not know it, as after its own restart until that slurmd
    registers again. `sizes` are the names of its size, none for a node of any.
    """

    name: str
    words: frozenset[str]
    start: str | None = None
    address: str | None = None
    sizes: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether Slurm takes its slurmd for alive: it may be silent for up to SlurmdTimeout."""
        is_down = any(word.startswith("down") for word in self.words)
        return not is_down and self.words.isdisjoint({*_UNASKED, NOT_RESPONDING})

    @property
    def may_come(self) -> bool:
        """Whether a machine may be booted for it: it is switched off, or Slurm wants it up."""
        return bool(self.words & MAY_COME) and POWERING_DOWN not in self.words


@dataclass(frozen=True)
class Controller:
    """slurmctld: whose cluster it is, its clock, since when it runs, and its SlurmdTimeout."""

    cluster: str
    at: float
    since: float
    slurmd_timeout: float

    @property
    def has_just_started(self) -> bool:
        """Whether a slurmd that lives may not have registered with it yet."""
        return not self.at - self.since > self.slurmd_timeout


class SlurmNodes:
    """Asks the slurmctld of `conf`, or of the machine's own slurm.conf.

    `timeout` is in seconds, for each call of scontrol. `call` runs it, as program.run does. Every
    failure is a StoreError.
    """

    def __init__(
        self, timeout: float, *, conf: str | None = None, call: Callable[..., ProgramResult] = run
    ) -> None:
        self._timeout = timeout
        self._call = call
        kept = {name: said for name, said in inherited().items() if name not in _FORBIDDEN}
        self._environment = {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        if conf is not None:
            self._environment["SLURM_CONF"] = conf

    def controller(self) -> Controller:
        """Raises StoreError where slurm.conf lets slurmctld leave out nodes."""
        output = self._ask("show", "config")
        said, as_of = dict(_SAID.findall(output)), _AS_OF.search(output)
        cluster = said.get("ClusterName", "").strip()
        since, silence = said.get("BOOT_TIME", "").strip(), said.get("SlurmdTimeout", "")
        seconds = _SECONDS.match(silence.strip())
        if as_of is None or not cluster or not since.isdigit() or seconds is None:
            raise StoreError("scontrol show config: it lacks the cluster, a time or SlurmdTimeout")
        if "cloud" not in said.get("PrivateData", "").replace(" ", "").split(","):
            raise StoreError(
                "slurm.conf needs PrivateData=cloud: without it slurmctld leaves out nodes"
            )
        return Controller(cluster, float(as_of[1]), float(since), float(seconds[1]))

    def all(self) -> tuple[SlurmNode, ...]:
        """Every CLOUD node of the cluster, of any partition, in Slurm's order."""
        return self._listed(self._ask("--oneliner", "--all", "show", "node"))

    def one(self, name: str) -> SlurmNode | None:
        """The CLOUD node of that name; None where slurm.conf has none such."""
        ended = self._run("--oneliner", "--all", "show", "node", name)
        if ended.returncode != 0 and "not found" in ended.said:
            return None
        found = self._listed(self._answer(ended))
        return next((node for node in found if node.name == name), None)

    def _listed(self, output: str) -> tuple[SlurmNode, ...]:
        try:
            return read_nodes(output)
        except ValueError as error:
            raise StoreError(f"scontrol show node: {error}") from error

    def _ask(self, *arguments: str) -> str:
        return self._answer(self._run(*arguments))

    def _answer(self, ended: ProgramResult) -> str:
        if ended.returncode != 0:
            raise StoreError(f"scontrol exited {ended.returncode}: {ended.said}")
        return ended.output.decode("utf-8", "replace")

    def _run(self, *arguments: str) -> ProgramResult:
        environment: Mapping[str, Any] = self._environment
        try:
            return self._call(
                "slurm", ("scontrol", *arguments), self._timeout, environment=environment
            )
        except SchedulerError as error:
            raise StoreError(str(error)) from error


def read_nodes(output: str) -> tuple[SlurmNode, ...]:
    """The CLOUD nodes of `scontrol --oneliner show node`.

    Raises ValueError for a line that can't be read, and for a name that is told twice.
    """
    found: dict[str, SlurmNode] = {}
    for line in output.splitlines():
        if not line.strip():
            continue
        fields: dict[str, str] = {}
        for key, said in _FIELD.findall(line):
            # What a reason or a comment says comes last, so the first word counts.
            fields.setdefault(key, said)
        if "NodeName" not in fields or "State" not in fields:
            raise ValueError(f"{line[:60]!r} is no node")
        node = _node(fields)
        if "cloud" not in node.words:
            continue
        if found.setdefault(node.name, node) is not node:
            raise ValueError(f"node {node.name} is told twice")
    return tuple(found.values())


def _node(fields: Mapping[str, str]) -> SlurmNode:
    start = fields.get("SlurmdStartTime", "")
    features = fields.get("AvailableFeatures", "").split(",")
    sizes = [one.removeprefix(SIZE_FEATURE) for one in features if one.startswith(SIZE_FEATURE)]
    return SlurmNode(
        name=fields["NodeName"],
        words=words_of(fields["State"]),
        start=start if start.isdigit() else None,
        address=_address(fields.get("NodeAddr", "")),
        sizes=tuple(sizes),
    )


def _address(text: str) -> str | None:
    """A node's address; None for a name, as Slurm tells it of a node that has not come."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
