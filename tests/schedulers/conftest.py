"""One real Slurm for all tests of a worker, put back to idle nodes and no jobs for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.schedulers.slurm.adapter import AnswerFormat
from tests.schedulers.contract import SlurmWorld, ToyWorld, World
from tests.schedulers.slurm_cluster import SlurmCluster, slurm_cluster


@pytest.fixture(scope="session")
def _running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def slurm(_running_slurm: SlurmCluster) -> SlurmCluster:
    _running_slurm.tidy()
    return _running_slurm


ANSWERS = [
    pytest.param(one, id=f"slurm-{one.value}", marks=pytest.mark.server("slurm", "munge"))
    for one in (AnswerFormat.JSON, AnswerFormat.TEXT)
]


@pytest.fixture(params=[ANSWERS[0], pytest.param(None, id="command", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A scheduler. Orders are the same whatever form Slurm's answers have; a test of what is read
    asks for Slurm's text as well (`ANSWERS`)."""
    if request.param is None:
        return ToyWorld(tmp_path / "toy.json")
    return SlurmWorld(request.getfixturevalue("slurm"), request.param)
