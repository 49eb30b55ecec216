"""The language of what happens to a Slurm: a script is data, and any stage plays it.

Each script is played on the model first, whose clock is turned as far as the script waits, and then
on a real Slurm, which is asked until it says the same. What a real one never says fails, but for
the differences that a step states: those must be exactly so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Picture = Mapping[str, str]
"""What a stage says of itself, by what it is about: of nodes, `n1`, `n1 reason`; of jobs, `job a`.

What is not there is left out.
"""
Differences = Mapping[str, tuple[str | None, str | None]]
"""By what it is about, what the real one says and what the model says; `answer` is an order's."""


@dataclass(frozen=True)
class Step:
    """One thing that happens, or is waited for."""

    verb: str
    about: str = ""
    told: tuple[str, ...] = ()
    differs: Differences = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join((self.verb, self.about, *self.told)).strip()


@dataclass(frozen=True)
class Script:
    name: str
    steps: tuple[Step, ...]
    short: bool = False
    """It is of the short set, which `make test` plays."""


# What happens.


def order(node: str, *told: str) -> Step:
    """`scontrol update NodeName=`, by whoever it is."""
    return Step("order", node, told)


def tell(node: str, verb: str, *reason: str) -> Step:
    """The manager's own order, over the port: `drain`, `resume` or `down`."""
    return Step("tell", node, (verb, *reason))


def register(node: str) -> Step:
    """A new machine's slurmd starts by that name."""
    return Step("register", node)


def lose(node: str) -> Step:
    """Its machine is gone, with all that ran there."""
    return Step("lose", node)


def freeze(node: str) -> Step:
    """Its slurmd lives, and is not reached."""
    return Step("freeze", node)


def thaw(node: str) -> Step:
    """The slurmd that was frozen is reached again."""
    return Step("thaw", node)


def submit(job: str, node: str) -> Step:
    """A job that asks for that node, and ends when it is told."""
    return Step("submit", job, (node,))


def job(what: str, name: str) -> Step:
    """An operator or its owner: `cancel`, `requeue` or `begin` (now)."""
    return Step(what, name)


STOP, START, KILL, SAVED = Step("stop"), Step("start"), Step("kill"), Step("saved")
"""slurmctld ends, begins, is killed -9; all that it knows by now is on its disk."""


def reserve(nodes: str, *, maintenance: bool = False) -> Step:
    return Step("reserve", nodes, ("maintenance",) if maintenance else ())


UNRESERVE = Step("unreserve")


def partition(*nodes: str) -> Step:
    """The partition has those nodes from now on, until slurm.conf is read again."""
    return Step("partition", "", nodes)


def configure(*without: str) -> Step:
    """slurm.conf is written anew, without those nodes; nobody reads it yet."""
    return Step("configure", "", without)


RECONFIGURE = Step("reconfigure")
RECONFIGURE_ENDS_IT = Step("reconfigure", differs={"answer": ("Zero Bytes were transmitted", "")})
"""slurmctld 22.05 ends where slurm.conf names fewer nodes than it knows."""


# What is asked.


def is_now(node: str, words: str, /, **differs: tuple[str | None, str | None]) -> Step:
    """Wait until the node's words are those, and compare all that both say then."""
    return Step("until", node, tuple(words.split()), _differences(differs))


def has(job: str, state: str, /, **differs: tuple[str | None, str | None]) -> Step:
    """Wait until the job `waits`, has its node (`n1`), or is `over`; and compare all."""
    return Step("until", f"job {job}", (state,), _differences(differs))


def look(**differs: tuple[str | None, str | None]) -> Step:
    """Compare all that both say."""
    return Step("look", differs=_differences(differs))


def _differences(differs: dict[str, tuple[str | None, str | None]]) -> Differences:
    """`n1_reason` stands for what is about `n1 reason`."""
    return {about.replace("_", " "): both for about, both in differs.items()}


def is_reached(step: Step, seen: Picture) -> bool:
    if step.verb == "look":
        return True
    said = seen.get(step.about, "")
    return sorted(said.split()) == sorted(step.told) if step.told else not said


def unlike(step: Step, real: Picture, model: Picture) -> dict[str, tuple[str | None, str | None]]:
    """What both say differently, (real, model), beside what the step states and is so."""
    found = {
        about: (real.get(about), model.get(about))
        for about in sorted({*real, *model})
        if real.get(about) != model.get(about)
    }
    for about, both in step.differs.items():
        if found.get(about) == both:
            del found[about]
        else:
            # A difference that is stated, and is none any more.
            found.setdefault(about, (real.get(about), model.get(about)))
    return found
