"""EC2 keys from the configuration or from Amazon's standard chain."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nodemanager.errors import Unauthorized


@dataclass(frozen=True, slots=True)
class Keys:
    """What a request is signed with. `token` belongs to temporary keys only.

    `search` is the number of the search that found them; renewed keys keep their search's number.
    """

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    search: int = 0

    def is_of(self, other: Keys) -> bool:
        """Whether they surely belong to the other's account: same search or same key id."""
        return self.search == other.search or self.key == other.key


class KeySource(Protocol):
    """Gives the keys that requests are signed with."""

    def keys(self) -> Keys:
        """Keys that are valid now; raises Unauthorized when there are none."""
        ...

    def refused(self) -> None:
        """Note that the cloud refused the keys: the next request searches for them again."""
        ...


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """The keys of `[Cloud Credentials]`."""

    fixed: Keys

    def keys(self) -> Keys:
        return self.fixed

    def refused(self) -> None:
        pass


class ChainKeys:
    """Keys from botocore's chain: environment, shared files, container or instance role.

    botocore also renews them. It is imported at the first use, because it is heavy and
    installations with keys in their configuration never need it.
    """

    def __init__(self, profile: str | None, timeout: float) -> None:
        self._profile = profile
        self._timeout = timeout
        self._lock = threading.Lock()
        self._found: Any = None
        self._searches = 0

    def keys(self) -> Keys:
        from botocore.exceptions import BotoCoreError, ClientError

        # The lock keeps several threads from asking for keys at once. Who waits for it through a
        # whole call's time would only ask a service that hangs again.
        if not self._lock.acquire(timeout=self._timeout):
            raise Unauthorized(
                f"EC2 credentials: who gives them has not answered for {self._timeout:g} s"
            )
        try:
            if self._found is None:
                self._found = self._search()
                self._searches += 1
            search = self._searches
            # This call renews a role's keys when they are about to expire.
            frozen = self._found.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            # Whatever it is, the request that was to be signed has not been sent.
            raise Unauthorized(f"EC2 credentials: {type(error).__name__}: {error}") from error
        finally:
            self._lock.release()
        return Keys(frozen.access_key, frozen.secret_key, frozen.token, search)

    def refused(self) -> None:
        # botocore reads a shared file only once, so renewed keys in it need a new search.
        with self._lock:
            self._found = None

    def _search(self) -> Any:
        from botocore.config import Config
        from botocore.session import Session

        session = Session(profile=self._profile)
        # botocore's own are a minute for each of three attempts, with STS as with others.
        once = Config(
            connect_timeout=self._timeout,
            read_timeout=self._timeout,
            retries={"total_max_attempts": 1},
        )
        session.set_default_client_config(once)
        session.set_config_variable("metadata_service_timeout", max(1, int(self._timeout / 4)))
        session.set_config_variable("metadata_service_num_attempts", 1)
        found = session.get_credentials()
        if found is None:
            raise Unauthorized(
                "EC2 credentials: none in [Cloud Credentials] (key and secret), the "
                "environment, the shared files or the instance's role"
            )
        return found


def key_source(credentials: Mapping[str, str], timeout: float) -> KeySource:
    """The configuration's keys where it has them, else Amazon's standard chain."""
    if credentials.get("key"):
        return FixedKeys(
            Keys(credentials["key"], credentials["secret"], credentials.get("token") or None)
        )
    return ChainKeys(credentials.get("profile") or None, timeout)
