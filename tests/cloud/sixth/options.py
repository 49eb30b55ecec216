"""The options of a DigitalOcean file's own sections, and the settings that they are read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.cloud import declared
from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.declared import CloudOption, option
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, Sections

API = "https://api.digitalocean.com"


@dataclass(frozen=True, slots=True)
class Credentials:
    """`[Cloud Credentials]` as the file has it."""

    token: str = option(str, "...", default="", missing="is missing: one that may read and write")
    """The access token; token_file = PATH reads it from a file."""
    timeout: float | None = option(declared.number, "60")
    """How many seconds to wait for one answer."""
    endpoint: Endpoint = option(declared.endpoint, API, default=declared.endpoint(API))
    """Another address of the API."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`."""

    endpoint: Endpoint
    timeout: float
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: what every new droplet gets, by ids or slugs."""

    region: str = option(str, "fra1", default="", missing="is missing, such as fra1")
    """The region to run droplets in."""
    image: str = option(
        str,
        "debian-13-x64",
        default="",
        missing="is missing: the slug or id of what droplets boot from",
    )
    """The slug or id of what droplets boot from."""
    ssh_keys: tuple[str, ...] = option(declared.names, "512189", default=())
    """The ids of the SSH keys to install, separated by commas."""
    vpc: str | None = option(str, "5a4981aa-9653-4bd1-bef5-d6bff52042e4")
    """The id of the droplets' network."""


SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: declared.options_of(Credentials),
    LIST: {"tag": CloudOption(str, "compute", "A tag by which droplets are counted, too.")},
    CREATE: {"ping_host": declared.PING_HOST, **declared.options_of(Template)},
}


def read(config: CloudConfig, timeout: float) -> tuple[Access, str | None, Template]:
    """The settings of the three sections; the text is the tag that `[Cloud List]` asks for.

    Raises ConfigError with every problem of the three sections.
    """
    given = Sections.of(config, SECTIONS)
    found = Credentials(**given.credentials.read())
    template = Template(**given.create.read(declared.options_of(Template)))
    given.check()
    access = Access(found.endpoint, found.timeout or timeout, found.token)
    return access, given.listing.text("tag"), template
