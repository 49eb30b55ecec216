"""The box says at once what it can't do."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import cases
from tests.systemd.box import OWN, out_of_sight


@cases(
    ("tree", "hides"),
    {
        "below-tmp": ("/tmp/clone", "/tmp"),
        "below-var": ("/var/lib/ci/clone", "/var"),
        "elsewhere": ("/home/ann/clone", None),
        "a-name-that-begins-alike": ("/tmpfiles/clone", None),
    },
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
