"""Commands to a running daemon: hold, drain, kill, clean, pause, breaker reset and so on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.ids import complete_id
from nodemanager.commands.show import print_json
from nodemanager.commands.waiting import until_clean, until_gone, wait_option
from nodemanager.core.model.annotations import FORCIBLE
from nodemanager.core.operate.verbs import Verb
from nodemanager.logline import Json, span, visible

RUNTIME_FAILURE, WRONG_CONFIGURATION = 1, 2


_reason = click.option("--reason", default="", metavar="TEXT", help="Why; written to the log.")


def _noted(command: click.decorators.FC) -> click.decorators.FC:
    return _reason(answered(command))


_why = click.option(
    "--reason", required=True, metavar="TEXT", help="Why; written to the log. Must be given."
)


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
    answers = [
        daemon.order(verb, id, reason=reason, forced=forced, unlisted=unlisted) for id in given
    ]
    if as_json:
        print_json(answers[0] if len(answers) == 1 else answers)
    for answer in () if as_json else answers:
        if _is_done(answer):
            click.echo(visible(str(answer.get("message", ""))))
        else:
            title, why = answer.get("title", "not done"), visible(str(answer.get("message", "")))
            click.echo(f"nodemanager: {title}: {why}", err=True)
    if not all(map(_is_done, answers)):
        sys.exit(RUNTIME_FAILURE)
    if then is not None:
        then(daemon, answers)


def _is_done(answer: Json) -> bool:
    return bool(answer.get("done")) or answer.get("result") == "under_way"


def _gone_within(limit_s: float | None) -> Callable[[Any, list[Json]], None] | None:
    """With a limit: waits that long until the nodes of the answers are gone."""
    if limit_s is None:
        return None

    def then(daemon: Any, answers: list[Json]) -> None:
        until_gone(daemon, [one["node"] for one in answers if one.get("node")], limit_s)

    return then


def _ids(name: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """One or more ids, which a shell completes."""
    return click.argument(
        name, nargs=-1, required=True, metavar=f"{name.upper()}...", shell_complete=complete_id
    )


@click.group()
def breaker() -> None:
    """Control the breaker, the latch that stops all freeing and destroying."""


@breaker.command("reset", epilog=examples("breaker reset --reason 'the cloud is back'"))
@_noted
def breaker_reset(reason: str, as_json: bool, config: str | None) -> None:
    """Close the breaker, once you have looked at what opened it."""
    tell(config, Verb.BREAKER_RESET, reason=reason, as_json=as_json)


@click.command(
    epilog=examples("hold i-0abc --reason 'I am logged in'", "hold compute7 --reason 'disk swap'")
)
@_ids("id")
@_reason
@click.option("--unlisted", is_flag=True, help="Accept an ID that no listing shows.")
@answered
def hold(
    id: tuple[str, ...], reason: str, unlisted: bool, as_json: bool, config: str | None
) -> None:
    """Keep everything automatic away from a node or record until `release`, even over restarts.

    ID is a record's uuid, a cloud node's id, a hostname that only one record has, or the id of a
    leftover.
    """
    tell(config, Verb.HOLD, *id, reason=reason, unlisted=unlisted, as_json=as_json)


@click.command(epilog=examples("release compute7", "release i-0abc i-0def"))
@_ids("id")
@_noted
def release(id: tuple[str, ...], reason: str, as_json: bool, config: str | None) -> None:
    """End the hold on a node or record."""
    tell(config, Verb.RELEASE, *id, reason=reason, as_json=as_json)


@click.command(
    epilog=examples(
        "drain i-0abc --reason 'new image'",
        "drain compute7 compute8 --wait 2h",
        "drain $(nodemanager nodes -o name --size old) --reason 'another size'",
    )
)
@_ids("node")
@wait_option
@_noted
def drain(
    node: tuple[str, ...],
    wait: float | None,
    reason: str,
    as_json: bool,
    config: str | None,
) -> None:
    """Shut a node down as soon as it is idle, whatever the demand, and never while it is busy.

    Another node is booted where the demand needs one. `undrain` undoes it. NODE is a cloud node's
    id, its record's uuid, or its hostname. `cordon` keeps the node instead.
    """
    then = _gone_within(wait)
    tell(config, Verb.DRAIN, *node, reason=reason, as_json=as_json, then=then)


@click.command(epilog=examples("undrain i-0abc", "undrain compute7 compute8"))
@_ids("node")
@_noted
def undrain(node: tuple[str, ...], reason: str, as_json: bool, config: str | None) -> None:
    """Let a node take work again: undo a drain, a cordon, or a kill not carried out yet."""
    tell(config, Verb.RUN, *node, reason=reason, as_json=as_json)


@click.command(epilog=examples("cordon compute7 --reason 'a strange disk'", "cordon i-0abc i-0def"))
@_ids("node")
@_noted
def cordon(node: tuple[str, ...], reason: str, as_json: bool, config: str | None) -> None:
    """Give a node no more work, but keep it until `uncordon`, even over restarts.

    It is told to drain, and demand no longer counts it, so that another is booted where one is
    needed. Nothing but a `kill` destroys it. `hold` keeps a node, too, but lets it work.
    """
    tell(config, Verb.CORDON, *node, reason=reason, as_json=as_json)


@click.command(epilog=examples("uncordon compute7"))
@_ids("node")
@_noted
def uncordon(node: tuple[str, ...], reason: str, as_json: bool, config: str | None) -> None:
    """End a cordon: the node takes work again, and may be shut down again."""
    tell(config, Verb.UNCORDON, *node, reason=reason, as_json=as_json)


@click.command(
    epilog=examples(
        "kill i-0abc --reason 'its kernel hangs'",
        "kill compute7 compute8 --reason 'bad disks' --yes --wait",
    )
)
@_ids("node")
@_why
@click.option("--yes", "-y", is_flag=True, help="Don't ask; needed without a terminal.")
@wait_option
@answered
def kill(
    node: tuple[str, ...],
    reason: str,
    yes: bool,
    wait: float | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Shut a node down now, busy or not; its record is freed once the cloud says it is gone.

    On a terminal it shows the node, its state and its age, and asks; elsewhere, as in a script, it
    needs --yes.

    Refused for a node that has no tag of ours (D11), is on hold, or can't be identified (P2), and
    while breaker, pause, lease or old polls forbid every shutdown.
    """
    meant = node if yes else _confirmed(config, node)
    then = _gone_within(wait)
    tell(config, Verb.KILL, *meant, reason=reason, as_json=as_json, then=then)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirmed(config: str | None, given: Sequence[str]) -> list[str]:
    """The ids of the nodes that are named, after the user has confirmed these nodes."""
    if not _can_ask():
        raise click.UsageError("without a terminal nobody can confirm the kill: give --yes")
    daemon = client(config)
    rows = [(one, daemon.node(one)) for one in given]
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
@_ids("record")
@click.option(
    "--force",
    "forced",
    multiple=True,
    metavar="RULE",
    help="Break this rule, and note that in journal and log; may be repeated.",
)
@wait_option
@_noted
def clean(
    record: tuple[str, ...],
    forced: tuple[str, ...],
    wait: float | None,
    reason: str,
    as_json: bool,
    config: str | None,
) -> None:
    """Free a record now, by the usual rules (C0 to C12).

    A refusal names the rule that forbids it and the measured values. Waits some seconds for the
    outcome, and with --wait TIME that long. RECORD is a record's uuid or hostname, or the id of
    its former node.
    """
    if forced and not reason:
        raise click.UsageError("--force needs --reason TEXT: say why the rule does not apply")

    def then(daemon: Any, answers: list[Json]) -> None:
        under_way = [one for one in zip(record, answers, strict=True) if not one[1].get("done")]
        until_clean(daemon, [one.get("record") or id for id, one in under_way], wait or 0.0)

    tell(
        config,
        Verb.CLEAN,
        *record,
        forced=forced,
        reason=reason,
        as_json=as_json,
        then=None if wait is None else then,
    )


@click.command(epilog=examples("pause --reason 'the cloud is being upgraded'"))
@_why
@answered
def pause(reason: str, as_json: bool, config: str | None) -> None:
    """Create, claim, destroy and clean nothing until `resume`, even over restarts.

    Polling, deciding and logging go on, and actions that were already sent run to their end.
    """
    tell(config, Verb.PAUSE, reason=reason, as_json=as_json)


@click.command(epilog=examples("resume"))
@_noted
def resume(reason: str, as_json: bool, config: str | None) -> None:
    """End a pause."""
    tell(config, Verb.RESUME, reason=reason, as_json=as_json)


@click.group()
def rotate() -> None:
    """Pause or resume the replacement of outdated nodes; `status` shows how far it is."""


@rotate.command("pause", epilog=examples("rotate pause --reason 'the new image has a bug'"))
@_why
@answered
def rotate_pause(reason: str, as_json: bool, config: str | None) -> None:
    """Replace no node for its image, type or age until `rotate resume`, even over restarts."""
    tell(config, Verb.ROTATE_PAUSE, reason=reason, as_json=as_json)


@rotate.command("resume")
@_noted
def rotate_resume(reason: str, as_json: bool, config: str | None) -> None:
    """End a pause of the rotation."""
    tell(config, Verb.ROTATE_RESUME, reason=reason, as_json=as_json)


@click.command(
    epilog=examples("reload", "reload --json | jq '.changes[] | select(.applied | not)'")
)
@answered
def reload(as_json: bool, config: str | None) -> None:
    """Let the daemon read its file again, as SIGHUP does, and show what that changed.

    Windows and limits apply at once; what needs a restart is named. A wrong file changes nothing:
    its problems are printed, with exit code 2.
    """
    told = client(config).reload()
    if as_json:
        print_json(told)
    else:
        for one in told["changes"]:
            was, now = one["old"] or "unset", one["new"] or "unset"
            how = "" if one["applied"] else "  (needs a restart)"
            click.echo(visible(f"{one['option']}: {was} -> {now}{how}"))
        if told["done"] and not told["changes"]:
            click.echo("nothing changed")
        for problem in told["problems"]:
            click.echo(visible(problem), err=True)
    if not told["done"]:
        sys.exit(WRONG_CONFIGURATION)


@click.command(epilog=examples("orders", "orders --json | jq -r '.marks[].id'"))
@answered
def orders(as_json: bool, config: str | None) -> None:
    """List the standing orders (pause, hold, cordon, drain, kill), who gave them, and why."""
    status = client(config).standing()
    paused, marks = status.get("pause", {}), status.get("marks", [])
    if as_json:
        print_json({"pause": paused, "rotation": status.get("rotation", {}), "marks": marks})
        return
    rows = [("pause", "the whole pool", paused)] if paused.get("paused") else []
    rotation = status.get("rotation", {})
    rows += [("pause", "the rotation", rotation)] if rotation.get("paused") else []
    for mark in marks:
        named = f"{mark['host']} ({mark['id']})" if mark.get("host") else mark["id"]
        rows.append((mark["kind"], named, mark))
    if not rows:
        click.echo("no standing orders")
        return
    for kind, id, told in rows:
        who = f"by {told.get('by') or 'somebody'} since {told.get('since')}"
        why = f": {told['reason']}" if told.get("reason") else ""
        click.echo(visible(f"{kind}  {id}  {who}{why}"))
