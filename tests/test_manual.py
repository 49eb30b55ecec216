"""Every command that the manual shows is one that there is, with options that it has.

tests/live/test_manual.py runs those that stand on a line of their own.
"""

from __future__ import annotations

import click
import pytest

from tests.live.test_manual import MAY_BE_REFUSED, ONLY_PARSED, kind_of
from tests.manual import Shown, block_commands, inline_commands, resolved, unknown_options

BLOCKS = list(block_commands())


def test_a_command_of_the_manual_is_one_of_ours_with_options_that_it_has() -> None:
    wrong = []
    for shown in (*BLOCKS, *inline_commands()):
        try:
            unknown = unknown_options(shown.words)
        except (KeyError, ValueError) as error:
            wrong.append(f"{shown}: {error}")
            continue
        wrong += [f"{shown}: no option {one}" for one in sorted(unknown)]
    assert not wrong, "\n".join(wrong)


def test_each_command_on_a_line_of_its_own_can_be_parsed() -> None:
    wrong = []
    for shown in BLOCKS:
        if shown.synopsis:
            continue
        command, left = resolved(shown.words)
        try:
            command.make_context("nodemanager", left)
        except click.UsageError as error:
            if "does not exist" in error.format_message():
                # A file of the example's.
                continue
            wrong.append(f"{shown}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted({*ONLY_PARSED, *MAY_BE_REFUSED}))
def test_what_is_said_of_a_command_is_said_of_one_in_the_manual(name: str) -> None:
    resolved([word for word in name.split() if word != "--boot"])
    mine = {name: ""}
    assert any(kind_of(shown, mine) for shown in (*BLOCKS, *inline_commands()) if shown.words)


def test_the_manual_shows_many_commands() -> None:
    assert len({shown.text for shown in BLOCKS}) > 50
    assert len({shown.text for shown in inline_commands()}) > 40


def test_a_command_that_is_gone_would_be_found() -> None:
    with pytest.raises(KeyError, match="explode"):
        unknown_options(Shown("a.rst", 1, "explode compute1").words)
    assert unknown_options(["log", "compute1", "--sinc", "1h"]) == {"--sinc"}
