"""The pass-through sections of a DigitalOcean file, read into settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, Sections

API = "https://api.digitalocean.com"

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: frozenset({"endpoint", "timeout", "token"}),
    LIST: frozenset({"tag"}),
    CREATE: frozenset({"image", "ping_host", "region", "ssh_keys", "vpc"}),
}
"""The keys that each section takes."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`."""

    endpoint: Endpoint
    timeout: float
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: what every new droplet gets, by ids or slugs."""

    region: str
    image: str
    ssh_keys: tuple[str, ...] = ()
    vpc: str | None = None


def read(config: CloudConfig, timeout: float) -> tuple[Access, str | None, Template]:
    """The settings of the three sections; the text is the tag that `[Cloud List]` asks for.

    Raises ConfigError with every problem of the three sections.
    """
    given = Sections.of(config)
    token, region, image = (
        given.credentials.text("token"),
        given.create.text("region"),
        given.create.text("image"),
    )
    if token is None:
        given.credentials.wrong("token", "is missing: one that may read and write")
    if region is None:
        given.create.wrong("region", "is missing, such as fra1")
    if image is None:
        given.create.wrong("image", "is missing: the slug or id of what droplets boot from")
    keys = (key.strip() for key in (given.create.text("ssh_keys") or "").split(","))
    access = Access(
        given.credentials.endpoint("endpoint", API),
        given.credentials.number("timeout") or timeout,
        token or "",
    )
    template = Template(
        region or "",
        image or "",
        tuple(key for key in keys if key),
        given.create.text("vpc"),
    )
    given.check()
    return access, given.listing.text("tag"), template
