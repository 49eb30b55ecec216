"""The plan as a file: what people may do to it, and what is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.commands.backlog_file import PlanFileError, read, render, write
from tests.cases import cases

PLAN: dict[str, Any] = {
    "pool": "main",
    "store": "5f3a",
    "account": "local:/var/lib/node manager/local-cloud",
    "made_at": "2026-11-21T08:00:00.000Z",
    "plan": "4f1c-9",
    "mode": "apply",
    "settings": {"node_stale_after_s": 7200.0},
    "items": [
        {
            "deed": "clean",
            "id": f"zzzzz-7ekkf-{number:015}",
            "version": f'v"{number}' if number == 3 else str(number),
            "chosen": number < 4,
            "reason": "stale_slot" if number < 4 else "unverifiable",
            "slot": number,
            "host": f"compute{number}",
            "node": "i-0abc",
            "last_sign_at": "2020-01-01T00:00:00.000Z",
            "asked": "no such node",
            "claimed_by": None,
            "measures": {"idle_s": 9012.5, "window_s": 7200.0},
        }
        for number in range(1, 6)
    ],
}
HEAD = "pool = main\nstore = s\naccount = a\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "leaked.plan"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_written_reads_back_with_all_it_is_bound_to(tmp_path: Path) -> None:
    found = read(written(tmp_path, render(PLAN)))
    assert found.bound_to == {key: PLAN[key] for key in ("pool", "store", "account")}
    assert [dict(item) for item in found.items] == [
        {key: item[key] for key in ("deed", "id", "version")}
        for item in PLAN["items"]
        if item["chosen"]
    ]


def test_each_line_shows_the_evidence_and_what_is_left_out_says_why(tmp_path: Path) -> None:
    lines = render(PLAN).splitlines()
    (line,) = [one for one in lines if one.startswith("clean zzzzz-7ekkf-000000000000001 ")]
    for said in ("slot=1", "host=compute1", 'asked="no such node"', "idle_s=9012.5"):
        assert said in line
    assert sum(one.startswith("#clean ") for one in lines) == 2
    assert any(one.startswith("# 2 left out, unverifiable: There is no tag") for one in lines)


@cases(
    "edit",
    {
        "deleted": lambda line: "",
        "commented-out": lambda line: f"# {line}",
        "indented-comment": lambda line: f"   #{line}",
    },
)
def test_a_line_that_is_deleted_or_commented_out_is_left_out(tmp_path: Path, edit: Any) -> None:
    lines = [
        edit(line) if line.startswith("clean zzzzz-7ekkf-000000000000002 ") else line
        for line in render(PLAN).splitlines()
    ]
    found = read(written(tmp_path, "\n".join(lines)))
    assert [item["id"][-1] for item in found.items] == ["1", "3"]


def test_a_line_may_be_chosen_shortened_and_commented(tmp_path: Path) -> None:
    text = HEAD + "  clean r1 version=7 # ask Bob, he's the owner\n\n# clean r2 version=8\n"
    (item,) = read(written(tmp_path, text)).items
    assert item == {"deed": "clean", "id": "r1", "version": "7"}


@cases(
    ("text", "said"),
    {
        "unknown": (HEAD + "destroy r1 version=1\n", ":4: 'destroy' is neither"),
        "no-version": (HEAD + "clean r1\n", ":4: a line must be"),
        "no-id": (HEAD + "clean version=1\n", ":4: a line must be"),
        "a-word": (HEAD + "clean r1 version=1 really\n", ":4: 'really' is neither"),
        "twice": (HEAD + "clean r1 version=1\nclean r1 version=2\n", ":5: r1 is in the plan"),
        "no-account": ("pool = main\nstore = s\n", "`account = ...`"),
        "a-later-form": (HEAD + "form = 9\n", "form = 9"),
    },
)
def test_a_line_that_can_not_be_read_is_told_with_its_number(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(PlanFileError) as caught:
        read(written(tmp_path, text))
    assert said in str(caught.value)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError) as caught:
        read(written(tmp_path, "clean r1\nfree r2 version=1\n"))
    assert len(str(caught.value).splitlines()) == 5


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "leaked.plan"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanFileError, match="can't be read"):
        read(path)


def test_a_plan_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match="can't be written"):
        write(tmp_path / "nowhere" / "leaked.plan", PLAN)


@cases(
    "odd", {"a-newline": "r1\nclean r2 version=1", "a-space": "r 1", "a-key": "a=b", "empty": ""}
)
def test_an_odd_id_puts_no_line_of_its_own_into_the_plan(tmp_path: Path, odd: str) -> None:
    items = [{**PLAN["items"][0], "id": odd}, PLAN["items"][1]]
    path = tmp_path / "leaked.plan"
    write(path, {**PLAN, "items": items})
    assert [item["id"] for item in read(path).items] == [PLAN["items"][1]["id"]]


def test_a_name_from_the_cloud_puts_no_line_of_its_own_into_the_plan(tmp_path: Path) -> None:
    node = {
        **PLAN["items"][0],
        "deed": "adopt",
        "id": "i-1",
        "chosen": False,
        "reason": "untagged",
        "name": "x\nclean r2 version=1\x1b[2J",
    }
    path = tmp_path / "leaked.plan"
    write(path, {**PLAN, "items": [node]})
    assert read(path).items == ()
    assert "\x1b" not in path.read_text(encoding="utf-8")
