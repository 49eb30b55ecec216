"""A command finds its daemon although the file has mistakes, and never another's daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.config import load, reach
from nodemanager.errors import ConfigError
from tests.cases import cases

GOOD = "[Daemon]\nstate_dir = {home}/state\n[Cloud]\nprovider = dummy\n"


def written(home: Path, text: str, name: str = "pool.cfg") -> Path:
    path = home / name
    path.write_text(text.format(home=home), encoding="utf-8")
    return path


@cases(
    "mistake",
    {
        "an-unknown-section": "[Deamon]\nmin_nodes = 2\n",
        "an-unknown-option": "[Cleaning]\nsetle = 5\n",
        "a-wrong-value": "[Cleaning]\nsettle = soon\n",
        "no-ini": "half a line\n",
    },
)
def test_a_mistake_elsewhere_hides_no_daemon(mistake: str, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + mistake)
    with pytest.raises(ConfigError):
        load(path)
    found = reach(path, environ={})
    assert found.state_dir == tmp_path / "state"
    assert found.journal == tmp_path / "state" / "journal.db"
    assert found.problems


@cases(
    "text",
    {
        "misplaced": "[Deamon]\nstate_dir = {home}/a\n[Cloud]\nprovider = dummy\n",
        "given-twice": GOOD + "[Daemon]\nstate_dir = {home}/other\n",
        "wrong": "[Daemon]\nstate_dir = a/b\n[Cloud]\nprovider = dummy\n",
        "a-wrong-pool": "[Daemon]\npool = a b\n[Cloud]\nprovider = dummy\n",
        "a-journal-elsewhere": GOOD + "[Journl]\npath = {home}/j.db\n",
    },
)
def test_a_mistake_that_may_mean_another_daemon_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        reach(written(tmp_path, text), environ={})


def test_a_good_file_leads_where_the_daemon_is(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + "[Manage]\nManagementToken = abc\n")
    found, whole = reach(path, environ={}), load(path, environ={})
    assert (found.state_dir, found.journal) == (whole.daemon.state_dir, whole.journal.path)
    assert found.token is not None
    assert found.token.reveal() == "abc"
    assert (found.problems, found.unread) == ((), ())


def test_a_secret_that_only_the_service_may_read_is_no_mistake(tmp_path: Path) -> None:
    """LoadCredential's files are the service's alone, and are there only while it runs."""
    path = written(tmp_path, GOOD + "[Manage]\nManagementToken_file = {home}/none\n")
    found = reach(path, environ={})
    assert found.problems == ()
    assert found.unread == (
        f"{path}:6: [Manage] ManagementToken_file = {tmp_path}/none: can't be read: "
        f"{os.strerror(2)}",
    )
    with pytest.raises(ConfigError, match="can't be read"):
        load(path)


def test_a_file_that_is_not_there_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        reach(tmp_path / "none.cfg")
