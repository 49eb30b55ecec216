"""What happens to a Slurm, as scripts: each is played on a real one and on the model.

A difference that stays is stated at its step, and has its row in doc/fault-model.rst.
"""

from __future__ import annotations

from tests.schedulers.slurm_language import (
    KILL,
    RECONFIGURE,
    RECONFIGURE_ENDS_IT,
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
    partition,
    register,
    reserve,
    submit,
    thaw,
)

DISK = ("State=DRAIN", "Reason=bad disk (ann)")
"""Somebody else's drain."""
OURS = ("State=DRAIN", "Reason=nodemanager: idle beyond demand")
GONE = ("State=DOWN", "Reason=nodemanager: its node is gone")
OFF, GOES_OFF, COMES = "IDLE POWERED_DOWN", "IDLE POWERING_DOWN", "IDLE POWERING_UP NOT_RESPONDING"
BUSY, LOST = "ALLOCATED", "DOWN NOT_RESPONDING"
NEVER_CAME = "DOWN NOT_RESPONDING POWERED_DOWN"


def booting(node: str) -> tuple[Step, ...]:
    return order(node, "State=POWER_UP"), is_now(node, COMES)


def joins(node: str) -> tuple[Step, ...]:
    return register(node), is_now(node, "IDLE")


def up(node: str) -> tuple[Step, ...]:
    """Powered up, and its machine has come."""
    return *booting(node), *joins(node)


def works(node: str, job: str) -> tuple[Step, ...]:
    return submit(job, node), is_now(node, BUSY)


def boots_for(job: str, node: str) -> tuple[Step, ...]:
    return submit(job, node), is_now(node, "ALLOCATED NOT_RESPONDING POWERING_UP")


def ending(node: str) -> tuple[Step, ...]:
    return order(node, "State=POWER_DOWN"), is_now(node, GOES_OFF)


def ends(node: str) -> tuple[Step, ...]:
    return is_now(node, GOES_OFF), is_now(node, OFF)


def off(node: str) -> tuple[Step, ...]:
    return *ending(node), is_now(node, OFF)


RESTART, KILLED = (STOP, START), (KILL, START)
passes = off
"""SuspendTimeout passes: another node, which is off already, goes through it once more."""

RESUMED = (
    Script("a node powered up registers", (look(), *up("n1")), short=True),
    Script(
        "a machine that never comes is given up, and its name is used again",
        (
            *booting("n1"),
            is_now("n1", NEVER_CAME),
            order("n1", "State=RESUME"),
            is_now("n1", f"{OFF} NOT_RESPONDING"),
            *up("n1"),
        ),
    ),
    Script(
        "a machine that comes unasked, before it is powered up, is taken",
        (register("n1"), is_now("n1", "IDLE"), order("n1", "State=POWER_UP"), is_now("n1", "IDLE")),
        short=True,
    ),
    Script(
        "a machine that comes after its ResumeTimeout is taken",
        (order("n1", "State=POWER_UP"), is_now("n1", NEVER_CAME), *joins("n1")),
    ),
    Script(
        "a machine that comes between the order to power up and its being carried out",
        (
            order("n1", "State=POWER_UP"),
            is_now("n1", f"{OFF} POWER_UP"),
            is_now("n1", COMES),
            order("n1", "State=POWER_UP"),
            is_now("n1", f"{COMES} POWER_UP POWERED_DOWN"),
            is_now("n1", COMES),
            *joins("n1"),
        ),
    ),
)
SUSPENDED = (
    Script(
        "a slurmd that registers while its node is powering down is taken, and the node goes off",
        (
            *up("n1"),
            *ending("n1"),
            lose("n1"),
            register("n1"),
            look(),
            is_now("n1", OFF),
            *passes("n2"),
            is_now("n1", OFF),
            lose("n1"),
            *joins("n1"),
        ),
    ),
    Script(
        "an order to power up is lost on a node that is powering down",
        (
            *up("n1"),
            *ending("n1"),
            lose("n1"),
            order("n1", "State=POWER_UP"),
            look(),
            is_now("n1", OFF),
            *up("n1"),
        ),
    ),
    Script(
        "a node told to power down while it powers up goes off once its machine has come",
        (
            *booting("n1"),
            order("n1", "State=POWER_DOWN"),
            is_now("n1", f"{COMES} POWER_DOWN"),
            register("n1"),
            *ends("n1"),
        ),
        short=True,
    ),
    Script(
        "a node told to power down while it powers up, whose machine never comes, is given up",
        (*booting("n1"), order("n1", "State=POWER_DOWN"), is_now("n1", NEVER_CAME)),
    ),
    Script(
        "one that is powering up goes off at once by force",
        (*booting("n1"), order("n1", "State=POWER_DOWN_FORCE"), *ends("n1")),
    ),
    Script(
        "one that is off and told to power down goes through it once more",
        (
            *off("n1"),
            order("n1", "State=RESUME"),
            order("n1", "State=POWER_DOWN_FORCE"),
            *ends("n1"),
        ),
    ),
    Script(
        "RESUME ends a power down",
        (*up("n1"), *ending("n1"), order("n1", "State=RESUME"), is_now("n1", OFF)),
    ),
    Script(
        "a slurmd that is alive after its node was powered down is asked no more",
        (*up("n1"), *off("n1"), *booting("n1"), is_now("n1", NEVER_CAME)),
    ),
)
DRAINED = (
    Script(
        "a drain keeps its reason over a new machine and its loss",
        (
            *up("n1"),
            order("n1", *DISK),
            is_now("n1", "IDLE DRAIN"),
            lose("n1"),
            is_now("n1", f"{LOST} DRAIN"),
            register("n1"),
            is_now("n1", "IDLE DRAIN"),
        ),
    ),
    Script(
        "the last drain's reason stands, and anybody's UNDRAIN ends it",
        (
            *up("n1"),
            order("n1", *DISK),
            order("n1", *OURS),
            is_now("n1", "IDLE DRAIN"),
            order("n1", "State=UNDRAIN"),
            is_now("n1", "IDLE"),
            order("n1", "State=UNDRAIN"),
            order("n1", *DISK),
            order("n1", "State=RESUME"),
            is_now("n1", "IDLE"),
            order("n1", "State=RESUME"),
            is_now("n1", "IDLE"),
        ),
        short=True,
    ),
    Script(
        "to power up takes the reason of a drain, to power down the drain itself",
        (
            order("n1", *DISK),
            is_now("n1", f"{OFF} DRAIN"),
            order("n1", "State=POWER_UP"),
            is_now("n1", f"{COMES} DRAIN"),
            register("n1"),
            is_now("n1", "IDLE DRAIN"),
            order("n1", *DISK),
            *ending("n1"),
            is_now("n1", OFF),
        ),
    ),
    Script(
        "a machine that never comes loses its node's drain",
        (*booting("n1"), order("n1", *DISK), is_now("n1", NEVER_CAME), *joins("n1")),
    ),
    Script(
        "a node called down is up again with its slurmd's next answer, and drained if it was",
        (
            *up("n1"),
            order("n1", *DISK),
            order("n1", *GONE),
            is_now("n1", "IDLE DRAIN"),
            lose("n1"),
            order("n1", *GONE),
            is_now("n1", f"{LOST} DRAIN"),
            order("n1", "State=UNDRAIN"),
            is_now("n1", LOST),
            order("n1", "State=POWER_DOWN_FORCE"),
            *ends("n1"),
        ),
    ),
    Script(
        "a node called down while it is off is up again only with a machine",
        (
            order("n1", *GONE),
            is_now("n1", "DOWN POWERED_DOWN"),
            order("n1", "State=POWER_UP"),
            is_now("n1", "DOWN NOT_RESPONDING POWERING_UP"),
            *joins("n1"),
        ),
    ),
    Script(
        "RESUME of a node without a machine makes Slurm call it down again, POWER_DOWN does not",
        (
            *up("n1"),
            lose("n1"),
            order("n1", *GONE),
            is_now("n1", LOST),
            order("n1", "State=RESUME"),
            is_now("n1", "IDLE NOT_RESPONDING"),
            is_now("n1", LOST),
            *off("n1"),
            *passes("n2"),
            is_now("n1", OFF),
        ),
    ),
)
JOBS = (
    Script(
        "a job powers its node up, runs there, and is cancelled",
        (
            submit("a", "n1"),
            has("a", "n1"),
            is_now("n1", "ALLOCATED NOT_RESPONDING POWERING_UP"),
            register("n1"),
            is_now("n1", BUSY),
            order("n1", "State=POWER_DOWN"),
            is_now("n1", "ALLOCATED POWER_DOWN"),
            job("cancel", "a"),
            has("a", "over"),
            is_now("n1", GOES_OFF),
        ),
        short=True,
    ),
    Script(
        "a job whose node never comes waits, and has its turn again after a while",
        (*boots_for("a", "n1"), is_now("n1", NEVER_CAME), has("a", "rests")),
    ),
    Script(
        "a job is queued again when its node dies, is called down, or is powered down by force",
        (
            *up("n1"),
            submit("a", "n1"),
            has("a", "n1"),
            lose("n1"),
            is_now("n1", LOST),
            has("a", "rests"),
            *joins("n1"),
            job("begin", "a"),
            has("a", "n1"),
            order("n1", *GONE),
            # Its slurmd answers on.
            is_now("n1", "IDLE"),
            has("a", "rests"),
            job("begin", "a"),
            has("a", "n1"),
            order("n1", "State=POWER_DOWN_FORCE"),
            has("a", "rests"),
            is_now("n1", OFF),
        ),
    ),
    Script(
        "a requeued job waits for its turn",
        (
            *up("n1"),
            submit("a", "n1"),
            has("a", "n1"),
            job("requeue", "a"),
            has("a", "rests"),
            is_now("n1", "IDLE"),
            job("begin", "a"),
            has("a", "n1"),
            is_now("n1", BUSY),
        ),
    ),
    Script(
        "a job pinned to a drained node waits until the drain ends",
        (
            order("n1", *DISK),
            submit("a", "n1"),
            has("a", "waits"),
            is_now("n1", f"{OFF} DRAIN"),
            order("n1", "State=UNDRAIN"),
            has("a", "n1"),
        ),
        short=True,
    ),
    Script(
        "a slurmd that is not reached is down, and is back when it answers; its job is not",
        (
            *up("n1"),
            *works("n1", "a"),
            freeze("n1"),
            is_now("n1", LOST),
            has("a", "rests"),
            thaw("n1"),
            is_now("n1", "IDLE"),
        ),
    ),
    Script(
        "one that is reached again only after its node was powered down is not heard",
        (
            *up("n1"),
            freeze("n1"),
            is_now("n1", LOST),
            *off("n1"),
            thaw("n1"),
            *passes("n2"),
            is_now("n1", OFF),
        ),
    ),
)
CONTROLLER = (
    Script(
        "a restart forgets when slurmds began, until each has registered again",
        (
            *up("n1"),
            *up("n2"),
            order("n2", *DISK),
            *works("n1", "a"),
            *booting("n3"),
            *RESTART,
            look(),
            *joins("n3"),
            has("a", "n1"),
        ),
    ),
    Script(
        "one that restarted and does not reach a slurmd never learns when that began",
        (
            *up("n1"),
            freeze("n1"),
            *RESTART,
            look(),
            is_now("n1", LOST),
            thaw("n1"),
            is_now("n1", "IDLE"),
        ),
    ),
    Script(
        "a power down goes on over a restart, and forgets the slurmd for good",
        (*up("n1"), *ending("n1"), *RESTART, *ends("n1"), *passes("n2"), look()),
    ),
    Script(
        "a power up goes on over a restart",
        (*booting("n1"), *RESTART, is_now("n1", COMES), is_now("n1", NEVER_CAME)),
    ),
    Script(
        "what was told in the last seconds before a kill is lost",
        (
            *up("n1"),
            SAVED,
            order("n1", *DISK),
            *booting("n2"),
            *KILLED,
            is_now("n1", "IDLE"),
            order("n1", *DISK),
            SAVED,
            *KILLED,
            is_now("n1", "IDLE DRAIN"),
        ),
        short=True,
    ),
    Script(
        "one killed right after a machine came waits for that in vain",
        (
            *booting("n1"),
            SAVED,
            *joins("n1"),
            *KILLED,
            is_now("n1", COMES),
            is_now("n1", NEVER_CAME),
        ),
    ),
    Script(
        "one killed right after a machine came for a job waits in vain, and queues the job again",
        (
            *boots_for("a", "n1"),
            SAVED,
            register("n1"),
            is_now("n1", BUSY),
            *KILLED,
            look(),
            # The slurmd that nobody expects any more answers the order to end the job.
            is_now("n1", OFF),
            has("a", "rests"),
        ),
    ),
    Script(
        "one killed right after a machine came asks it again once it reads its file anew",
        (
            *booting("n1"),
            SAVED,
            *joins("n1"),
            *KILLED,
            is_now("n1", COMES),
            RECONFIGURE,
            is_now("n1", "IDLE"),
        ),
    ),
    Script(
        "a job that was saved survives a kill with its node",
        (*up("n1"), *works("n1", "a"), SAVED, *KILLED, look(), is_now("n1", BUSY), has("a", "n1")),
    ),
)
SETTINGS = (
    Script(
        "a node taken out of its partition runs its job to the end, and gets no other",
        (
            *up("n1"),
            *works("n1", "a"),
            partition("n2", "n3"),
            is_now("n1", BUSY),
            job("cancel", "a"),
            is_now("n1", "IDLE"),
            submit("b", "n1"),
            partition("n1", "n2", "n3"),
            submit("c", "n1"),
            has("c", "n1"),
        ),
        short=True,
    ),
    Script(
        "a node in maintenance keeps its job, gets no other, and is not powered up for one",
        (
            *up("n1"),
            *works("n1", "a"),
            reserve("n1,n2", maintenance=True),
            is_now("n1", f"{BUSY} RESERVED MAINTENANCE"),
            is_now("n2", f"{OFF} RESERVED MAINTENANCE"),
            job("cancel", "a"),
            is_now("n1", "IDLE RESERVED MAINTENANCE"),
            submit("b", "n1"),
            submit("c", "n2"),
            has("b", "waits"),
            has("c", "waits"),
            UNRESERVE,
            has("b", "n1"),
            has("c", "n2"),
        ),
    ),
    Script(
        "a node reserved for somebody is set aside; by order it powers up and down all the same",
        (
            reserve("n1"),
            is_now("n1", f"{OFF} RESERVED"),
            order("n1", "State=POWER_UP"),
            is_now("n1", f"{COMES} RESERVED"),
            register("n1"),
            is_now("n1", "IDLE RESERVED"),
            order("n1", "State=POWER_DOWN"),
            is_now("n1", f"{GOES_OFF} RESERVED"),
            UNRESERVE,
            is_now("n1", OFF),
        ),
    ),
    Script(
        "a reconfigure keeps nodes and jobs, and ends what scontrol said of partitions",
        (
            *up("n1"),
            *works("n1", "a"),
            order("n2", *DISK),
            partition("n1", "n2"),
            is_now("n3", OFF),
            RECONFIGURE,
            is_now("n1", BUSY),
            has("a", "n1"),
        ),
    ),
    Script(
        "a name that goes takes its job along, and comes back powered down",
        (
            *up("n1"),
            *works("n1", "a"),
            STOP,
            configure("n1"),
            START,
            has("a", "over"),
            order("n1", *DISK),
            STOP,
            configure(),
            START,
            is_now("n1", OFF),
            lose("n1"),
            *joins("n1"),
        ),
    ),
    Script(
        "slurmctld ends at a reconfigure that takes a name away, and begins again without it",
        (
            *up("n1"),
            SAVED,
            configure("n1"),
            RECONFIGURE_ENDS_IT,
            *KILLED,
            is_now("n2", OFF),
            order("n1", *DISK),
        ),
    ),
)
SCRIPTS = (*RESUMED, *SUSPENDED, *DRAINED, *JOBS, *CONTROLLER, *SETTINGS)
