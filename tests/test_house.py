"""The house: composed, not inherited, and no class too big to hold in one's head (STYLE.md)."""

from __future__ import annotations

import ast

import pytest

from nodemanager.actors.base import RoleActor
from nodemanager.actors.daemon.daemon import NodeManagerDaemonActor
from nodemanager.lib import redact
from tests.figures import Class, classes, sources

pytestmark = pytest.mark.slow

MOST_METHODS, MOST_LINES = 40, 600


@pytest.fixture(scope="module")
def built() -> dict[str, list[Class]]:
    """The classes of each package. They are found here and not for each worker's list of tests."""
    every = sources()
    return {
        package: classes([one for one in every if one.name.startswith(f"nodemanager.{package}.")])
        for package in ("actors", "cloud", "core")
    }


def test_the_daemon_actor_inherits_from_its_actor_base_alone() -> None:
    assert NodeManagerDaemonActor.__bases__ == (RoleActor,)


def test_one_place_changes_the_one_state() -> None:
    """`Context` folds facts and decisions into it; a part that set it would be a second fold."""
    setters = {
        one.name
        for one in sources()
        if one.name.startswith("nodemanager.actors.")
        for node in ast.walk(one.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if node.attr == "state"
    }
    assert setters == {"nodemanager.actors.daemon.context"}


@pytest.mark.parametrize("package", ["actors", "cloud", "core"])
def test_a_class_has_one_job(built: dict[str, list[Class]], package: str) -> None:
    assert len(built[package]) > 50
    # The closed lists of reasons and events are rows, and no job.
    jobs = [one for one in built[package] if "Documented" not in one.bases]
    big = [one for one in jobs if one.methods >= MOST_METHODS or one.lines >= MOST_LINES]
    assert big == []


@pytest.mark.parametrize("package", ["actors", "cloud"])
def test_an_actor_and_a_cloud_are_composed(built: dict[str, list[Class]], package: str) -> None:
    # A poller is a role actor.
    assert [one for one in built[package] if len(one.bases) > 2] == []


def test_what_hides_secrets_hides_no_word_of_our_messages() -> None:
    """`credentials: none in ...` reached the log as `credentials: *** in ...`."""
    quoted = {"send the header `Authorization: Bearer TOKEN`"}
    hidden = {
        message
        for one in sources()
        for said in ast.walk(one.tree)
        if isinstance(said, ast.Raise)
        or (isinstance(said, ast.Call) and getattr(said.func, "attr", "") == "event")
        for node in ast.walk(said)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for message in [_message(node)]
        if redact.text(message) != message
    }
    assert hidden - quoted == set()


def _message(node: ast.Constant | ast.JoinedStr) -> str:
    """The text of a literal, with a word in each place of a value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
