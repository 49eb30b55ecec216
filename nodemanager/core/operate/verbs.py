"""The commands of operators, as data: each is one row.

The command line, the HTTP routes, the dashboard's pages, the daemon's answers and the log are
made of the rows. A client on the command line loads only this, and nothing of what decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, Flag, StrEnum, auto
from typing import Any, NamedTuple

from nodemanager.core.model.reasons import Event


class CommandTarget(Enum):
    """What a command is about; `ANY` is whatever has the id, a node or a record."""

    POOL = ""
    NODE = "node"
    RECORD = "record"
    ANY = "id"


class Takes(Flag):
    """The options of a command, besides its reason."""

    FORCE = auto()
    """The rules to break by name (O3)."""
    UNLISTED = auto()
    YES = auto()
    """It asks before it does it, unless this is given."""
    WAIT = auto()
    """It can wait until the order is carried out."""


Sentence = str | tuple[str, str]
"""A sentence, or one that holds only for a `busy` node, an `idle` one, or one that has a `slot`."""


class PoolMark(NamedTuple):
    """How a mark on the whole pool is shown while it stands: how bad that is, and what it means.

    `word` is that in logs and metrics, and `part` the key of status.json that tells of it.
    """

    level: str
    title: str
    word: str
    part: str
    subject: str = "the whole pool"

    @property
    def flag(self) -> str:
        """The key in that part which says whether it stands."""
        return self.word.rpartition("_")[2]


class VerbRow(NamedTuple):
    """One command: its `heading` for people, and what it is about.

    It is typed as its value, or as `typed`; `help` and `examples` are those of `--help`, and `does`
    is its line in the list of the commands, empty for one of GROUPS. `says` tells before it is
    given what it will do; `done` and `already` answer it. One that `ends` marks takes off those of
    the kinds that it names; one that sets a mark on the whole pool has a `standing`. One that is a
    `danger` ends work, or frees something.
    """

    value: str
    heading: str
    subject: CommandTarget
    help: str
    says: tuple[Sentence, ...]
    examples: tuple[str, ...] = ()
    does: str = ""
    done: str = ""
    already: str = ""
    typed: str = ""
    takes: Takes = Takes(0)
    ends: tuple[str, ...] = ()
    standing: PoolMark | None = None
    danger: bool = False
    needs_reason: bool = False


_FREED = ("slot", "Its {slot} is freed once the cloud says that the node is gone.")
_REFILLED = "Another node is booted where the demand needs one."


class Verb(StrEnum):
    """The commands of an operator to the daemon, in the order of the help."""

    row: VerbRow

    def __new__(cls, *columns: Any) -> Verb:
        known = VerbRow(*columns)
        member = str.__new__(cls, known.value)
        member._value_, member.row = known.value, known
        return member

    HOLD = VerbRow(
        "hold",
        "Hold",
        CommandTarget.ANY,
        does="Keep everything automatic away from it.",
        help=(
            "Keep everything automatic away from a node or record until `release`, even over "
            "restarts.\n\nID is a record's uuid, a cloud node's id, a hostname that only "
            "one record has, or the id of a leftover."
        ),
        examples=("hold i-0abc --reason 'I am logged in'", "hold compute7 --reason 'disk swap'"),
        says=(
            "Nothing automatic touches {name} until you release it, over restarts too.",
            ("slot", "It keeps its {slot}."),
        ),
        done=(
            "{which} is on hold: nothing automatic touches it until it is released; `nodemanager "
            "release {id}` ends that"
        ),
        already="{which} is on hold already",
        takes=Takes.UNLISTED,
    )
    RELEASE = VerbRow(
        "release",
        "Release",
        CommandTarget.ANY,
        does="End a hold.",
        help="End the hold on a node or record.",
        examples=("release compute7", "release i-0abc i-0def"),
        says=("The daemon decides about {name} again, as about any other.",),
        done="{which} is on hold no longer",
        already="{which} is not on hold",
        ends=("hold",),
    )
    DRAIN = VerbRow(
        "drain",
        "Drain",
        CommandTarget.NODE,
        does="Shut a node down once it is idle.",
        help=(
            "Shut a node down as soon as it is idle, whatever the demand, and never while it "
            "is busy.\n\nAnother node is booted where the demand needs one. `undrain` "
            "undoes it. NODE is a cloud node's id, its record's uuid, or its hostname. "
            "`cordon` keeps the node instead."
        ),
        examples=(
            "drain i-0abc --reason 'new image'",
            "drain compute7 compute8 --wait 2h",
            "drain $(nodemanager nodes -o name --size old) --reason 'another size'",
        ),
        says=(
            "{name} is shut down as soon as it is idle, whatever the demand, and never while "
            "it is busy.",
            ("busy", "It is busy now: it works until its job ends."),
            ("idle", "It is idle now: it may go with one of the next decisions."),
            _REFILLED,
            _FREED,
            "Until it is being shut down, you can undo this.",
        ),
        done=(
            "{which} is draining: it is shut down as soon as it is idle; `nodemanager undrain "
            "{id}` undoes that"
        ),
        already="{which} is draining already",
        takes=Takes.WAIT,
    )
    RUN = VerbRow(
        "run",
        "Undo drain or kill",
        CommandTarget.NODE,
        does="Undo a drain, or a kill not carried out.",
        help="Let a node take work again: undo a drain, a cordon, or a kill not carried out yet.",
        examples=("undrain i-0abc", "undrain compute7 compute8"),
        says=(
            "{name} may take work again: a drain is undone, and so is a kill that has not been "
            "carried out yet.",
        ),
        done="{which} may take work again",
        already="{which} is neither draining nor to be killed",
        typed="undrain",
        ends=("drain", "kill"),
    )
    CORDON = VerbRow(
        "cordon",
        "Cordon",
        CommandTarget.NODE,
        does="Give a node no more work, and keep it.",
        help=(
            "Give a node no more work, but keep it until `uncordon`, even over "
            "restarts.\n\nIt is told to drain, and demand no longer counts it, so that "
            "another is booted where one is needed. Nothing but a `kill` destroys it. `hold` "
            "keeps a node, too, but lets it work."
        ),
        examples=("cordon compute7 --reason 'a strange disk'", "cordon i-0abc i-0def"),
        says=(
            "{name} gets no more work, and is kept until you undo this, over restarts too.",
            ("busy", "It is busy now: what runs on it goes on."),
            _REFILLED,
            ("slot", "It keeps its {slot}."),
        ),
        done=(
            "{which} is cordoned: it takes no more work and is not destroyed, also over restarts; "
            "`nodemanager uncordon {id}` ends that"
        ),
        already="{which} is cordoned already",
    )
    UNCORDON = VerbRow(
        "uncordon",
        "Uncordon",
        CommandTarget.NODE,
        does="End a cordon.",
        help="End a cordon: the node takes work again, and may be shut down again.",
        examples=("uncordon compute7",),
        says=("{name} may take work again, and may be shut down again.",),
        done="{which} may take work again",
        already="{which} is not cordoned",
        ends=("cordon",),
    )
    KILL = VerbRow(
        "kill",
        "Kill",
        CommandTarget.NODE,
        does="Shut a node down now, busy or not.",
        help=(
            "Shut a node down now, busy or not; its record is freed once the cloud says it is "
            "gone.\n\nOn a terminal it shows the node, its state and its age, and asks; "
            "elsewhere, as in a script, it needs --yes.\n\nRefused for a node that has no "
            "tag of ours (D11), is on hold, or can't be identified (P2), and while breaker, "
            "pause, lease or old polls forbid every shutdown."
        ),
        examples=(
            "kill i-0abc --reason 'its kernel hangs'",
            "kill compute7 compute8 --reason 'bad disks' --yes --wait",
        ),
        says=(
            "{name} is shut down now, busy or not.",
            ("busy", "It is busy now: what runs on it is lost."),
            _FREED,
            "Once its destroy is sent, this can't be undone.",
        ),
        done="{which} is being shut down, busy or not",
        already="{which} is to be killed already",
        takes=Takes.YES | Takes.WAIT,
        danger=True,
        needs_reason=True,
    )
    CLEAN = VerbRow(
        "clean",
        "Clean",
        CommandTarget.RECORD,
        does="Free a record now, by the usual rules.",
        help=(
            "Free a record now, by the usual rules (C0 to C12).\n\nA refusal names the "
            "rule that forbids it and the measured values. Waits some seconds for the outcome, "
            "and with --wait TIME that long. RECORD is a record's uuid or hostname, or the id "
            "of its former node."
        ),
        examples=(
            "clean zzzzz-7ekkf-000000000000007",
            "clean compute7 --force C3 --force C2 --reason 'its rack burned'",
        ),
        says=(
            "The record is freed now, if the usual rules allow it: {held} can be used again.",
            "It is refused while any rule forbids it, its stale window too. Right before it, "
            "the cloud is asked whether a node of it lives.",
        ),
        done="{which} is clean",
        already="{which} is clean already",
        takes=Takes.FORCE | Takes.WAIT,
        danger=True,
    )
    PAUSE = VerbRow(
        "pause",
        "Pause the pool",
        CommandTarget.POOL,
        does="Create, destroy and free nothing for now.",
        help=(
            "Create, claim, destroy and clean nothing until `resume`, even over "
            "restarts.\n\nPolling, deciding and logging go on, and actions that were "
            "already sent run to their end."
        ),
        examples=("pause --reason 'the cloud is being upgraded'",),
        says=(
            "Nothing is booted, shut down or freed until you resume, over restarts too.",
            "What is under way is brought to its end. Polls, log and this page go on.",
        ),
        done=(
            "the pool is paused: nothing is created, destroyed or freed; actions that were "
            "already sent still end; `nodemanager resume` ends the pause"
        ),
        already="the pool is paused already",
        standing=PoolMark("bad", "The pool is paused", "paused", "pause"),
        needs_reason=True,
    )
    RESUME = VerbRow(
        "resume",
        "Resume the pool",
        CommandTarget.POOL,
        does="End a pause.",
        help="End a pause.",
        examples=("resume",),
        says=("The daemon boots, shuts down and frees again, from its next decision on.",),
        done="the pool goes on",
        already="the pool is not paused",
        ends=("pause",),
    )
    PARK = VerbRow(
        "park",
        "Park the pool",
        CommandTarget.POOL,
        does="Let the pool empty, and boot nothing.",
        help=(
            "Boot nothing more, and shut each node down once it is idle, until `unpark`, even "
            "over restarts.\n\nBusy nodes finish their work, and take no more. What is on hold or "
            "cordoned stays, and records are freed as ever. `pause` stops everything instead."
        ),
        examples=("park --reason 'the cluster rests until Monday'",),
        says=(
            "Nothing more is booted, also below min_nodes, until you unpark, over restarts too.",
            "Each node takes no more work, and is shut down as soon as it is idle.",
            "Busy nodes work until their jobs end. What is on hold or cordoned stays.",
        ),
        done=(
            "the pool is parked: nothing is booted, and each node is shut down as soon as it is "
            "idle; `nodemanager unpark` ends that"
        ),
        already="the pool is parked already",
        standing=PoolMark("odd", "The pool is parked", "parked", "park"),
    )
    UNPARK = VerbRow(
        "unpark",
        "Unpark the pool",
        CommandTarget.POOL,
        does="End a parking: boot again.",
        help="End a parking: nodes are booted again, and those that are left take work again.",
        examples=("unpark",),
        says=("Nodes are booted again, and those that are left take work again.",),
        done="the pool boots nodes again",
        already="the pool is not parked",
        ends=("park",),
    )
    ROTATE_PAUSE = VerbRow(
        "rotate_pause",
        "Pause the rotation",
        CommandTarget.POOL,
        help=("Replace no outdated node until `rotate resume`, even over restarts."),
        examples=("rotate pause --reason 'the new image has a bug'",),
        says=(
            "No node is replaced for its image, type or age until you resume, over restarts too.",
        ),
        done=(
            "the rotation is paused: no outdated node is replaced; a destroy that was already "
            "sent still ends; `nodemanager rotate resume` ends the pause"
        ),
        already="the rotation is paused already",
        standing=PoolMark(
            "odd", "The rotation is paused", "rotation_paused", "rotation", "the rotation"
        ),
        needs_reason=True,
    )
    ROTATE_RESUME = VerbRow(
        "rotate_resume",
        "Resume the rotation",
        CommandTarget.POOL,
        help="End a pause of the rotation.",
        says=("Outdated nodes are replaced again, from the next decision on.",),
        done="the rotation goes on",
        already="the rotation is not paused",
        ends=("rotate_pause",),
    )
    BREAKER_RESET = VerbRow(
        "breaker_reset",
        "Reset the breaker",
        CommandTarget.POOL,
        help="Close the breaker, once you have looked at what opened it.",
        examples=("breaker reset --reason 'the cloud is back'",),
        says=(
            "The breaker closes, and what it stopped may go on: freeing records and shutting "
            "down nodes.",
            "Reset it only when you know what opened it.",
        ),
        done="the breaker is closed",
        already="the breaker is closed already",
        danger=True,
    )

    @property
    def typed(self) -> str:
        """The words of the command line."""
        return self.row.typed or self.value.replace("_", " ")

    @property
    def event(self) -> Event:
        """As what it is logged."""
        return Event[f"OPERATOR_{self.typed.replace(' ', '_').upper()}"]

    @property
    def path(self) -> str:
        """The HTTP route, to which the id of a command about something is appended."""
        return f"/api/{self.value.replace('_', '/')}"

    @property
    def kind(self) -> str:
        """The kind of mark that it sets, or else takes off."""
        return self.row.ends[0] if self.row.ends else self.value


GROUPS: Mapping[str, tuple[str, str]] = {
    "rotate": (
        "Pause or resume the replacement of old nodes.",
        "Pause or resume the replacement of outdated nodes; `status` shows how far it is.",
    ),
    "breaker": (
        "Close the breaker (breaker reset).",
        "Control the breaker, the latch that stops all freeing and destroying.",
    ),
}
"""The first words of commands of two: what they do, and their help."""

STANDING = {verb.kind: one for verb in Verb if (one := verb.row.standing) is not None}
"""How the marks on the whole pool are shown, by kind."""
UNDO: Mapping[str, Verb] = {kind: verb for verb in Verb for kind in verb.row.ends}
"""What takes a mark off, by its kind."""
