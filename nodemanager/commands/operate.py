"""Commands to a running daemon: hold, drain, kill, clean, pause, breaker reset and so on."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.ids import complete_id
from nodemanager.commands.show import print_json
from nodemanager.core.model.annotations import FORCIBLE
from nodemanager.core.operate.verbs import Verb
from nodemanager.logline import span, visible

RUNTIME_FAILURE = 1

_reason = click.option("--reason", default="", metavar="TEXT", help="Why; written to the log.")


def _noted(command: click.decorators.FC) -> click.decorators.FC:
    return _reason(answered(command))


_why = click.option(
    "--reason", required=True, metavar="TEXT", help="Why; written to the log. Must be given."
)


def tell(
    config: str | None,
    verb: Verb,
    id: str | None = None,
    *,
    as_json: bool,
    reason: str = "",
    forced: Sequence[str] = (),
    unlisted: bool = False,
) -> None:
    """Send one command, print its answer, and exit 1 where it was not done."""
    to = client(config)
    answer = to.order(verb, id, reason=reason, forced=forced, unlisted=unlisted)
    done = bool(answer.get("done")) or answer.get("result") == "under_way"
    if as_json:
        print_json(answer)
    elif done:
        click.echo(visible(str(answer.get("message", ""))))
    else:
        title, why = answer.get("title", "not done"), visible(str(answer.get("message", "")))
        click.echo(f"nodemanager: {title}: {why}", err=True)
    if not done:
        sys.exit(RUNTIME_FAILURE)


@click.group()
def breaker() -> None:
    """Control the breaker, the latch that stops all freeing and destroying."""


@breaker.command("reset")
@_noted
def breaker_reset(reason: str, as_json: bool, config: str | None) -> None:
    """Close the breaker, once you have looked at what opened it."""
    tell(config, Verb.BREAKER_RESET, reason=reason, as_json=as_json)


@click.command(
    epilog=examples("hold i-0abc --reason 'I am logged in'", "hold compute7 --reason 'disk swap'")
)
@click.argument("id", shell_complete=complete_id)
@_reason
@click.option("--unlisted", is_flag=True, help="Accept an ID that no listing shows.")
@answered
def hold(id: str, reason: str, unlisted: bool, as_json: bool, config: str | None) -> None:
    """Keep everything automatic away from a node or record until `release`, even over restarts.

    ID is a record's uuid, a cloud node's id, a hostname that only one record has, or the id of a
    leftover.
    """
    tell(config, Verb.HOLD, id, reason=reason, unlisted=unlisted, as_json=as_json)


@click.command()
@click.argument("id", shell_complete=complete_id)
@_noted
def release(id: str, reason: str, as_json: bool, config: str | None) -> None:
    """End the hold on a node or record."""
    tell(config, Verb.RELEASE, id, reason=reason, as_json=as_json)


@click.command(epilog=examples("drain i-0abc --reason 'new image'", "drain compute7"))
@click.argument("node", shell_complete=complete_id)
@_noted
def drain(node: str, reason: str, as_json: bool, config: str | None) -> None:
    """Shut a node down as soon as it is idle, whatever the demand, and never while it is busy.

    Another node is booted where the demand needs one. `undrain` undoes it. NODE is a cloud node's
    id, its record's uuid, or its hostname.
    """
    tell(config, Verb.DRAIN, node, reason=reason, as_json=as_json)


@click.command()
@click.argument("node", shell_complete=complete_id)
@_noted
def undrain(node: str, reason: str, as_json: bool, config: str | None) -> None:
    """Let a node take work again: undo a drain, or a kill that has not been carried out yet."""
    tell(config, Verb.RUN, node, reason=reason, as_json=as_json)


@click.command(
    epilog=examples(
        "kill i-0abc --reason 'its kernel hangs'", "kill compute7 --reason 'bad disk' --yes"
    )
)
@click.argument("node", shell_complete=complete_id)
@_why
@click.option("--yes", "-y", is_flag=True, help="Don't ask; needed without a terminal.")
@answered
def kill(node: str, reason: str, yes: bool, as_json: bool, config: str | None) -> None:
    """Shut a node down now, busy or not; its record is freed once the cloud says it is gone.

    On a terminal it shows the node, its state and its age, and asks; elsewhere, as in a script, it
    needs --yes.

    Refused for a node that has no tag of ours (D11), is on hold, or can't be identified (P2), and
    while breaker, pause, lease or old polls forbid every shutdown.
    """
    meant = node if yes else _confirmed(config, node)
    tell(config, Verb.KILL, meant, reason=reason, as_json=as_json)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirmed(config: str | None, given: str) -> str:
    """The id of the node that `given` names, after the user has confirmed that node."""
    if not _can_ask():
        raise click.UsageError("without a terminal nobody can confirm the kill: give --yes")
    row = client(config).node(given)
    age = "" if row["age_s"] is None else f", {span(row['age_s'])} old"
    named = " ".join(one for one in (row["host"], row["node"] or row["record"]) if one)
    orders = f", with a standing {' and '.join(row['orders'])}" if row["orders"] else ""
    about = f"{named} ({row['size'] or 'unknown size'}, {row['state']}{age}{orders})"
    click.confirm(visible(f"kill {about}?"), abort=True, err=True)
    return str(row["node"] or given)


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


@click.command(
    epilog="\n\n".join(
        (
            _rules(),
            _NEVER,
            examples(
                "clean zzzzz-7ekkf-000000000000007",
                "clean compute7 --force C3 --force C2 --reason 'its rack burned'",
            ),
        )
    )
)
@click.argument("record", shell_complete=complete_id)
@click.option(
    "--force",
    "forced",
    multiple=True,
    metavar="RULE",
    help="Break this rule, and note that in journal and log; may be repeated.",
)
@_noted
def clean(
    record: str, forced: tuple[str, ...], reason: str, as_json: bool, config: str | None
) -> None:
    """Free a record now, by the usual rules (C0 to C12).

    A refusal names the rule that forbids it and the measured values. Waits for the outcome. RECORD
    is a record's uuid or hostname, or the id of its former node.
    """
    if forced and not reason:
        raise click.UsageError("--force needs --reason TEXT: say why the rule does not apply")
    tell(config, Verb.CLEAN, record, forced=forced, reason=reason, as_json=as_json)


@click.command(epilog=examples("pause --reason 'the cloud is being upgraded'"))
@_why
@answered
def pause(reason: str, as_json: bool, config: str | None) -> None:
    """Create, claim, destroy and clean nothing until `resume`, even over restarts.

    Polling, deciding and logging go on, and actions that were already sent run to their end.
    """
    tell(config, Verb.PAUSE, reason=reason, as_json=as_json)


@click.command()
@_noted
def resume(reason: str, as_json: bool, config: str | None) -> None:
    """End a pause."""
    tell(config, Verb.RESUME, reason=reason, as_json=as_json)


@click.command()
@answered
def orders(as_json: bool, config: str | None) -> None:
    """List the standing orders (pause, holds, drains and kills), who gave them, and why."""
    status = client(config).standing()
    paused, marks = status.get("pause", {}), status.get("marks", [])
    if as_json:
        print_json({"pause": paused, "marks": marks})
        return
    rows = [("pause", "the whole pool", paused)] if paused.get("paused") else []
    rows += [(mark["kind"], mark["id"], mark) for mark in marks]
    if not rows:
        click.echo("no standing orders")
        return
    for kind, id, told in rows:
        who = f"by {told.get('by') or 'somebody'} since {told.get('since')}"
        why = f": {told['reason']}" if told.get("reason") else ""
        click.echo(visible(f"{kind}  {id}  {who}{why}"))


COMMANDS: tuple[click.Command, ...] = (
    breaker,
    hold,
    release,
    drain,
    undrain,
    kill,
    clean,
    pause,
    resume,
    orders,
)
