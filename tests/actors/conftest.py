"""Fixtures of the actors' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from nodemanager.journal.api import Journal
from tests.actors.rig import Rig, rigs
from tests.fakes import FakeCloud, FakeStore, TickingClock


class MakeRig(Protocol):
    def __call__(
        self,
        *,
        cloud: FakeCloud | None = None,
        store: FakeStore | None = None,
        journal: Journal | None = None,
        **options: object,
    ) -> Rig: ...


@pytest.fixture
def make_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeRig]:
    yield from rigs(tmp_path, monkeypatch)


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def cloud(clock: TickingClock) -> FakeCloud:
    return FakeCloud(clock)


@pytest.fixture
def store(clock: TickingClock) -> FakeStore:
    return FakeStore(clock)
