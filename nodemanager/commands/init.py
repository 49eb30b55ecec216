"""`nodemanager init`: makes a configuration file of a sample and four answers, and checks it."""

from __future__ import annotations

import math
import os
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from nodemanager.commands.common import ETC, examples
from nodemanager.commands.init_questions import (
    DEMAND,
    DEMANDS,
    NODES,
    PING_HOST,
    QUESTIONS,
    Prompt,
    cloud_prompt,
    sizes_in,
    sizes_prompt,
)
from nodemanager.config import load
from nodemanager.config.checks import is_placeholder
from nodemanager.config.kinds import endpoint
from nodemanager.config.providers import traits_of
from nodemanager.config.sections import SECTIONS
from nodemanager.errors import StartError
from nodemanager.lib.logline import visible
from nodemanager.lib.near import did_you_mean
from nodemanager.lib.redact import is_secret

FILE = "_file"
"""NAME_file = PATH reads a secret from a file."""
CAP = "Daemon.max_total_price"
HEAD = "# Written by `nodemanager init`. Every option: doc/options.rst.\n\n"
NO_PRICE = """\
# The price per hour. Blank: what this version knows of the region, if anything. A cap on
# the price (max_total_price) needs it.
#price =
"""


@click.command(
    "init",
    epilog=examples(
        "init pool.cfg",
        "init --cloud local --demand none --sizes small --nodes 2 --yes pool.cfg",
        "init --cloud ec2 --demand slurm --set image_id=ami-0a1b2c3d4e5f60718 --yes pool.cfg",
    ),
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--cloud", metavar="NAME", help="Where nodes run.")
@click.option("--demand", metavar="WHO", help=f"Who asks for nodes: {', '.join(DEMANDS)}.")
@click.option("--sizes", metavar="SIZE,...", help="What to boot, as 'a, b cores=2 ram=4096'.")
@click.option("--nodes", metavar="N", help="The most nodes at a time.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="[SECTION.]OPTION=VALUE",
    help="Any other answer, or option of the file. May be repeated.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: take flags and defaults.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--no-check", is_flag=True, help="Don't ask the cloud afterwards.")
def init(
    file: Path | None,
    cloud: str | None,
    demand: str | None,
    sizes: str | None,
    nodes: str | None,
    given: tuple[str, ...],
    yes: bool,
    force: bool,
    no_check: bool,
) -> None:
    """Write a configuration file that boots nodes, and check it.

    It asks four questions - which cloud, who asks for nodes, which sizes, how many nodes - and for
    what only you know of that cloud. Each answer may be given as an option instead. FILE is
    CLOUD.cfg by default; its name without .cfg is the pool's. It is never overwritten without
    --force, and only its owner can read it if it holds a secret (for the service: chgrp nodemanager
    FILE, chmod 640 FILE). Then check-config and check-cloud run on it.

    Exit codes: 0 if nothing failed, 1 if a check of the cloud failed, 2 for wrong usage or
    configuration. The file is written in each of these cases but wrong usage.
    """
    samples = samples_found()
    cloud = answer(cloud_prompt(samples), cloud, yes)
    path = file or Path(f"{cloud}.cfg")
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force overwrites it")
    demand = answer(DEMAND, demand, yes)
    described = sizes_in(cloud, answer(sizes_prompt(cloud), sizes, yes))
    most = answer(NODES, nodes, yes)

    sample = samples[cloud].read_text(encoding="utf-8")
    questions = [*QUESTIONS[cloud], *DEMANDS[demand].asks]
    if not traits_of(cloud).near:
        questions.append(PING_HOST)
    options = parsed(given, sample, questions)
    answers = answered(questions, options, yes)
    answers = {**defaults(cloud, demand, path, most, answers), **answers}
    write(path, filled(sample, answers, described), force=force)
    if CAP not in answers and (cap := cap_of(path)):
        answers[CAP] = cap
        write(path, filled(sample, answers, described), force=True)
    click.echo(f"{path}: written, from {samples[cloud]}")
    sys.exit(0 if checked(path, demand, no_check) else 1)


def samples_found() -> dict[str, Path]:
    """The sample file of each cloud: of this source tree, else of the installation."""
    tree, data = Path(__file__).parents[2], Path(sysconfig.get_path("data"))
    for root in (tree / "etc", data / "share/nodemanager", ETC / "samples"):
        if (root / "local.cfg").is_file():
            return {cloud: root / f"{cloud}.cfg" for cloud in QUESTIONS}
    raise StartError("the sample files of the distribution (etc/*.cfg) are not here")


def answer(prompt: Prompt, given: str | None, yes: bool) -> str:
    """The answer: what was given, else the default where nothing is asked, else the one typed.

    Raises click.UsageError for one that will not do.
    """

    def take(typed: str) -> str:
        try:
            return prompt.checked(typed)
        except ValueError as error:
            raise click.UsageError(str(error)) from error

    if given is not None or yes:
        try:
            return take(prompt.offered if given is None else given)
        except click.UsageError as error:
            raise click.UsageError(f"{prompt.option}: {error.message}") from error
    hidden = is_secret(prompt.option.rpartition(".")[2])
    if prompt.help:
        click.secho(prompt.help, dim=True, err=True)
    typed: str = click.prompt(
        prompt.text,
        default=prompt.offered or None,
        show_default=not hidden,
        hide_input=hidden,
        value_proc=take,
        err=True,
    )
    return typed


def parsed(given: Iterable[str], sample: str, questions: Iterable[Prompt]) -> dict[str, str]:
    """The `--set` options by `Section.option`. A section may be left out where it is clear."""
    places: dict[str, list[str]] = {}
    for option in (*options_of(sample), *(one.option for one in questions)):
        places.setdefault(option.rpartition(".")[2].lower(), []).append(option)
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        section, _, option = name.strip().rpartition(".")
        if not equals or not option:
            raise click.UsageError(f"--set {text}: write [Section.]option=value")
        plain = option.lower().removesuffix(FILE)
        of_name = sorted({f"{one}{option[len(plain) :]}" for one in places.get(plain, ())})
        if not section and len(of_name) != 1:
            why = f"which of {', '.join(of_name)}?" if of_name else "write Section.option=value"
            raise click.UsageError(f"--set {text}: {why}{did_you_mean(option, list(places))}")
        found[f"{section}.{option}" if section else of_name[0]] = value.strip()
    return found


def options_of(sample: str) -> list[str]:
    """Each option that a sample sets or shows, as `Section.option`; not those of its sizes."""
    section, found = "", []
    for line in sample.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif (named := _option(line)) and not section.startswith("Size"):
            found.append(f"{section}.{named}")
    return found


def answered(questions: Iterable[Prompt], options: Mapping[str, str], yes: bool) -> dict[str, str]:
    """The answers by option, and whatever else was told. Raises click.UsageError."""
    asked = [one for one in questions if not {f"{one.option}{FILE}", one.instead} & options.keys()]
    missing = [one.option for one in asked if one.option not in options and not one.offered]
    if yes and missing:
        raise click.UsageError(f"--yes needs --set {' --set '.join(f'{m}=...' for m in missing)}")
    return {
        **options,
        **{one.option: answer(one, options.get(one.option), yes) for one in asked},
    }


def defaults(
    cloud: str, demand: str, path: Path, nodes: str, answers: Mapping[str, str]
) -> dict[str, str]:
    """What the answers mean for options that nobody is asked for."""
    found = {
        "Daemon.min_nodes": nodes if demand == "none" else "0",
        "Daemon.max_nodes": nodes,
        # A lost node holds its slot for a while, and another one is booted in its place.
        "Registry.slots": str(2 * int(nodes)),
        **DEMANDS[demand].sets,
    }
    if os.geteuid() != 0:
        found["Daemon.state_dir"] = str(path.resolve().with_suffix(".state"))
    if cloud == "local":
        found["Cloud Create.vanish_after"] = "off"
        # Its polls are stale after seconds, before which Slurm must have answered.
        found |= {"Slurm.timeout": "5"} if demand == "slurm" else {}
    ping_host = answers.get(PING_HOST.option)
    if ping_host is not None:
        address = endpoint().parse(ping_host)
        found["Registry.listen"] = f"0.0.0.0:{address.port or 443}"
        if not address.is_plain:
            folder = path.resolve().parent
            found["Registry.tls_cert"] = str(folder / "registry.crt")
            found["Registry.tls_key"] = str(folder / "registry.key")
        user_data = samples_found()[cloud].parent / "node/user-data.yaml"
        if user_data.is_file():
            found["Cloud Create.user_data"] = str(user_data.resolve())
    return found


def cap_of(path: Path) -> str | None:
    """What the most nodes of the dearest size cost an hour, if every size's price is known."""
    from nodemanager.app import adapters
    from nodemanager.app.from_config import sizes_of
    from nodemanager.lib.clock import SystemClock

    config = load(path, accepts=adapters.accepted_keys)
    cloud = adapters.build_cloud(config, SystemClock())
    try:
        prices = [size.price or 0.0 for size in sizes_of(config, cloud)]
    finally:
        cloud.close()
    if not all(prices):
        return None
    return f"{math.ceil(config.daemon.max_nodes * max(prices) * 100) / 100:.2f}"


def filled(sample: str, answers: Mapping[str, str], sizes: Mapping[str, Mapping[str, str]]) -> str:
    """The sample with the answers in place of its own values or of its commented ones.

    The sizes take the place of its own. Values that only stand for one are commented, and its cap.
    """

    def kept(line: re.Match[str]) -> str:
        cap = CAP.endswith(f".{line[1]}")
        return f"#{line[0]}" if cap or is_placeholder(line[2]) else line[0]

    sample = re.sub(r"(?m)^([\w:.-]+)\s*=\s*(.*)$", kept, sample)
    _, *sections = re.split(r"(?m)^(?=\[)", sample)
    named = {text[1 : text.index("]")]: text for text in sections}
    for option, value in answers.items():
        section, _, name = option.rpartition(".")
        named[section] = _with(named.get(section, f"[{section}]\n"), section, name, value)
    described = ""
    for size, options in sizes.items():
        text = named.get(f"Size {size}", f"[Size {size}]\n# The price per hour;\nprice = 0\n")
        text = re.sub(r"(?m)^# The price per hour;.*\nprice\s*=.*\n", NO_PRICE, text)
        for name, value in options.items():
            text = _with(text, "Size NAME", name, value)
        described += text.rstrip() + "\n\n"
    others = {name: text for name, text in named.items() if not name.startswith("Size ")}
    others["Records"] = described + others["Records"]
    return HEAD + "".join(others.values()).rstrip() + "\n"


def _with(text: str, section: str, name: str, value: str) -> str:
    """The section's text with that option set: in its own line, else explained, at the end."""
    lines = text.rstrip("\n").split("\n")
    for number, line in enumerate(lines):
        if _option(line) == name:
            lines[number] = f"{name} = {value}"
            return "\n".join(lines) + "\n\n"
    declared = next((one.option(name) for one in SECTIONS if one.name == section), None)
    if declared is not None:
        lines += ["", *(f"# {line}" for line in textwrap.wrap(declared.help, 86))]
    return "\n".join((*lines, f"{name} = {value}")) + "\n\n"


def _option(line: str) -> str | None:
    """The option that a line of a sample sets, or shows behind a `#`."""
    found = re.match(r"#?([A-Za-z_][\w:.-]*)\s*=", line)
    return found[1] if found else None


def write(path: Path, text: str, *, force: bool = False) -> None:
    """Write the file, completely or not at all; only its owner may read a secret."""
    entries = (_option(line) for line in text.splitlines() if not line.startswith("#"))
    secret = any(name and is_secret(name) and not name.endswith(FILE) for name in entries)
    mode = 0o600 if secret else 0o644
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as opened:
            opened.write(text)
        if force:
            os.replace(new, path)
        else:
            # Unlike a rename, this fails for a file that came meanwhile.
            os.link(new, path)
            new.unlink()
    except OSError as error:
        raise StartError(f"{path} can't be written: {error.strerror}") from error


def checked(path: Path, demand: str, no_check: bool) -> bool:
    """Whether no check of the cloud failed; raises ConfigError for a file that can't be used."""
    from nodemanager.app import check as service_check
    from nodemanager.commands.check_cloud import check

    config, warnings = service_check.check(path)
    for warning in warnings:
        click.echo(f"warning: {visible(str(warning))}", err=True)
    fine = no_check or check(config)
    advice = [
        ("boot one node to try", f"check-cloud --boot {path}"),
        ("watch it decide, without writing anything", f"run --dry-run --config {path}"),
        ("run it; doc/install.rst makes it a service", f"run --config {path}"),
    ]
    if not fine:
        advice = [("mend what failed, then", f"check-cloud {path}")]
    elif demand == "slurm":
        advice.insert(0, ("print the lines that slurm.conf needs", f"slurm-config {path}"))
    click.echo("next:")
    if config.registry.tls_cert is not None and not config.registry.tls_cert.exists():
        click.echo(f"  put the certificate of {config.ping_host} into {config.registry.tls_cert}")
        click.echo(f"  and its key into {config.registry.tls_key}")
    for what, command in advice:
        click.echo(f"  nodemanager {command}  # {what}")
    return fine
