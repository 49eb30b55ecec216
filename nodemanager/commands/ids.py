"""The completion of IDs from the journal's last state, without any network request."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from nodemanager.commands.common import config_path, journal_of
from nodemanager.errors import NodeManagerError


def complete_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Uuids, hostnames, slots and nodes that begin with `incomplete`; empty on any error.

    A shell shows whatever we print in the middle of the user's input. So we print no error, and no
    name that could move the cursor (X9).
    """
    from nodemanager.config import load
    from nodemanager.core.explain.lists import natural
    from nodemanager.journal.story import names_in

    try:
        journal = ctx.params.get("journal")
        config = ctx.params.get("config")
        path = Path(os.fspath(journal)) if journal else journal_of(load(config_path(config)))
        known = names_in(path, incomplete)
    except (NodeManagerError, click.UsageError, OSError):
        return []
    return [CompletionItem(name) for name in sorted(known, key=natural) if name.isprintable()]
