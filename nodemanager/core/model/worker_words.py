"""What the words mean that Slurm and nodes use for a node's state (SAFETY.md T6).

Slurm writes one state in three ways: `idle~` (sinfo's compact form, with a mark for a flag),
`idle+cloud+powered_down` (its complete form) and a list of words (JSON). `words_of` reads the
first two; all three mean what the set of their words means.
"""

from __future__ import annotations

from functools import lru_cache

from nodemanager.core.model.world import WorkerState

FAIL = "fail"
"""The state of a node that has failed, in its own word or in its scheduler's."""
DRAIN = "drain"
NOT_RESPONDING = "not_responding"
PLANNED = "planned"
"""Slurm keeps the node for a job that needs more nodes than are free."""
POWERED_DOWN, POWERING_UP, POWERING_DOWN = "powered_down", "powering_up", "powering_down"
POWER_UP, POWER_DOWN = "power_up", "power_down"
"""What Slurm is about to do with a node's power."""
MAY_COME = frozenset({POWERED_DOWN, POWERING_UP})
"""With one of these words, a node has no machine, or waits for the next one."""
RESERVED = frozenset({"reserved", "maintenance", "maint", "resv"})
"""The node is set aside by a reservation: whoever made it wants it left alone."""

NO_ANSWER, NOT_COME = "Not responding", "ResumeTimeout reached"
"""Slurm's own reasons to call a node down: it does not answer, or its machine did not come."""

MARKS = {
    "*": NOT_RESPONDING,
    "~": POWERED_DOWN,
    "#": POWERING_UP,
    "!": POWER_DOWN,
    "%": POWERING_DOWN,
    "$": "maintenance",
    "@": "reboot_requested",
    "^": "reboot_issued",
    "-": PLANNED,
    "+": "completing",
}
"""The flags that sinfo's compact form writes as marks behind the state."""
_SPELLED = {
    "alloc": ("allocated",),
    "mix": ("mixed",),
    "comp": ("completing",),
    "drng": ("allocated", DRAIN),
    "draining": ("allocated", DRAIN),
    "drained": (DRAIN,),
    "unk": ("unknown",),
    "futr": ("future",),
    "plnd": ("idle", PLANNED),
    "pow_up": (POWERING_UP,),
    "pow_dn": (POWERED_DOWN,),
    "powerdown": (POWERED_DOWN,),
    "powered-down": (POWERED_DOWN,),
}
"""What the shorter forms and older spellings stand for."""
_WORKING = frozenset({"busy", "allocated", "mixed", "completing"})
_BESIDE_IDLE = frozenset({"idle", "cloud", "drain", "dynamic_norm", "dynamic_future", POWER_UP})
"""Words that change nothing about a node that is idle and responds.

Slurm leaves `power_up` behind where the machine came before it had powered the node up.
"""


@lru_cache(maxsize=1024)
def words_of(raw: str) -> frozenset[str]:
    """The words of a state in the compact or the complete form, in lower case."""
    text = raw.strip().lower()
    base = text.rstrip("".join(MARKS))
    marks = {MARKS[mark] for mark in text[len(base) :]}
    spelled = (word for part in base.split("+") for word in _SPELLED.get(part, (part,)))
    return frozenset((*spelled, *marks))


@lru_cache(maxsize=1024)
def worker_state(words: frozenset[str]) -> WorkerState:
    """What a node with these words does.

    Work counts before everything else. A node that does not respond shows no life by being idle,
    and one that is planned, rebooting, reserved or between two states of its power is not known
    to be idle.
    """
    if words & _WORKING:
        return WorkerState.BUSY
    if FAIL in words or POWERED_DOWN in words or any(word.startswith("down") for word in words):
        return WorkerState.DOWN
    if "idle" in words and words <= _BESIDE_IDLE:
        return WorkerState.IDLE
    return WorkerState.UNKNOWN
