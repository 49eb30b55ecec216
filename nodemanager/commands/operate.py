"""Commands to a running daemon: the operators' verbs, each made from its row, and a few others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.completion import complete_id
from nodemanager.commands.show import print_json
from nodemanager.commands.waiting import until_clean, until_gone, wait_option
from nodemanager.core.model.annotations import FORCIBLE
from nodemanager.core.operate.verbs import GROUPS, Takes, Verb
from nodemanager.lib.logline import Json, span, visible

RUNTIME_FAILURE, WRONG_CONFIGURATION = 1, 2


def tell(
    config: str | None,
    verb: Verb,
    *ids: str,
    as_json: bool,
    reason: str = "",
    forced: Sequence[str] = (),
    unlisted: bool = False,
    then: Callable[[Any, list[Json]], None] | None = None,
) -> None:
    """Send the command, once for each id, print each answer, and exit 1 where one was not done.

    `then` goes on with the client and the answers, where all were done.
    """
    daemon = client(config)
    given: Sequence[str | None] = ids or (None,)
    answers: list[Json] = []
    try:
        for id in given:
            answers.append(daemon.order(verb, id, reason=reason, forced=forced, unlisted=unlisted))
            if not as_json:
                _print(answers[-1])
    finally:
        # What was done before an error is done.
        if as_json and answers:
            print_json(answers[0] if len(given) == 1 else answers)
    if not all(map(_is_done, answers)):
        sys.exit(RUNTIME_FAILURE)
    if then is not None:
        then(daemon, answers)


def _print(answer: Json) -> None:
    said = visible(str(answer.get("message", "")))
    if _is_done(answer):
        click.echo(said)
    else:
        click.echo(f"nodemanager: {answer.get('title', 'not done')}: {said}", err=True)


def _is_done(answer: Json) -> bool:
    return bool(answer.get("done")) or answer.get("result") == "under_way"


def _waits(verb: Verb, ids: Sequence[str], limit_s: float) -> Callable[[Any, list[Json]], None]:
    """Waits that long until the nodes of the answers are gone, or their records clean."""

    def then(daemon: Any, answers: list[Json]) -> None:
        if verb is Verb.CLEAN:
            under_way = [one for one in zip(ids, answers, strict=True) if not one[1].get("done")]
            until_clean(daemon, [one.get("record") or id for id, one in under_way], limit_s)
        else:
            until_gone(daemon, [one["node"] for one in answers if one.get("node")], limit_s)

    return then


def command_of(verb: Verb) -> click.Command:
    """The command of an operator's verb, with its options and its help."""
    row = verb.row
    about, takes = row.subject.value, row.takes

    def run(
        as_json: bool,
        config: str | None,
        reason: str,
        yes: bool = False,
        wait: float | None = None,
        forced: tuple[str, ...] = (),
        unlisted: bool = False,
        **named: tuple[str, ...],
    ) -> None:
        ids: Sequence[str] = named.get(about, ())
        if forced and not reason:
            raise click.UsageError("--force needs --reason TEXT: say why the rule does not apply")
        meant = _confirmed(config, ids) if Takes.YES in takes and not yes else ids
        then = None if wait is None else _waits(verb, ids, wait)
        how: dict[str, Any] = {"forced": forced, "unlisted": unlisted, "then": then}
        tell(config, verb, *meant, as_json=as_json, reason=reason, **how)

    command = (_why if row.needs_reason else _reason)(answered(run))
    for one, option in _OPTIONS.items():
        command = option(command) if one in takes else command
    if about:
        shown = f"{about.upper()}..."
        command = click.argument(
            about, nargs=-1, required=True, metavar=shown, shell_complete=complete_id
        )(command)
    epilog = [_rules(), _NEVER] if Takes.FORCE in takes else []
    epilog += [examples(*row.examples)] if row.examples else []
    name = verb.typed.rpartition(" ")[2]
    return click.command(name, help=row.help, epilog="\n\n".join(epilog) or None)(command)


_reason = click.option("--reason", default="", metavar="TEXT", help="Why; written to the log.")
_why = click.option(
    "--reason", required=True, metavar="TEXT", help="Why; written to the log. Must be given."
)
_OPTIONS = {
    Takes.WAIT: wait_option,
    Takes.YES: click.option(
        "--yes", "-y", is_flag=True, help="Don't ask; needed without a terminal."
    ),
    Takes.UNLISTED: click.option(
        "--unlisted", is_flag=True, help="Accept an ID that no listing shows."
    ),
    Takes.FORCE: click.option(
        "--force",
        "forced",
        multiple=True,
        metavar="RULE",
        help="Break this rule, and note that in journal and log; may be repeated.",
    ),
}


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirmed(config: str | None, given: Sequence[str]) -> list[str]:
    """The ids of the nodes that are named, after the user has confirmed these nodes."""
    if not _can_ask():
        raise click.UsageError("without a terminal nobody can confirm the kill: give --yes")
    daemon = client(config)
    rows = [(one, daemon.get("nodes", one)) for one in given]
    click.confirm(
        visible(f"kill {'; '.join(_about(row) for _, row in rows)}?"), abort=True, err=True
    )
    return [str(row["node"] or one) for one, row in rows]


def _about(row: Json) -> str:
    """A node as it is confirmed: its names, size, state, age and standing orders."""
    age = "" if row["age_s"] is None else f", {span(row['age_s'])} old"
    named = " ".join(one for one in (row["host"], row["node"] or row["record"]) if one)
    orders = f", with a standing {' and '.join(row['orders'])}" if row["orders"] else ""
    return f"{named} ({row['size'] or 'unknown size'}, {row['state']}{age}{orders})"


def _rules() -> str:
    wide = max(map(len, FORCIBLE)) + 2
    return "\b\nRules that --force can break:\n" + "\n".join(
        f"  {rule:<{wide}}{what}" for rule, what in FORCIBLE.items()
    )


_NEVER = (
    "No other rule can be broken: not a listed node (C4), not the check of the cloud by tag and id "
    "(C11), not the conditional write or the fence (C12), nor pool, hold, breaker, lease, pause or "
    "polls."
)


COMMANDS: dict[str, click.Command] = {
    **{verb.typed: command_of(verb) for verb in Verb if " " not in verb.typed},
    **{
        name: click.Group(
            name,
            help=help,
            commands=[command_of(verb) for verb in Verb if verb.typed.startswith(f"{name} ")],
        )
        for name, (_, help) in GROUPS.items()
    },
}
"""The commands of the operators' verbs."""


@click.command(
    epilog=examples("reload", "reload --json | jq '.changes[] | select(.applied | not)'")
)
@answered
def reload(as_json: bool, config: str | None) -> None:
    """Let the daemon read its file again, as SIGHUP does, and show what that changed.

    Windows and limits apply at once; what needs a restart is named. A wrong file changes nothing:
    its problems are printed, with exit code 2.
    """
    reloaded = client(config).post("reload")
    if as_json:
        print_json(reloaded)
    else:
        for one in reloaded["changes"]:
            was, now = one["old"] or "unset", one["new"] or "unset"
            how = "" if one["applied"] else "  (needs a restart)"
            click.echo(visible(f"{one['option']}: {was} -> {now}{how}"))
        if reloaded["done"] and not reloaded["changes"]:
            click.echo("nothing changed")
        for problem in reloaded["problems"]:
            click.echo(visible(problem), err=True)
    if not reloaded["done"]:
        sys.exit(WRONG_CONFIGURATION)
