"""The types of option values beyond numbers and strings."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nodemanager.lib.hosts import is_loopback
from nodemanager.lib.redact import MASK

_USER_INFO = re.compile(r"//[^/@\s]*@")


class Secret:
    """A value that no repr, log or format shows; only `reveal()` gives it.

    `shown` is the part that may be seen, such as a database URL without its password.
    """

    __slots__ = ("_value", "shown")

    def __init__(self, value: str, shown: str = MASK) -> None:
        self._value = value
        self.shown = shown

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.shown!r})"

    def __str__(self) -> str:
        return self.shown

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))


class Credentials(dict[str, str]):
    """`[Cloud Credentials]` for the driver: a plain dict whose repr shows only its keys.

    `contents` has a digest of each file that a key names by an absolute path, as it was when the
    configuration was read: a rotated key file is another credential.
    """

    contents: Mapping[str, bytes] = {}

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {MASK!r}" for key in self) + "}"

    __str__ = __repr__


def with_contents(keys: Mapping[str, str]) -> Credentials:
    """The credentials with digests of the files that they name."""
    credentials = Credentials(keys)
    credentials.contents = {
        key: digest
        for key, value in keys.items()
        if value.startswith("/") and (digest := _digest(value)) is not None
    }
    return credentials


def _digest(path: str) -> bytes | None:
    """A digest of the file's content; None for what is no regular file, or can't be read."""
    try:
        # A pipe or a device might never end.
        if not Path(path).is_file():
            return None
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return None


NO_SECRETS = frozenset(
    {
        *("ca_bundle", "datacenter", "endpoint", "host", "insecure", "port", "profile", "project"),
        *("region", "secure", "sts_endpoint", "timeout"),
        *("auth_type", "credential_file", "scopes", "token_endpoint", "user_id"),
        *("cloud_environment", "federated_token_path", "login_endpoint", "subscription_id"),
        "tenant_id",
    }
)
"""Keys of [Cloud Credentials] that hold no secret."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server: `[Arvados] host`, `[Cloud Create] ping_host`."""

    scheme: str
    host: str
    port: int | None = None
    path: str = ""

    @property
    def url(self) -> str:
        """The URL without a trailing slash, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def is_plain(self) -> bool:
        return self.scheme == "http"

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class StoreProvider(StrEnum):
    ARVADOS = "arvados"
    REGISTRY = "registry"
    SLURM = "slurm"


class LeaseStore(StrEnum):
    """Where the lease is that makes one of a pool's managers the active one (L6)."""

    FILE = "file"
    DATABASE = "database"


class LogFormat(StrEnum):
    AUTO = "auto"
    LOGFMT = "logfmt"
    JSON = "json"


class LogLevel(StrEnum):
    """The standard library's level names, which `Logger.setLevel` takes."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class AdoptUnclaimed(StrEnum):
    """Whether this manager handles records that name no pool (T3)."""

    YES = "yes"
    NO = "no"
    AUTO = "auto"


class BacklogPolicy(StrEnum):
    """What happens to a first plan's cleans beyond the cap (S5)."""

    HOLD = "hold"
    CLEAN = "clean"


class PlaceOrder(StrEnum):
    """In which of its places a size is booted (D6)."""

    FIRST = "first"
    SPREAD = "spread"


class Dispatcher(StrEnum):
    """Who says which nodes work and which jobs wait."""

    PING = "ping"
    SLURM = "slurm"
    COMMAND = "command"


def without_user_info(text: str) -> str:
    """`text` with the user and password of every URL in it masked."""
    return _USER_INFO.sub(f"//{MASK}@", text)
