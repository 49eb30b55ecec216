"""What happens to a Slurm whose nodes are always on, as scripts: the manager reads its queue.

Each is played on a real Slurm and on the simulated scheduler, both asked over the port.
"""

from __future__ import annotations

from tests.schedulers.slurm_language import (
    KILL,
    SAVED,
    START,
    STOP,
    UNRESERVE,
    Script,
    Step,
    configure,
    freeze,
    has,
    is_now,
    job,
    look,
    lose,
    order,
    register,
    reserve,
    submit,
    tell,
)

DISK = ("State=DRAIN", "Reason=bad disk (ann)")
"""Somebody else's drain."""
NEW, LOST = "unknown silent", "down silent"


def up(node: str) -> tuple[Step, ...]:
    return register(node), is_now(node, "idle")


def busy(node: str, job: str) -> tuple[Step, ...]:
    return submit(job, node), is_now(node, "busy")


QUEUE_SCRIPTS = (
    Script(
        "a machine joins under its name, and another after it",
        (is_now("n1", NEW), *up("n1"), lose("n1"), is_now("n1", LOST), *up("n1")),
    ),
    Script(
        "a drain of ours, taken back",
        (
            *up("n1"),
            tell("n1", "drain", "idle"),
            is_now("n1", "idle draining"),
            tell("n1", "drain", "once more"),
            is_now("n1", "idle draining"),
            tell("n1", "resume"),
            is_now("n1", "idle"),
            tell("n1", "resume"),
            is_now("n1", "idle"),
        ),
        short=True,
    ),
    Script(
        "somebody's drain outlives the machine, and the one that comes after it",
        (
            *up("n1"),
            order("n1", *DISK),
            is_now("n1", "idle draining"),
            lose("n1"),
            is_now("n1", f"{LOST} draining"),
            register("n1"),
            is_now("n1", "idle draining"),
            order("n1", "State=UNDRAIN"),
            is_now("n1", "idle"),
        ),
    ),
    Script(
        "a node whose machine is gone is marked down, and works with the next one",
        (
            *up("n1"),
            *busy("n1", "a"),
            lose("n1"),
            tell("n1", "down", "gone"),
            is_now("n1", "down silent", job_a=("rests", "waits")),
            job("cancel", "a"),
            *up("n1"),
        ),
    ),
    Script(
        "a drained node that is marked down is drained no more",
        (
            *up("n1"),
            tell("n1", "drain", "idle"),
            lose("n1"),
            tell("n1", "down", "gone"),
            is_now("n1", "down silent"),
            *up("n1"),
        ),
    ),
    Script(
        "a node that is told to go and works does so until its job is done",
        (
            *up("n1"),
            *busy("n1", "a"),
            tell("n1", "drain", "idle"),
            is_now("n1", "busy draining"),
            job("cancel", "a"),
            is_now("n1", "idle draining"),
        ),
        short=True,
    ),
    Script(
        "nodes in maintenance are set aside, and take no job",
        (
            *up("n1"),
            reserve("n1,n2,n3", maintenance=True),
            is_now("n1", "unknown reserved"),
            submit("a", "n1"),
            has("a", "waits"),
            UNRESERVE,
            is_now("n1", "busy"),
            has("a", "n1"),
        ),
        short=True,
    ),
    Script(
        "a busy node that is reserved works on",
        (
            *up("n1"),
            *busy("n1", "a"),
            reserve("n1", maintenance=True),
            is_now("n1", "busy reserved"),
            job("cancel", "a"),
            is_now("n1", "unknown reserved"),
        ),
    ),
    Script(
        "a machine that is not reached is down, and the next one of its name is up",
        (*up("n1"), freeze("n1"), is_now("n1", LOST), lose("n1"), *up("n1")),
    ),
    Script(
        "a restart keeps drains and jobs",
        (
            *up("n1"),
            *busy("n1", "a"),
            order("n2", *DISK),
            register("n2"),
            is_now("n2", "idle draining"),
            STOP,
            START,
            is_now("n1", "busy"),
            has("a", "n1"),
            is_now("n2", "idle draining"),
        ),
    ),
    Script(
        "a drain of the last seconds before a kill is lost, another is not",
        (
            *up("n1"),
            *up("n2"),
            order("n1", *DISK),
            SAVED,
            tell("n2", "drain", "idle"),
            KILL,
            START,
            is_now("n2", "idle"),
            is_now("n1", "idle draining"),
        ),
        short=True,
    ),
    Script(
        "no machine joins under a name that slurm.conf lacks, and no order is taken for it",
        (
            *up("n1"),
            *busy("n1", "a"),
            STOP,
            configure("n1"),
            START,
            has("a", "over"),
            tell("n1", "drain", "idle"),
            lose("n1"),
            STOP,
            configure(),
            START,
            is_now("n1", NEW),
            *up("n1"),
            look(),
        ),
    ),
)
