"""`nodemanager check-cloud`: asks the cloud before the first boot; with --boot, boots one node."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from nodemanager.commands.common import config_option, config_path, examples
from nodemanager.commands.show import cell, console, json_option, print_json, say
from nodemanager.commands.waiting import seconds
from nodemanager.errors import NodeManagerError

if TYPE_CHECKING:
    from rich.status import Status

    from nodemanager.cloud.checks import Found
    from nodemanager.config import Config
    from nodemanager.preflight.checks import CheckResult

SEATS = (
    "--boot can't be had with [Records] provider = slurm, where a node is booted only once Slurm "
    "wants it up: run check-cloud without --boot, start the daemon, and tell Slurm "
    "`scontrol update NodeName=NAME State=POWER_UP`"
)
STYLES = {"ok": "green", "warning": "yellow", "failed": "red", "not asked": "dim"}


@click.command(
    "check-cloud",
    epilog=examples(
        "check-cloud /etc/nodemanager/ec2.cfg",
        "check-cloud --json ec2.cfg | jq '.checks[] | select(.mark == \"failed\")'",
        "check-cloud --boot --size m5.large ec2.cfg",
    ),
)
@config_option
@click.option("--boot", is_flag=True, help="Then boot one node, wait for its ping, and end it.")
@click.option("--size", metavar="NAME", help="The size to boot; default: the cheapest.")
@click.option(
    "--wait",
    default="15m",
    show_default=True,
    callback=seconds,
    metavar="TIME",
    help="How long the node may take to ping.",
)
@click.option("--yes", is_flag=True, help="End what an earlier --boot left without asking.")
@json_option
def check_cloud(
    config: str | None,
    file: str | None,
    boot: bool,
    size: str | None,
    wait: float,
    yes: bool,
    as_json: bool,
) -> None:
    """Ask the cloud, before the first node boots, whether all is as the file says.

    Each check is one line: its mark (ok, warning, failed, not asked), its time, and what to do.
    Without --boot it changes nothing.

    --boot claims a record, boots a node with the file's settings, waits for the ping that the node
    itself sends, and ends both, as the daemon would. It does so in a pool of its own,
    POOL-preflight, which a running daemon of POOL leaves alone; the node comes on top of
    max_nodes. It costs what a node of that size costs for some minutes. Ctrl-C ends it cleanly. If
    it was killed, the next --boot finds what is left, and asks whether to end it. Run it as the
    daemon's user.

    Exit codes: 0 if nothing failed, 1 if a check failed or the node did not come and go, 2 for
    wrong usage or configuration.
    """
    from nodemanager.app import adapters

    if size is not None and not boot:
        raise click.UsageError("--size is for --boot")
    from nodemanager.config import load
    from nodemanager.config.values import StoreProvider

    loaded = load(config_path(config, file), accepts=adapters.accepted_keys)
    if boot and loaded.records.provider is StoreProvider.SLURM:
        raise click.UsageError(SEATS)
    sys.exit(0 if check(loaded, boot=boot, size=size, wait=wait, yes=yes, as_json=as_json) else 1)


def check(
    config: Config,
    *,
    boot: bool = False,
    size: str | None = None,
    wait: float = 900.0,
    yes: bool = False,
    as_json: bool = False,
) -> bool:
    """Ask and, with `boot`, boot; whether nothing failed."""
    from nodemanager.app import adapters
    from nodemanager.app.from_config import secrets_of
    from nodemanager.lib import log
    from nodemanager.lib.clock import SystemClock
    from nodemanager.preflight import checks

    log.hide(*secrets_of(config))
    clock, screen = SystemClock(), StepScreen(as_json=as_json, yes=yes)
    cloud = adapters.build_cloud(config, clock)
    cost = None
    try:
        with screen:
            screen.doing("asking")
            for asked in checks.ask_all(config, cloud, clock):
                screen.show(asked)
            if boot and screen.failed:
                screen.note("not booting: a check failed")
            elif boot:
                chosen = chosen_size(checks.known_sizes(config, cloud), size)
                from nodemanager.cloud.checks import CheckStatus, Found
                from nodemanager.preflight.trial import Trial

                trial = Trial(config, chosen, wait, screen)
                try:
                    trial.run()
                except NodeManagerError as error:
                    screen.ended("boot", Found(str(error), CheckStatus.FAILED), 0.0)
                cost = trial.cost
                if cost is not None:
                    screen.note(f"{chosen.name} at {chosen.price:g} an hour: at most {cost:.4f}")
    finally:
        cloud.close()
    if as_json:
        print_json(
            {
                "file": str(config.path),
                "pool": config.daemon.pool,
                "provider": config.cloud.provider,
                "ok": not screen.failed,
                "cost": cost,
                "checks": screen.rows,
            }
        )
    return not screen.failed


def chosen_size(sizes: Sequence[Any], name: str | None) -> Any:
    """The size of that name, or the cheapest of known price."""
    from nodemanager.lib.near import did_you_mean
    from nodemanager.preflight.checks import cheapness

    if name is not None:
        for one in sizes:
            if one.name == name:
                return one
        raise click.UsageError(
            f"--size {name}: the file has no such size{did_you_mean(name, [s.name for s in sizes])}"
        )
    if not sizes:
        raise click.UsageError("there is no size to boot")
    return min(sizes, key=cheapness)


class StepScreen:
    """Prints each step when it has ended; on a terminal it also shows what is waited for."""

    def __init__(self, *, as_json: bool, yes: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failed = False
        self._json = as_json
        self._yes = yes
        self._out = console()
        live = self._out.is_terminal and not as_json
        self._status: Status | None = self._out.status("") if live else None

    def __enter__(self) -> StepScreen:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def doing(self, what: str) -> None:
        if self._status is not None:
            self._status.update(cell(what))

    def show(self, asked: CheckResult) -> None:
        self.ended(asked.name, asked.found, asked.took_s)

    def ended(self, name: str, found: Found, took_s: float) -> None:
        self.failed |= found.mark == "failed"
        row = {"check": name, "mark": found.mark.value, "took_s": round(took_s, 3)}
        self.rows.append({**row, "text": found.text, "to_do": found.to_do})
        if self._json:
            return
        with suppress(OSError):
            # A reader that went away must not keep a node from being ended.
            self._print(name, found, took_s)

    def _print(self, name: str, found: Found, took_s: float) -> None:
        from rich.text import Text

        mark = found.mark.value
        line = Text.assemble(
            (f"{mark:<9}", STYLES[mark]), f" {took_s:6.2f} s  ", (f"{name}: ", "bold")
        )
        line.append_text(cell(found.text))
        if found.to_do and mark != "ok":
            line.append_text(cell(f"; {found.to_do}"))
        say(self._out, line)

    def note(self, text: str) -> None:
        if not self._json:
            with suppress(OSError):
                say(self._out, cell(text))

    def agrees(self, left: Sequence[str]) -> bool:
        """Ask on a terminal; elsewhere only --yes agrees."""
        if self._yes or not (sys.stdin.isatty() and self._out.is_terminal):
            return self._yes
        if self._status is not None:
            self._status.stop()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            shown = cell(", ".join(left)).plain
            return click.confirm(f"an earlier pre-flight left {shown}; end that?", err=True)
        except (click.Abort, KeyboardInterrupt):
            return False
        finally:
            signal.signal(signal.SIGINT, before)
            if self._status is not None:
                self._status.start()
