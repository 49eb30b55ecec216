"""Completes an ID: what the journal last knew of, without asking anybody over a network."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from nodemanager.commands.common import config_path, journal_of
from nodemanager.config import load
from nodemanager.errors import NodeManagerError
from nodemanager.journal.story import names_in


def complete_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Uuids, hostnames, slots and nodes that begin so; nothing where that can't be told.

    A shell shows whatever is printed in the middle of the line that is typed: no error ever is, nor
    a name that could move the cursor (X9).
    """
    try:
        journal = ctx.params.get("journal")
        config = ctx.params.get("config")
        path = Path(os.fspath(journal)) if journal else journal_of(load(config_path(config)))
        known = names_in(path)
    except (NodeManagerError, click.UsageError, OSError):
        return []
    names = (name for name in sorted(known) if name.startswith(incomplete) and name.isprintable())
    return [CompletionItem(name) for name in names]
