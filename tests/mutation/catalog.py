"""Changes of the code that would hurt in production, each with the test that must notice it.

A mutant here is a change of text, so that any layer can be mutated, and unit tests notice it. The
mutants that only whole simulated runs notice are in tests/simulation/mutants.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextMutant:
    """`old` becomes `new` in `file` (below nodemanager/), where it stands exactly once.

    `what` says in a user's words what the change breaks, `rule` which rule that is. `test` is the
    pytest node id that fails with the change; None needs `why_not`.
    """

    rule: str
    what: str
    file: str
    old: str
    new: str
    test: str | None
    why_not: str | None = None

    @property
    def name(self) -> str:
        return f"{self.rule} {self.what}"
