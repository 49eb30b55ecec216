"""What `nodemanager init` asks: four questions, and what only their reader knows of the cloud."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodemanager.config import kinds
from nodemanager.config.providers import ALSO_CALLED, listed
from nodemanager.config.sections import SECTIONS, SIZE
from nodemanager.lib.hosts import is_loopback
from nodemanager.lib.near import did_you_mean

DESCRIBED = frozenset({"openstack", "libvirt"})
"""The clouds of which nobody but the file tells what a size has and costs."""


def first_key() -> str:
    return next((str(one) for one in sorted(Path.home().glob(".ssh/id_*.pub"))), "")


def here() -> str:
    """The address at which nodes may reach this machine's registry."""
    names = [one for one in (socket.getfqdn(), socket.gethostname()) if not is_loopback(one)]
    return f"{names[0]}:8990" if names else ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question. `option` is `Section.option`, or a flag of the command for one of the four.

    The default is what the environment variable `env` holds, else `default`. `check` raises a
    ValueError that says what is wrong with an answer. `instead` is an option that, where it was
    given, answers this, too.
    """

    option: str
    text: str
    help: str = ""
    default: str | Callable[[], str] = ""
    env: str = ""
    check: Callable[[str], object] = str
    instead: str = ""

    @property
    def offered(self) -> str:
        default = self.default if isinstance(self.default, str) else self.default()
        return os.environ.get(self.env, "") or default

    def checked(self, answer: str) -> str:
        """The answer, stripped. Raises ValueError, which says what is wrong with it."""
        answer = answer.strip()
        if not answer:
            raise ValueError("an answer is needed")
        self.check(answer)
        section, _, name = self.option.rpartition(".")
        declared = next((one.option(name) for one in SECTIONS if one.name == section), None)
        if declared is not None:
            declared.kind.parse(answer)
        return answer


def one_of(known: Collection[str], also: Mapping[str, str] | None = None) -> Callable[[str], None]:
    """A check that an answer is one of these; `also` has other names of them, for the hint."""

    def check(answer: str) -> None:
        if answer not in known:
            hint = did_you_mean((also or {}).get(answer.lower(), answer), list(known))
            raise ValueError(f"'{answer}' is none of {listed('and', known)}{hint}")

    return check


def like(form: str, example: str) -> Callable[[str], None]:
    """A check of an answer's form."""

    def check(answer: str) -> None:
        if not re.fullmatch(form, answer, re.IGNORECASE):
            raise ValueError(f"'{answer}' has another form than, for example, {example}")

    return check


def sizes_in(cloud: str, answer: str) -> dict[str, dict[str, str]]:
    """What an answer says of each size. Raises ValueError, which says what is wrong with it."""
    found: dict[str, dict[str, str]] = {}
    for text in filter(None, map(str.strip, answer.split(","))):
        name, *words = text.split()
        options = dict(word.partition("=")[::2] for word in words)
        for option, value in options.items():
            declared = SIZE.option(option)
            if declared is None:
                raise ValueError(f"'{option}' is nothing that a size has; an example: {EXAMPLE}")
            try:
                declared.kind.parse(value)
            except ValueError as error:
                raise ValueError(f"{name} {option}={value}: {error}") from error
        lacks = [one for one in ("cores", "ram", "price") if one not in options]
        if cloud in DESCRIBED and lacks:
            raise ValueError(f"{name} lacks {', '.join(lacks)}, which {cloud} does not tell")
        found[name] = options
    if not found:
        raise ValueError(f"at least one size is needed; an example: {EXAMPLE}")
    return found


EXAMPLE = "small cores=2 ram=4096 price=0.05"

SIZE_DEFAULTS: Mapping[str, str] = {
    "ec2": "m5.large",
    "gce": "e2-standard-2",
    "azure": "Standard_D2s_v4",
    "openstack": "m1.small cores=1 ram=2048 price=0.02",
    "libvirt": "small cores=1 ram=2048 price=0.01",
    "local": "small",
}

AMI = like("(ami-|resolve:ssm:).+", "ami-0a1b2c3d4e5f60718")
UUID = like("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "2b7e1516-28ae-42d2-a6ab-f7158809cf4f")

LOGIN, CREATE = "Cloud Credentials", "Cloud Create"

QUESTIONS: Mapping[str, tuple[Prompt, ...]] = {
    "ec2": (
        Prompt(f"{LOGIN}.region", "Region", "Where nodes run.", "us-east-1", "AWS_REGION"),
        Prompt(f"{CREATE}.image_id", "Image", "An AMI of that region, with cloud-init.", check=AMI),
    ),
    "gce": (
        Prompt(f"{LOGIN}.project", "Project", "gcloud projects list", "", "GOOGLE_CLOUD_PROJECT"),
        Prompt(f"{CREATE}.zone", "Zone", "Where nodes run.", "us-central1-a"),
    ),
    "azure": (
        Prompt(
            f"{LOGIN}.subscription_id", "Subscription", "az account show --query id", check=UUID
        ),
        Prompt(f"{LOGIN}.tenant_id", "Tenant", "az account show --query tenantId"),
        Prompt(f"{LOGIN}.region", "Region", "Where nodes run.", "eastus"),
        Prompt("Cloud List.resource_group", "Resource group", "The nodes' own.", "nodes"),
        Prompt(f"{CREATE}.network", "Network", "The nodes' virtual network.", "nodes"),
        Prompt(f"{CREATE}.ssh_key", "Public key", "Its file: Azure needs one.", first_key),
    ),
    "openstack": (
        Prompt(
            f"{LOGIN}.cloud",
            "Cloud in clouds.yaml",
            "Its name there. Without such a file: --set auth_url=URL, and how to log in.",
            "openstack",
            "OS_CLOUD",
            instead=f"{LOGIN}.auth_url",
        ),
        Prompt(f"{CREATE}.image", "Image", "The name or id of what nodes boot from."),
    ),
    "libvirt": (
        Prompt(f"{CREATE}.image", "Image", "A volume of the pool `default`, or the path of one."),
    ),
    "local": (),
}
"""What each cloud must be told, and no default can know."""

PING_HOST = Prompt(
    f"{CREATE}.ping_host",
    "This machine's address",
    "HOST:PORT at which nodes reach this machine by https.",
    here,
)
"""Asked where nodes run elsewhere."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Who asks for nodes: what that sets, and what it must be told."""

    help: str
    sets: Mapping[str, str]
    asks: tuple[Prompt, ...] = ()


ARVADOS = "ARVADOS_API_HOST"

DEMANDS: Mapping[str, Demand] = {
    "none": Demand("nobody; as many as you say below are kept at all times", {}),
    "slurm": Demand(
        "the jobs that wait in Slurm",
        {"Daemon.dispatcher": "slurm"},
        (Prompt("Slurm.partitions", "Partitions", "Whose jobs get nodes.", "elastic"),),
    ),
    "arvados": Demand(
        "the containers that wait at an Arvados server",
        {"Arvados.containers_queue": "yes"},
        (
            Prompt("Arvados.host", "Arvados server", "Its API's address.", env=ARVADOS),
            Prompt("Arvados.token", "An administrator's token", env="ARVADOS_API_TOKEN"),
        ),
    ),
    "command": Demand(
        "a command of yours prints what it wants",
        {},
        (
            Prompt(
                "Daemon.wishlist_command",
                "Command",
                """It prints one JSON object for each job, as {"cores": 2, "ram_mb": 4096}.""",
                "/usr/local/bin/wishlist",
            ),
        ),
    ),
}


def likely_demand() -> str:
    """What this machine looks like."""
    if os.environ.get(ARVADOS):
        return "arvados"
    return "slurm" if shutil.which("sinfo") else "none"


def cloud_prompt(known: Collection[str]) -> Prompt:
    return Prompt(
        "--cloud",
        f"1. Cloud ({', '.join(known)})",
        "Where nodes run. With `local` they are processes of this machine, for a try.",
        "local",
        check=one_of(known, ALSO_CALLED),
    )


DEMAND = Prompt(
    "--demand",
    f"2. Demand ({', '.join(DEMANDS)})",
    "Who asks for nodes.\n" + "\n".join(f"  {name}: {one.help}" for name, one in DEMANDS.items()),
    likely_demand,
    check=one_of(DEMANDS),
)


def sizes_prompt(cloud: str) -> Prompt:
    return Prompt(
        "--sizes",
        "3. Sizes",
        f"What may be booted, by commas, each by the cloud's name or like: {EXAMPLE}",
        SIZE_DEFAULTS[cloud],
        check=lambda answer: sizes_in(cloud, answer),
    )


NODES = Prompt(
    "--nodes",
    "4. Nodes",
    "The most nodes at a time; as many are kept where nobody asks for them.",
    "2",
    check=kinds.whole(1).parse,
)
