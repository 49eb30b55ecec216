"""What a reason code or an event means: for `nodemanager explain within_window`."""

from __future__ import annotations

import re
from typing import Any

from nodemanager.core.model.reasons import Event, Reason


def meaning(word: str) -> dict[str, Any] | None:
    """What the word says, its rule, the options that it depends on, and how an operator ends it;
    None if it is no reason code and no event. A line of the log has it as `reason=within_window`.
    """
    from nodemanager.config.sections import SECTIONS

    word = word.removeprefix("reason=").removeprefix("event=")
    known = next((one for one in (*Reason, *Event) if one.value == word), None)
    if known is None:
        return None
    named = set(re.findall(r"`(\w+)`", known.doc))
    options = [one for each in SECTIONS for one in each.options if one.name in named]
    is_reason = isinstance(known, Reason)
    row = known.row if isinstance(known, Reason) else None
    return {
        "subject": "reason" if is_reason else "event",
        "id": word,
        "says": known.doc,
        "rule": known.rule if isinstance(known, Reason) else None,
        "options": {f"[{one.section}] {one.name}": one.help.split(". ")[0] for one in options},
        "ends": [] if row is None else [one for one in (row.clear, row.frees, row.restores) if one],
    }


def lines(shown: dict[str, Any]) -> list[str]:
    """The sentence, and below it the rule, the options and how it ends."""
    rule = [f"{shown['rule']}, on the manual's page of rules"] if shown["rule"] else []
    options = [f"{name}: {help.rstrip('.')}." for name, help in shown["options"].items()]
    see = [f"nodemanager log --{shown['subject']} {shown['id']}"]
    told = {"rule": rule, "option": options, "ends": shown["ends"], "see": see}
    below = [f"{label:<8}{text}" for label, texts in told.items() for text in texts]
    return [f"{shown['id']}: {shown['says']}", *below]
