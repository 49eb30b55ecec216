"""Slurm as a scheduler, through sinfo, squeue, scontrol and scancel.

The programs find the controller by slurm.conf, and sign with munge as the user that runs them:
that user must be Slurm's own, root, or an operator of Slurm.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, Listed
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.program import inherited, run
from nodemanager.schedulers.api import OURS, Verb, plain, single_node
from nodemanager.schedulers.slurm import power, text, told_json
from nodemanager.schedulers.slurm.rows import JobRow, NodeRow, listing, queue

T = TypeVar("T")

_JOB = re.compile(r"(\d+)(?:_\d+)?")
_REFUSED = re.compile(
    r"invalid|denied|not permitted|not subset|already completing or completed|unknown job", re.I
)
"""What Slurm's words have in common when it refused an order for good."""
_NO_JSON = re.compile(r"json|data_parser|unrecognized option", re.IGNORECASE)
_AS_IT_IS = re.compile(r"invalid node state", re.IGNORECASE)
FORBIDDEN = frozenset({"SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN"})
"""Variables that change what the programs print, or whom they ask."""


class Answers(StrEnum):
    """In which form Slurm is asked to answer."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class SlurmScheduler:
    """The Slurm cluster of `conf`, or of the machine's own slurm.conf.

    `timeout` is in seconds, for each call. `partitions` are those whose jobs are demand; none is
    all of them. With Answers.AUTO it asks for JSON until that turns out to be unknown here. With
    `power_saving`, Slurm itself chooses the nodes to boot and to end (`slurm.power`).
    """

    provider = "slurm"
    can = frozenset(Verb)

    def __init__(
        self,
        timeout: float,
        *,
        conf: str | None = None,
        partitions: Sequence[str] = (),
        answers: Answers = Answers.AUTO,
        power_saving: bool = False,
    ) -> None:
        self._power_saving = power_saving
        self._timeout = timeout
        self._partitions = frozenset(partitions)
        self._answers = answers
        self._most_cores: int | None = None
        kept = {name: said for name, said in inherited().items() if name not in FORBIDDEN}
        # Whole lists of array tasks, and English, whatever the machine speaks.
        self._environment = {**kept, "SLURM_BITSTR_LEN": "0", "LC_ALL": "C"}
        if conf is not None:
            self._environment["SLURM_CONF"] = conf

    def nodes(self) -> Listed[SchedulerNode]:
        format = text.format_of(text.NODE_FIELDS)
        rows: list[NodeRow] = self._ask(
            ("sinfo", "--json"),
            told_json.nodes,
            ("sinfo", "--noheader", "--all", "--Node", "--Format", format),
            text.nodes,
        )
        listed = listing(rows)
        if self._power_saving:
            listed = power.listing(listed)
        self._most_cores = max((node.cores or 0 for node in listed.items), default=None)
        return listed

    def queue(self) -> tuple[Job, ...]:
        if self._power_saving:
            return power.queue(self.nodes().items)
        chosen = ("--partition", ",".join(sorted(self._partitions))) if self._partitions else ()
        format = text.format_of(text.JOB_FIELDS)
        rows: list[JobRow] = self._ask(
            ("squeue", "--json"),
            lambda output: told_json.jobs(output, self._partitions),
            ("squeue", "--noheader", "--all", "--states=PENDING", *chosen, "--Format", format),
            text.jobs,
        )
        if self._most_cores is None and rows:
            # Else a job of more CPUs than any node has would want one node with all of them.
            with contextlib.suppress(SchedulerError):
                self.nodes()
        return queue(rows, self._most_cores)

    def drain(self, node: str, reason: str) -> None:
        self._update_node(node, "State=DRAIN", f"Reason={OURS}{plain(reason)}")

    def resume(self, node: str) -> None:
        order = power.RESUME
        if self._power_saving:
            listed = (one for one in self.nodes().items if one.name == single_node(node))
            order = power.order_to_resume(next(listed, None))
        try:
            self._update_node(node, order)
        except SchedulerRefused as error:
            # Slurm refuses to resume a node that is neither drained nor down.
            if not _AS_IT_IS.search(str(error)):
                raise

    def mark_down(self, node: str, reason: str) -> None:
        self._update_node(node, "State=DOWN", f"Reason={OURS}{plain(reason)}")
        # After State=DOWN alone a node that was draining would be down *and* draining, and so
        # would be the next of that name. The other way round, a job could begin in between.
        self._update_node(node, "State=UNDRAIN")

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        known = next((one for one in self.nodes().items if one.name == single_node(node)), None)
        if known is None:
            raise SchedulerRefused(f"Slurm lists no node {node}")
        others = [
            one for one in known.features if not one.startswith(SIZE_FEATURE) and one not in drop
        ]
        told = ",".join(dict.fromkeys((*others, *features)))
        # Active features must be among the available ones, so both are set.
        features_now = (f"AvailableFeatures={told}", f"ActiveFeatures={told}")
        self._update_node(node, f"Weight={weight}", *features_now)

    def comment(self, job: str, text: str) -> None:
        """Tells it to the whole array of a task; Slurm would split the task off for its own."""
        self._order("scontrol", "update", f"JobId={_number(job)}", f"AdminComment={plain(text)}")

    def cancel(self, job: str) -> None:
        """Cancels what is still pending of the job, or of the whole array of a task.

        The tasks of an array are alike. For one task alone, the scancel of 22.05 takes all of them
        with --state, and one that has just started without it.
        """
        self._order("scancel", "--state=PENDING", _number(job))

    def _ask(
        self,
        as_json: tuple[str, ...],
        read_json: Callable[[str], list[T]],
        as_text: tuple[str, ...],
        read_text: Callable[[str], list[T]],
    ) -> list[T]:
        if self._answers is not Answers.TEXT:
            try:
                return read_json(self._output(as_json))
            except told_json.OtherForm as error:
                if self._answers is Answers.JSON:
                    raise SchedulerError(f"{as_json[0]} --json {error}") from error
            except SchedulerError as error:
                if self._answers is Answers.JSON or not isinstance(error, _NoJson):
                    raise
            self._answers = Answers.TEXT
        try:
            return read_text(self._output(as_text))
        except ValueError as error:
            raise SchedulerError(f"{as_text[0]}: {error}") from error

    def _output(self, argv: tuple[str, ...]) -> str:
        ended = run("slurm", argv, self._timeout, environment=self._environment)
        if ended.returncode != 0:
            kind = _NoJson if "--json" in argv and _NO_JSON.search(ended.said) else SchedulerError
            raise kind(f"{argv[0]} exited {ended.returncode}: {ended.said}")
        return ended.output.decode("utf-8", "replace")

    def _update_node(self, node: str, *what: str) -> None:
        self._order("scontrol", "update", f"NodeName={single_node(node)}", *what)

    def _order(self, *argv: str) -> None:
        ended = run("slurm", argv, self._timeout, environment=self._environment)
        if ended.returncode != 0:
            kind = SchedulerRefused if _REFUSED.search(ended.said) else SchedulerError
            raise kind(f"{' '.join(argv[:3])}: {ended.said or f'exited {ended.returncode}'}")


class _NoJson(SchedulerError):
    """This Slurm can't answer in JSON."""


def _number(job: str) -> str:
    """The number of a job, or of the array of a task; raises SchedulerRefused for another id."""
    found = _JOB.fullmatch(job)
    if found is None:
        raise SchedulerRefused(f"{job[:60]!r} is no id of a job of Slurm")
    return found[1]
