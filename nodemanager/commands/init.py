"""`nodemanager init`: makes a configuration file of a sample and a few answers, and checks it."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from nodemanager.commands.common import ETC, examples
from nodemanager.config import ini
from nodemanager.errors import StartError
from nodemanager.logline import visible
from nodemanager.near import did_you_mean
from nodemanager.redact import is_secret

SIZES = "Size"
"""The key of the answer that names the sizes, by commas: `NAME`, or `NAME cores=2 ram=4096 ...`."""

FILE = "_file"
"""NAME_file = PATH reads a secret from a file."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question. `option` is `Section.option`, or SIZES; a blank answer leaves it out.

    `logins` are the ways to log in that need it, where a cloud has several; all where it is empty.
    """

    option: str
    text: str
    default: str = ""
    required: bool = False
    logins: tuple[str, ...] = ()


CREDENTIAL, PASSWORD, CLOUD = "credential", "password", "clouds.yaml"
"""The ways to log in to OpenStack; the first is the default."""


PING_HOST = Prompt(
    "Cloud Create.ping_host",
    "Address that nodes ping, host[:port] for https or a URL (blank: this machine)",
)

QUESTIONS: Mapping[str, tuple[Prompt, ...]] = {
    "ec2": (
        Prompt("Cloud Credentials.region", "Region to run nodes in", "us-east-1"),
        Prompt(
            "Cloud Credentials.key", "Access key (blank: environment, profile or instance role)"
        ),
        Prompt("Cloud Credentials.secret", "Its secret (blank: none)"),
        Prompt("Cloud Create.image_id", "AMI that nodes boot from (ami-...)", required=True),
        Prompt("Cloud Create.subnet_id", "Subnet of the nodes (blank: the default one)"),
        Prompt(
            "Cloud Create.security_groups", "Security groups, sg-..., by commas (blank: default)"
        ),
        PING_HOST,
        Prompt(SIZES, "Instance types to boot, by commas", "m5.large", required=True),
    ),
    "gce": (
        Prompt("Cloud Credentials.project", "Project to run nodes in, by its id", required=True),
        Prompt("Cloud Credentials.key", "File of a service account's key (blank: instance's role)"),
        Prompt("Cloud Create.zone", "Zone to boot nodes in", "us-central1-a", required=True),
        Prompt(
            "Cloud Create.image",
            "Image that nodes boot from: name, family or path",
            "ubuntu-2404-lts-amd64",
            required=True,
        ),
        Prompt("Cloud Create.subnet", "Subnet of the nodes (blank: the network's own)"),
        PING_HOST,
        Prompt(SIZES, "Machine types to boot, by commas", "e2-standard-2", required=True),
    ),
    "azure": (
        Prompt("Cloud Credentials.subscription_id", "Subscription to run nodes in", required=True),
        Prompt("Cloud Credentials.tenant_id", "Its directory (tenant)", required=True),
        Prompt("Cloud Credentials.region", "Region to run nodes in", "eastus", required=True),
        Prompt("Cloud Credentials.key", "Client id of a service principal (blank: own identity)"),
        Prompt("Cloud Credentials.secret", "Its secret (blank: none)"),
        Prompt("Cloud List.resource_group", "Resource group of the nodes", "nodes", required=True),
        Prompt(
            "Cloud Create.image",
            "Image that nodes boot from: Publisher:Offer:SKU:Version, or resource id",
            "Canonical:ubuntu-24_04-lts:server:latest",
            required=True,
        ),
        Prompt("Cloud Create.network", "Virtual network of the nodes", "nodes", required=True),
        Prompt("Cloud Create.ssh_key", "File of a public key for the nodes", required=True),
        PING_HOST,
        Prompt(SIZES, "Sizes to boot, by commas", "Standard_D2s_v4", required=True),
    ),
    "openstack": (
        Prompt(
            "Cloud Credentials.auth_url",
            "URL of keystone",
            required=True,
            logins=(CREDENTIAL, PASSWORD),
        ),
        Prompt(
            "Cloud Credentials.application_credential_id",
            "Application credential, by its id",
            required=True,
            logins=(CREDENTIAL,),
        ),
        Prompt(
            "Cloud Credentials.application_credential_secret",
            "Its secret",
            required=True,
            logins=(CREDENTIAL,),
        ),
        Prompt("Cloud Credentials.username", "User", required=True, logins=(PASSWORD,)),
        Prompt(
            "Cloud Credentials.password", "The user's password", required=True, logins=(PASSWORD,)
        ),
        Prompt(
            "Cloud Credentials.project",
            "Project to run nodes in, by its name",
            required=True,
            logins=(PASSWORD,),
        ),
        Prompt(
            "Cloud Credentials.domain",
            "Domain of user and project",
            "Default",
            logins=(PASSWORD,),
        ),
        Prompt(
            "Cloud Credentials.cloud",
            "Name of the cloud in clouds.yaml",
            required=True,
            logins=(CLOUD,),
        ),
        Prompt(
            "Cloud Credentials.clouds_yaml",
            "Path of that file (blank: OpenStack's own places)",
            logins=(CLOUD,),
        ),
        Prompt(
            "Cloud Credentials.region",
            "Region to run nodes in (blank: the only one, or clouds.yaml's)",
        ),
        Prompt("Cloud Create.image", "Image that nodes boot from: name or id", required=True),
        Prompt(
            "Cloud Create.networks", "Networks of the nodes, ids by commas (blank: the only one)"
        ),
        PING_HOST,
        Prompt(
            SIZES,
            "Flavors to boot, by commas, each like: m1.small cores=1 ram=2048 price=0.02",
            "m1.small",
            required=True,
        ),
    ),
    "libvirt": (
        Prompt("Cloud Credentials.uri", "Hypervisor", "qemu:///system", required=True),
        Prompt("Cloud Create.storage_pool", "Storage pool of the nodes", "default", required=True),
        Prompt("Cloud Create.image", "Volume that nodes boot from", required=True),
        Prompt("Cloud Create.network", "Network of the nodes", "default", required=True),
        PING_HOST,
        Prompt(
            SIZES,
            "Sizes to boot, by commas, each like: small cores=1 ram=2048 price=0.01",
            "small",
            required=True,
        ),
    ),
    "local": (Prompt("Cloud Create.vanish_after", "Kill a node after (off: never)", "off"),),
}
"""What each provider's sample needs filled in. A provider without a row has nothing of its own."""

SAFE = {"Daemon.min_nodes": "0"}
"""Set whatever the sample has: nothing boots without demand."""
COMMON = (
    Prompt("Daemon.max_nodes", "Most nodes at a time", "2", required=True),
    Prompt("Daemon.max_total_price", "Most that all nodes together may cost an hour", "1.00"),
    Prompt("Daemon.state_dir", "Directory of its state (blank: /var/lib/nodemanager/POOL)"),
)


@click.command(
    "init",
    epilog=examples(
        "init pool.cfg",
        "init --provider ec2 --set image_id=ami-0123456789abcdef0 --yes pool.cfg",
    ),
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--provider", metavar="NAME", help="The cloud: one that has a sample file.")
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="[SECTION.]OPTION=VALUE",
    help="An answer, or any other option of the file. May be repeated.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: take flags and defaults.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--no-check", is_flag=True, help="Don't ask the cloud afterwards.")
def init(
    file: Path | None,
    provider: str | None,
    given: tuple[str, ...],
    yes: bool,
    force: bool,
    no_check: bool,
) -> None:
    """Write a configuration file with safe caps, and check it.

    It fills in the sample of the provider: at most two nodes, none without demand, and a cap on
    the price, unless you say otherwise. FILE is PROVIDER.cfg by default; its name without .cfg is
    the pool's. It is never overwritten without --force, and only its owner can read it if it
    holds a secret (for the service: chgrp nodemanager FILE, chmod 640 FILE). Then check-config
    and check-cloud run on it.

    Exit codes: 0 if nothing failed, 1 if a check of the cloud failed, 2 for wrong usage or
    configuration. The file is written in each of these cases but wrong usage.
    """
    samples = samples_found()
    provider = chosen(provider, samples, yes)
    path = file or Path(f"{provider}.cfg")
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force overwrites it")
    sample = samples[provider].read_text(encoding="utf-8")
    questions = (*QUESTIONS.get(provider, ()), *COMMON)
    told = parsed(given, sample, questions)
    needed = of_login(questions, told, yes)
    answers = {**SAFE, **answered(needed, told, yes)}
    others = {one.option for one in questions if one not in needed} - answers.keys()
    write(path, filled(sample, answers, others), force=force)
    click.echo(f"{path}: written, from {samples[provider]}")
    sys.exit(0 if checked(path, no_check) else 1)


def samples_found() -> dict[str, Path]:
    """The sample file of each provider: of this source tree, else of the installation."""
    roots = (
        Path(__file__).parents[2] / "etc",
        Path(sysconfig.get_path("data")) / "share/nodemanager",
        ETC / "samples",
    )
    for root in roots:
        found = {}
        for path in sorted(root.glob("*.cfg")):
            if provider_of(path) == path.stem:
                found[path.stem] = path
        if found:
            return found
    raise StartError("the sample files of the distribution (etc/*.cfg) are not here")


def provider_of(path: Path) -> str | None:
    """The `[Cloud] provider` of a sample."""
    entries = ini.read(path).sections.get("Cloud", ())
    return next((one.value for one in entries if one.name == "provider"), None)


def chosen(provider: str | None, samples: Mapping[str, Path], yes: bool) -> str:
    """The provider; asks unless it was given. Raises click.UsageError for an unknown one."""
    known = sorted(samples)
    if provider is None and not yes:
        answer: str = click.prompt("Cloud", type=click.Choice(known), err=True)
        return answer
    there = f"there are {', '.join(known)}"
    if provider is None:
        raise click.UsageError(f"--yes needs --provider: {there}")
    if provider in samples:
        return provider
    raise click.UsageError(f"--provider {provider}: {there}{did_you_mean(provider, known)}")


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
        elif (named := _option(line)) and not section.startswith(SIZES):
            found.append(f"{section}.{named}")
    return found


def of_login(questions: Sequence[Prompt], given: Mapping[str, str], yes: bool) -> list[Prompt]:
    """The questions of one way to log in: that of the `--set` options, else the one chosen."""
    logins = list(dict.fromkeys(login for one in questions for login in one.logins))
    if not logins:
        return list(questions)
    told = {
        one.logins[0]
        for one in questions
        if len(one.logins) == 1 and {one.option, f"{one.option}{FILE}"} & given.keys()
    }
    if len(told) > 1:
        raise click.UsageError(f"--set: log in by one of {', '.join(sorted(told))}, not by both")
    if told or yes:
        login = told.pop() if told else logins[0]
    else:
        login = click.prompt("Log in by", type=click.Choice(logins), default=logins[0], err=True)
    return [one for one in questions if login in one.logins or not one.logins]


def answered(questions: Iterable[Prompt], given: Mapping[str, str], yes: bool) -> dict[str, str]:
    """The answers by option, those of `--set` first. Raises click.UsageError for a missing one."""
    answers = dict(given)
    missing = []
    for ask in questions:
        if {ask.option, f"{ask.option}{FILE}"} & answers.keys():
            continue
        if yes:
            if ask.required and not ask.default:
                missing.append(ask.option)
            answers[ask.option] = ask.default
            continue
        answers[ask.option] = click.prompt(
            ask.text,
            default=ask.default if ask.default or not ask.required else None,
            show_default=bool(ask.default),
            hide_input=is_secret(ask.option.rpartition(".")[2]),
            err=True,
        ).strip()
    if missing:
        raise click.UsageError(f"--yes needs --set {', --set '.join(f'{m}=...' for m in missing)}")
    return {option: value for option, value in answers.items() if value}


def filled(sample: str, answers: Mapping[str, str], others: Iterable[str] = ()) -> str:
    """The sample with the answers in place of its own values or of its commented ones.

    Its own values of the `others` are commented, and those that an answer reads from a file.
    """
    sizes = dict(map(_size, filter(str.strip, answers.get(SIZES, "").split(","))))
    head, *sections = re.split(r"(?m)^(?=\[)", sample)
    named = {text[1 : text.index("]")]: text for text in sections}
    for option in (*others, *(one.removesuffix(FILE) for one in answers if one.endswith(FILE))):
        section, _, name = option.rpartition(".")
        if section in named:
            named[section] = re.sub(rf"(?m)^(?={re.escape(name)}\s*=)", "#", named[section])
    for option, value in answers.items():
        section, _, name = option.rpartition(".")
        if section:
            named[section] = _with(named.get(section, f"\n[{section}]\n"), name, value)
    if sizes:
        own = {f"{SIZES} {size}": described for size, described in sizes.items()}
        named = {
            name: named.get(name, f"[{name}]\n\n")
            for name in {**named, **own}
            if name in own or not name.startswith(f"{SIZES} ")
        }
        for section, options in own.items():
            for name, value in options.items():
                named[section] = _with(named[section], name, value)
    return head + "".join(named.values())


def _size(text: str) -> tuple[str, dict[str, str]]:
    """The name of a size, and the options that are given with it."""
    words = text.split()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return " ".join(word for word in words if "=" not in word), options


def _with(section: str, name: str, value: str) -> str:
    """The section with that option set: in its own line, else at the end."""
    lines = section.rstrip("\n").split("\n")
    for number, line in enumerate(lines):
        if _option(line) == name:
            lines[number] = f"{name} = {value}"
            return "\n".join(lines) + "\n\n"
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


def checked(path: Path, no_check: bool) -> bool:
    """Whether no check of the cloud failed; raises ConfigError for a file that can't be used."""
    from nodemanager.commands.check_cloud import check
    from nodemanager.service import check as service_check

    config, warnings = service_check.check(path)
    for warning in warnings:
        click.echo(f"warning: {visible(str(warning))}", err=True)
    fine = no_check or check(config)
    advice: tuple[tuple[str, str], ...] = (
        ("boot one node to try", f"check-cloud --boot {path}"),
        ("watch it decide, without writing anything", f"run --dry-run --config {path}"),
        ("run it; doc/install.rst makes it a service", f"run --config {path}"),
    )
    if not fine:
        advice = (("mend what failed, then", f"check-cloud {path}"),)
    click.echo("next:")
    for what, command in advice:
        click.echo(f"  nodemanager {command}  # {what}")
    return fine
