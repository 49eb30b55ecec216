"""The distribution's extras: which of them a configuration needs, and what to say without one.

Imports only the standard library: `make install` asks it before anything is installed.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

DISTRIBUTION = "elastic-nodemanager"
MODULES: Mapping[str, str] = {
    "arvados": "arvados",
    "azure": "azure.identity",
    "ec2": "botocore",
    "gce": "google.auth",
    "libvirt": "libvirt",
    "openstack": "keystoneauth1",
    "postgres": "psycopg",
    "uvloop": "uvloop",
}
"""Every extra, and a module that is there where it is installed."""

Value = Callable[[str, str], str]
"""The text of an option, by section and name; empty where the file has none."""


@dataclass(frozen=True, slots=True)
class NeededExtra:
    """An extra that a file needs, and the option for which it does."""

    extra: str
    section: str
    option: str


def needs(value: Value) -> Iterator[NeededExtra]:
    """The extras without which the configuration with these values can't be served."""
    over_arvados = value("Records", "provider") == "arvados"
    if over_arvados:
        yield NeededExtra("arvados", "Records", "provider")
    for section in ("Lease", "Journal") if over_arvados else ("Registry", "Lease", "Journal"):
        if value(section, "database").startswith("postgres"):
            yield NeededExtra("postgres", section, "database")
            break
    credentials = "Cloud Credentials"
    match value("Cloud", "provider"):
        case "ec2" if not value(credentials, "key"):
            # Keys from the environment, shared files or an instance's role.
            yield NeededExtra("ec2", "Cloud", "provider")
        case "azure" | "gce" | "libvirt" | "openstack" as provider:
            yield NeededExtra(provider, "Cloud", "provider")


def is_installed(extra: str) -> bool:
    try:
        return find_spec(MODULES[extra]) is not None
    except ModuleNotFoundError:
        # The package that holds it is missing, too.
        return False


def lacks(extra: str) -> str:
    """What is wrong without that extra, and the command that installs it."""
    return f"needs the extra {extra}, which is not installed: {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    """The command that adds an extra to the installation that runs this."""
    if find_spec("pip") is None:
        # A release of `make install`, which is never changed.
        return "in the source, `make install` again: it installs what /etc/nodemanager/*.cfg need"
    return f"{shlex.quote(sys.executable)} -m pip install '{DISTRIBUTION}[{extra}]'"
