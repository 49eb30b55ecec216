"""Every way in which a node ends today, as core's own code has them, with a scene for each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import nodemanager.core as core
from nodemanager.actors.messages import Ordered
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import CloudState, Job, LeftoverKind, Tags, WorkerState
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import BadRequest
from tests.actors.rig import Rig, until
from tests.fakes import fail
from tests.fakes.cloud import LARGE, SMALL

CORE = Path(core.__file__).parent
HOUR = 3600.0
OLD = 10 * HOUR

ENDING = {"SHUTDOWN", "CLEAN"}
"""The kinds of verdicts that end a node, or free the record of one that ended."""
ORDERING = {"order_release": 0, "_once_idle": 1}
"""What orders a clean or a shutdown by the argument behind this one."""


def enumerated() -> set[Reason]:
    """Every reason for which core's code orders a shutdown or a clean.

    It is read from the code: a verdict of such a kind names its reason beside it, itself or by a
    name of the same function; so does the release at the end of a workflow.
    """
    texts = [path.read_text(encoding="utf-8") for path in CORE.rglob("*.py")]
    return {
        reason
        for text in texts
        if any(word in text for word in (*ENDING, *ORDERING))
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for reason in _ordered_in(function)
    }


def _ordered_in(function: ast.FunctionDef) -> Iterator[Reason]:
    named = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        at = next((place for place, one in enumerate(call.args) if _is_ending(one)), None)
        if isinstance(call.func, ast.Name):
            at = ORDERING.get(call.func.id, at)
        if at is None or at + 1 >= len(call.args):
            continue
        said = call.args[at + 1]
        yield from _reasons(named.get(said.id, said) if isinstance(said, ast.Name) else said)


def _is_ending(one: ast.expr) -> bool:
    return (
        isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Name)
        and one.value.id == "Kind"
        and one.attr in ENDING
    )


def _reasons(said: ast.expr) -> Iterator[Reason]:
    for one in ast.walk(said):
        of = one.value if isinstance(one, ast.Attribute) else None
        if isinstance(one, ast.Attribute) and isinstance(of, ast.Name) and of.id == "Reason":
            yield Reason[one.attr]


SHUT_DOWN = ("pins", "destroy", "ask", "find_by_record", "read", "clean", "release")
"""The calls to cloud and store on the way of a node that we end."""
FOUND_DEAD = ("ask", "find_by_record", "read", "clean", "release")
NEVER_WAS = ("find_by_record", "read", "clean")


@dataclass(frozen=True)
class Way:
    """One way out: `begin` puts a node on it in a started rig, and gives its record's uuid.

    `steps` are the calls that it takes, each of which is tried again where the first try fails.
    `cleaned` is the reason with which the record is freed in the end; None where the node never had
    one. `options` are the rig's.
    """

    reason: Reason
    says: str
    begin: Callable[[Rig], str | None]
    steps: tuple[str, ...] = SHUT_DOWN
    cleaned: Reason | None = Reason.AFTER_SHUTDOWN
    options: tuple[tuple[str, object], ...] = ()
    replaced: bool = False
    """Another node takes its place."""


def _pair(rig: Rig, state: WorkerState = WorkerState.BUSY) -> tuple[str, str]:
    """A node and its record, paired for long; it pins a volume."""
    rig.fleet.state = state
    machine, record = rig.fleet.add_node(age=OLD)
    rig.cloud.pin(machine.node.id, LeftoverKind.VOLUME, "vol-1")
    rig.start()
    rig.turn(90)
    return machine.node.id, record.uuid


def _order(rig: Rig, verb: Verb, id: str | None, *forced: str) -> None:
    command = Command(verb, "ann", "test", id, forced=forced)
    rig.system.daemon.tell(Ordered(command, lambda reply: None))
    rig.flush()


def _switched_off(rig: Rig) -> str:
    scheduler, host = rig.scheduler, "compute1"
    assert scheduler is not None
    scheduler.says(host, WorkerState.BUSY)
    _, uuid = _pair(rig)
    rig.fleet.state = None
    assert rig.store.rows[uuid].hostname == host
    scheduler.known[host] = SchedulerNode(host, WorkerState.UNKNOWN, responds=False, suspended=True)
    return uuid


def _unwanted(rig: Rig) -> str:
    node, uuid = _pair(rig)
    rig.fleet.states[node] = WorkerState.IDLE
    return uuid


def _given_up(rig: Rig) -> str:
    """The only node that may be is spare, and a job waits for a larger one."""
    rig.sizes, rig.jobs = (replace(SMALL, spare_nodes=1), LARGE), ()
    node, uuid = _pair(rig)
    rig.fleet.states[node] = WorkerState.IDLE
    rig.turn(300)
    rig.jobs = (Job("large", cores=LARGE.cores),)
    return uuid


def _other_image(rig: Rig) -> str:
    rig.cloud.image_id = "image-1"
    node, uuid = _pair(rig)
    rig.cloud.change(node, image="image-1")
    rig.fleet.states[node] = WorkerState.IDLE
    rig.turn(60)
    rig.cloud.image_id = "image-2"
    return uuid


def _other_type(rig: Rig) -> str:
    rig.sizes = (replace(LARGE, name="main"),)
    node, uuid = _pair(rig)
    tags = rig.cloud.machines[node].node.tags
    rig.cloud.change(node, tags=replace(tags, size="main"), size=SMALL.instance_type)
    rig.fleet.states[node] = WorkerState.IDLE
    return uuid


def _drained(rig: Rig) -> str:
    node, uuid = _pair(rig)
    _order(rig, Verb.DRAIN, node)
    rig.fleet.states[node] = WorkerState.IDLE
    return uuid


def _parked(rig: Rig) -> str:
    node, uuid = _pair(rig)
    _order(rig, Verb.PARK, None)
    rig.fleet.states[node] = WorkerState.IDLE
    return uuid


def _noticed(rig: Rig) -> str:
    node, uuid = _pair(rig)
    rig.fleet.notices[node] = {"notice": "spot"}
    rig.fleet.states[node] = WorkerState.IDLE
    return uuid


def _killed(rig: Rig) -> str:
    node, uuid = _pair(rig)
    _order(rig, Verb.KILL, node)
    return uuid


def _says_down(rig: Rig) -> str:
    node, uuid = _pair(rig)
    rig.fleet.states[node] = WorkerState.DOWN
    return uuid


def _stopped(rig: Rig) -> str:
    node, uuid = _pair(rig)
    rig.cloud.change(node, state=CloudState.STOPPED)
    rig.fleet.silent.add(node)
    return uuid


def _never_pings(rig: Rig) -> str:
    machine, record = rig.fleet.add_node(age=60.0, pinged_ago=None)
    rig.fleet.silent.add(machine.node.id)
    rig.cloud.pin(machine.node.id, LeftoverKind.VOLUME, "vol-1")
    rig.start()
    rig.turn(30)
    return record.uuid


def _never_joins(rig: Rig) -> str:
    machine, record = rig.fleet.add_node(age=60.0)
    rig.fleet.state = None
    rig.cloud.pin(machine.node.id, LeftoverKind.VOLUME, "vol-1")
    rig.start()
    rig.turn(30)
    return record.uuid


def _without_record(rig: Rig) -> None:
    node = rig.cloud.add(tags=Tags(rig.cloud.pool, "zzzzz-7ekkf-nothing", "none"), age=OLD)
    rig.cloud.pin(node.id, LeftoverKind.VOLUME, "vol-1")
    rig.start()


def _dies_unseen(rig: Rig) -> str:
    node, uuid = _pair(rig)
    rig.cloud.vanish(node)
    return uuid


def _never_came(rig: Rig) -> str:
    machine, record = rig.fleet.add_node(age=60.0, pinged_ago=None)
    rig.cloud.vanish(machine.node.id)
    rig.start()
    return record.uuid


def _burned(rig: Rig) -> str:
    node, uuid = _pair(rig)
    rig.cloud.vanish(node)
    rig.turn(120)
    _order(rig, Verb.CLEAN, uuid, "C2", "C3", "C5")
    return uuid


def _refused(rig: Rig) -> str:
    rig.cloud.always("create", fail(BadRequest("no such image")))
    rig.start()
    return str(until(rig, "node.setup_failed", within=120)["record"])


def _copied(rig: Rig) -> str:
    """Its node dies, and something without a node has its ping secret."""
    node, uuid = _pair(rig)
    machine = rig.cloud.machines[node]
    rig.cloud.vanish(node)
    beat = rig.fleet.beat

    def and_the_copy() -> None:
        beat()
        secret = rig.store.rows[uuid].ping_secret
        if secret is not None and secret in machine.user_data:
            rig.fleet.ping(machine)

    rig.fleet.beat = and_the_copy
    return uuid


WAYS = (
    Way(Reason.IDLE_BEYOND_DEMAND, "It is idle, and nobody wants it.", _unwanted),
    Way(
        Reason.IDLE_BEYOND_DEMAND,
        "It is a spare one, and a job needs its room.",
        _given_up,
        replaced=True,
    ),
    Way(
        Reason.OTHER_IMAGE,
        "It is idle, and new nodes have another image.",
        _other_image,
        options=(("min_nodes", 1),),
        replaced=True,
    ),
    Way(
        Reason.OTHER_TYPE,
        "It is idle, and its size has another instance type now.",
        _other_type,
        options=(("min_nodes", 1),),
        replaced=True,
    ),
    Way(
        Reason.TOO_OLD,
        "It is idle, and older than ``max_node_age``.",
        _unwanted,
        options=(("min_nodes", 1), ("max_node_age", "9h")),
        replaced=True,
    ),
    Way(
        Reason.SUSPENDED,
        "Its scheduler has switched it off.",
        _switched_off,
        options=(("dispatcher", "slurm"),),
    ),
    Way(Reason.DRAINED, "An operator drains it.", _drained),
    Way(Reason.PARKED, "It is idle, and an operator parked the pool.", _parked),
    Way(Reason.NOTICED, "It is idle, and its cloud will take it.", _noticed),
    Way(Reason.KILLED, "An operator kills it.", _killed),
    Way(Reason.NODE_DOWN, "It says that it is down.", _says_down),
    Way(Reason.NODE_STOPPED, "The cloud stopped it.", _stopped),
    Way(Reason.BOOT_FAILED, "It never pings.", _never_pings),
    Way(
        Reason.NOT_JOINED,
        "It pings, and never is up in its scheduler.",
        _never_joins,
        options=(("dispatcher", "slurm"),),
    ),
    Way(
        Reason.UNPAIRED,
        "It has our tag, and no record.",
        _without_record,
        ("pins", "destroy", "read", "release"),
        None,
    ),
    Way(Reason.STALE_SLOT, "It dies unseen.", _dies_unseen, FOUND_DEAD, Reason.STALE_SLOT),
    Way(
        Reason.PINGER_DENIED,
        "It dies unseen, and something else pings with its secret.",
        _copied,
        FOUND_DEAD,
        Reason.PINGER_DENIED,
    ),
    Way(
        Reason.CLEAN_BY_HAND,
        "It dies, and an operator frees its record.",
        _burned,
        FOUND_DEAD,
        Reason.CLEAN_BY_HAND,
    ),
    Way(
        Reason.CLAIM_EXPIRED,
        "Its record was claimed, and it never came.",
        _never_came,
        NEVER_WAS,
        Reason.CLAIM_EXPIRED,
    ),
    Way(
        Reason.CREATE_REFUSED,
        "The cloud refuses its create.",
        _refused,
        NEVER_WAS,
        Reason.CREATE_REFUSED,
        (("min_nodes", 1),),
    ),
)
"""The ways out. AFTER_SHUTDOWN is none: it frees the record of a node that we shut down."""

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 22 36 20 22

   * - Way out
     - What happens
     - Its record is freed as
     - Calls, each tried again"""


def table() -> str:
    """The ways out as a table of the manual."""
    lines = [_HEAD]
    for way in WAYS:
        cleaned = "" if way.cleaned is None else f" ``{way.cleaned.value}``"
        lines.append(f"   * - ``{way.reason.value}``\n     - {way.says}\n     -{cleaned}")
        lines.append("     - " + ", ".join(f"``{step}``" for step in way.steps))
    return "\n".join([*lines, ""])
