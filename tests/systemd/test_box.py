"""The box says at once what it can't do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.systemd.box import OWN, out_of_sight


@pytest.mark.parametrize(
    ("tree", "hides"),
    [
        pytest.param("/tmp/clone", "/tmp", id="below-tmp"),
        pytest.param("/var/lib/ci/clone", "/var", id="below-var"),
        pytest.param("/home/ann/clone", None, id="elsewhere"),
        pytest.param("/tmpfiles/clone", None, id="a-name-that-begins-alike"),
    ],
)
def test_a_clone_that_the_box_hides_is_told_of(tree: str, hides: str | None) -> None:
    told = out_of_sight(Path(tree))
    assert (told is None) is (hides is None)
    assert hides is None or (hides in str(told) and tree in str(told))


def test_what_is_said_to_be_hidden_is_what_the_script_hides() -> None:
    script = (Path(__file__).parent / "inside.sh").read_text()
    found = re.search(r"^for fs in ([^;]+); do mount -t tmpfs", script, re.MULTILINE)
    assert found is not None
    assert tuple(found[1].split()) == OWN
