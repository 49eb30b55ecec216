"""The port to a scheduler: what every adapter promises.

One contract suite, tests/schedulers/test_scheduler_contract.py, holds every adapter to this text.
"""

from __future__ import annotations

import re
from typing import Protocol

from nodemanager.core.model.scheduling import OURS, SchedulerNode, SchedulerVerb
from nodemanager.core.model.world import Job, Listed
from nodemanager.errors import SchedulerRefused

__all__ = ["OURS", "JobQueue", "Scheduler", "SchedulerVerb", "plain", "single_node"]
MAX_TEXT = 200
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_WORDS_FOR_MANY = frozenset({"all", "default"})


class JobQueue(Protocol):
    """Who knows the waiting jobs."""

    def queue(self) -> tuple[Job, ...]:
        """The jobs that wait for nodes and for nothing else, the most urgent first (U12).

        It is the whole queue: a failed, late or broken answer raises SchedulerError (L1). A job
        that can't be read is `unserved`, and concerns no other.
        """
        ...


class Scheduler(JobQueue, Protocol):
    """A scheduler as the manager sees it.

    Every call ends within the configured time limit and raises only
    `nodemanager.errors.SchedulerError` and its subclasses: SchedulerRefused for a request that has
    had no effect and never will, SchedulerError itself for one that may have had its effect. Every
    order may be repeated. A node is named by the hostname of its record; a name that is not that
    of one single node is refused before anything is asked.
    """

    provider: str
    """`slurm` or `command`."""
    can: frozenset[SchedulerVerb]
    """What it can do besides; the other verbs raise SchedulerRefused."""

    def nodes(self) -> Listed[SchedulerNode]:
        """Every node that the scheduler shows, each once (T6).

        Of one that can't be read, or is told in two ways, nothing but its name is known: its state
        is unknown. The listing is incomplete where not even a name could be read.
        """
        ...

    def drain(self, node: str, reason: str) -> None:
        """Give the node no more work; what it does goes on (D12).

        After this returned, no job starts on the node; one that started before shows in `nodes`.
        """
        ...

    def resume(self, node: str) -> None:
        """Give the node work again, after `drain` or `mark_down`.

        Raises SchedulerRefused where somebody else drained it: that drain stays (D16).
        """
        ...

    def mark_down(self, node: str, reason: str, *, had_joined: bool = False) -> bool:
        """Say that the node is gone: what ran on it is over, and is queued again where allowed.

        False if nothing was said: the scheduler waits for the next machine of that name, after one
        that `had_joined`. Its jobs would be queued again for that one (U14).
        It is no longer draining, so that the next node of that name gets work once it has come up.
        But what somebody else drained stays so, with the reason given for it (D16).
        """
        ...

    def power_up(self, node: str) -> None:
        """Want a machine of that name: a node that the scheduler has switched off (`off`).

        Does nothing to one that is in any other state by now. A scheduler that switches no nodes
        off raises SchedulerRefused.
        """
        ...

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        """Set the node's weight, and those of its features that tell its size (Verb.DESCRIBE).

        Of several nodes that fit, a job runs on one of the lowest weight. `features` replace the
        node's features of the form `instancetype=NAME`, and those of `drop`; its others stay.
        """
        ...

    def comment(self, job: str, text: str) -> None:
        """Tell the job's owner something, such as why it can't run (Verb.COMMENT)."""
        ...

    def cancel(self, job: str) -> None:
        """Take the job out of the queue; one that is over stays so (Verb.CANCEL)."""
        ...


def single_node(name: str) -> str:
    """`name`, if it names one single node; raises SchedulerRefused for a list or a pattern.

    `compute[1-9]` and `ALL` are many nodes to Slurm.
    """
    if not _NODE.fullmatch(name) or name.lower() in _WORDS_FOR_MANY:
        raise SchedulerRefused(f"{name[:MAX_TEXT]!r} is not the name of one node")
    return name


def plain(text: str) -> str:
    """`text` on one line, printable and not too long, for a reason or a comment."""
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return " ".join(words)[:MAX_TEXT]
