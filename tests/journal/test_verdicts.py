"""The verdicts of a decision, told from those of the one before, are told as if from none."""

from __future__ import annotations

import pytest

from nodemanager.journal import verdicts
from nodemanager.journal.verdicts import Verdicts, digest, verdicts_of
from tests.fakes.journal import MemoryJournal
from tests.journal.random_world import RandomWorld

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("together", [1, 3, 250])
def test_the_checksum_is_that_of_all_verdicts_alone(
    seed: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "_TOGETHER", together)
    now = Verdicts()
    for decision in RandomWorld(seed, MemoryJournal()).run(40):
        now = now.then(decision.plan)
        assert now.digest == digest(verdicts_of(decision.plan))
