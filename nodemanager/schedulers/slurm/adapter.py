"""Slurm as a scheduler, through sinfo, squeue, scontrol and scancel.

The programs find the controller by slurm.conf, and sign with munge as the user that runs them:
that user must be Slurm's own, root, or an operator of Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import SchedulerNode, is_drained_by_us
from nodemanager.core.model.world import Job, Listed
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.lib.program import TooMuchOutput, inherited, run
from nodemanager.schedulers.api import OURS, SchedulerVerb, plain, single_node
from nodemanager.schedulers.slurm import json_output, power, text
from nodemanager.schedulers.slurm.cluster import Cluster, cluster_of
from nodemanager.schedulers.slurm.jobs import queue
from nodemanager.schedulers.slurm.rows import JobRow, SinfoNode, UnreadRow, listing

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
SHOW_NODES = ("scontrol", "--oneliner", "--all", "show", "node")
CLUSTER_EVERY = 20
"""After this many polls Slurm is asked again how it shares its nodes."""


class AnswerFormat(StrEnum):
    """In which form Slurm is asked to answer."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class SlurmScheduler:
    """The Slurm cluster of `conf`, or of the machine's own slurm.conf.

    `timeout` is in seconds, for each call. `partitions` are those whose jobs are demand; none is
    all of them. With AnswerFormat.AUTO it asks for JSON until that turns out to be unknown here, or
    too long: a job's JSON is several times as long as its text. With
    `power_saving`, Slurm itself chooses the nodes to boot and to end (`slurm.power`).
    """

    provider = "slurm"
    can = frozenset(SchedulerVerb)

    def __init__(
        self,
        timeout: float,
        *,
        conf: str | None = None,
        partitions: Sequence[str] = (),
        answers: AnswerFormat = AnswerFormat.AUTO,
        power_saving: bool = False,
    ) -> None:
        self._power_saving = power_saving
        self._timeout = timeout
        self._partitions = frozenset(partitions)
        self._answers = answers
        self._no_json: set[str] = set()
        """The programs that turned out to give no JSON that is known here."""
        self._cluster = Cluster()
        self._polls = 0
        kept = {name: said for name, said in inherited().items() if name not in FORBIDDEN}
        # Whole lists of array tasks, epoch seconds, and English, whatever the machine speaks.
        forms = {"SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
        self._environment = {**kept, **forms}
        if conf is not None:
            self._environment["SLURM_CONF"] = conf

    def nodes(self) -> Listed[SchedulerNode]:
        rows = self._node_rows()
        listed = listing(rows)
        if self._power_saving:
            return self._with_power(listed)
        self._look_at_cluster(rows)
        names = self._cluster.names
        if names is None or not names.issuperset(node.name for node in listed.items):
            # Slurm was configured anew, or its nodes bring their own names.
            self._polls = 0
            names = None
        return replace(listed, names=names)

    def _with_power(self, listed: Listed[SchedulerNode]) -> Listed[SchedulerNode]:
        if not self._partitions:
            return power.listing(listed)
        shown = self._output(SHOW_NODES)
        return power.listing(listed, power.partitions_of(shown), self._partitions)

    def _node_rows(self) -> list[SinfoNode]:
        format = text.format_of(text.NODE_FIELDS)
        return self._ask(
            ("sinfo", "--json"),
            json_output.nodes,
            ("sinfo", "--noheader", "--all", "--Node", "--Format", format),
            self._text_rows,
        )

    def _text_rows(self, output: str) -> list[SinfoNode]:
        return text.with_scontrol(text.nodes(output), self._output(SHOW_NODES))

    def queue(self) -> tuple[Job, ...]:
        if self._power_saving:
            return power.queue(self.nodes().items)
        chosen = ("--partition", ",".join(sorted(self._partitions))) if self._partitions else ()
        asked = ("squeue", "--noheader", "--all", "--states=PENDING", *chosen)

        def read_text(output: str) -> list[JobRow | UnreadRow]:
            rows = text.jobs(output)
            if not rows:
                return rows
            return text.excluding(rows, self._output((*asked, "--format", text.EXCLUDED)))

        rows: list[JobRow | UnreadRow] = self._ask(
            ("squeue", "--json"),
            lambda output: json_output.jobs(output, self._partitions),
            (*asked, "--Format", text.format_of(text.JOB_FIELDS)),
            read_text,
        )
        if rows and self._polls == 0:
            self._look_at_cluster(self._node_rows())
        return queue(rows, self._cluster)

    def _look_at_cluster(self, rows: Sequence[SinfoNode]) -> None:
        """Ask how jobs share nodes, now and then. Without an answer, what was known stands."""
        if self._polls % CLUSTER_EVERY == 0:
            try:
                config = self._output(("scontrol", "show", "config"))
                partitions = self._output(("scontrol", "show", "partition", "--all", "--oneliner"))
            except SchedulerError:
                # Nodes and jobs are worth more than how these are packed: the next poll asks again.
                return
            self._cluster = cluster_of(config, partitions, rows)
        self._polls += 1

    def drain(self, node: str, reason: str) -> None:
        self._update_node(node, "State=DRAIN", f"Reason={OURS}{plain(reason)}")

    def resume(self, node: str) -> None:
        known = self._known(node)
        if known is not None and known.draining and not is_drained_by_us(known):
            raise SchedulerRefused(f"{node} was drained by somebody else: {plain(known.reason)}")
        given = power.orders_to_resume(known) if self._power_saving else (power.RESUME,)
        self._tell(node, given)

    def mark_down(self, node: str, reason: str, *, had_joined: bool = False) -> bool:
        known = self._known(node)
        if self._power_saving:
            if known is None:
                return True
            self._tell(node, power.orders_to_switch_off(known, had_joined=had_joined))
            return not power.is_left_to_the_next(known, had_joined)
        if known is not None and known.draining and not is_drained_by_us(known):
            # What somebody else drained stays so, with the reason given for it (D16).
            self._update_node(node, "State=DOWN", f"Reason={plain(known.reason)}")
            return True
        self._update_node(node, "State=DOWN", f"Reason={OURS}{plain(reason)}")
        # After State=DOWN alone a node that was draining would be down *and* draining, and so
        # would be the next of that name. The other way round, a job could begin in between.
        self._update_node(node, power.UNDRAIN)
        return True

    def power_up(self, node: str) -> None:
        known = self._known(node)
        if not self._power_saving or known is None:
            raise SchedulerRefused(f"Slurm has no node {node} to power up")
        self._tell(node, power.orders_to_switch_on(known))

    def _known(self, node: str) -> SchedulerNode | None:
        """The node as Slurm tells it now; None where it tells of none such."""
        name = single_node(node)
        return next((one for one in self.nodes().items if one.name == name), None)

    def _tell(self, node: str, orders: Sequence[str]) -> None:
        """Give the orders in turn; one that Slurm calls superfluous has had its effect."""
        for order in orders:
            try:
                self._update_node(node, order)
            except SchedulerRefused as error:
                if not _AS_IT_IS.search(str(error)):
                    raise

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        known = self._known(node)
        if known is None:
            raise SchedulerRefused(f"Slurm lists no node {node}")
        others = [
            one for one in known.features if not one.startswith(SIZE_FEATURE) and one not in drop
        ]
        all_features = ",".join(dict.fromkeys((*others, *features)))
        # Active features must be among the available ones, so both are set.
        features_now = (f"AvailableFeatures={all_features}", f"ActiveFeatures={all_features}")
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
        program = as_json[0]
        if self._answers is not AnswerFormat.TEXT and program not in self._no_json:
            try:
                return read_json(self._output(as_json))
            except json_output.OtherForm as error:
                if self._answers is AnswerFormat.JSON:
                    raise SchedulerError(f"{program} --json {error}") from error
            except SchedulerError as error:
                fails_as_json = isinstance(error, _NoJson | TooMuchOutput)
                if self._answers is AnswerFormat.JSON or not fails_as_json:
                    raise
            self._no_json.add(program)
        try:
            return read_text(self._output(as_text))
        except ValueError as error:
            raise SchedulerError(f"{program}: {error}") from error

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
