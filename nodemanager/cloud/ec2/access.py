"""How the manager reaches EC2: `[Cloud Credentials]` of an EC2 file."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nodemanager.cloud import declared
from nodemanager.cloud.declared import Endpoint, SectionReader, flag, option, switch
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
                f"who gives the EC2 credentials has not answered for {self._timeout:g} s"
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
            raise Unauthorized(
                f"EC2 credentials can't be had: {type(error).__name__}: {error}"
            ) from error
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
                "there are no EC2 credentials in [Cloud Credentials] (key and secret), the "
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


@dataclass(frozen=True, slots=True)
class Credentials:
    """`[Cloud Credentials]` as the file has it."""

    region: str = option(str, default="us-east-1")
    """The region to run nodes in. Of one that libcloud does not know the sizes are another region's
    without their prices: give [Size NAME] price."""
    key: str | None = option(str, "AKIA...")
    """The access key. Without key and secret, the standard AWS chain is used: environment, profile,
    instance role."""
    secret: str | None = option(str, "...")
    """The key's secret; secret_file = PATH reads it from a file."""
    token: str | None = option(str, "...")
    """The session token of a temporary key. It is not renewed: prefer the chain."""
    profile: str | None = option(str, "nodemanager")
    """A profile of ~/.aws/credentials, where the chain is used."""
    timeout: float | None = option(declared.number, "60")
    """How many seconds to wait for one answer."""
    endpoint: str | None = option(str, "https://ec2.example.org:8773")
    """Another EC2 API than the region's own, as host[:port] (https) or a URL. Plain http is for
    loopback, unless insecure."""
    sts_endpoint: str | None = option(str, "https://sts.example.org")
    """That API's STS, which tells the account; by default sts.REGION of Amazon's own, else
    endpoint. An API without STS is identified by region and endpoint alone (L5)."""
    ca_bundle: str | None = option(str, "/etc/ssl/certs/example.pem")
    """A file of the certificate authorities to trust for the cloud, in place of the system's."""
    insecure: bool = switch()
    """Accept any certificate, and plain http to any host. For tests."""
    host: str | None = option(str)
    """With port and secure, libcloud's parts of endpoint, which goes before them."""
    port: str | None = option(str)
    """See host."""
    secure: bool = option(flag, default=True)
    """See host."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`: endpoints, keys and the time-out (seconds)."""

    region: str
    endpoint: Endpoint
    sts: Endpoint
    amazon: bool
    timeout: float
    trust: str | bool | None
    keys: Mapping[str, str] = field(repr=False)


PARTITIONS: Mapping[str, tuple[str, str]] = {
    "cn-": ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    "eusc-": ("amazonaws.eu", "api.amazonwebservices.eu"),
    "us-iso-": ("c2s.ic.gov", "api.aws.ic.gov"),
    "us-isob-": ("sc2s.sgov.gov", "api.aws.scloud"),
    "eu-isoe-": ("cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    "us-isof-": ("csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    "": ("amazonaws.com", "api.aws"),
}
"""By how the names of a partition's regions begin: the domain of its hosts, and of those that speak
IPv6, too. From botocore's data/partitions.json, which a test compares."""


_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,3}-\d{1,2}")


def access_of(given: SectionReader, timeout: float) -> Access:
    found = Credentials(**given.read())
    region, insecure, own = found.region, found.insecure, found.endpoint
    if not _REGION.fullmatch(region) and not own:
        given.wrong("region", "not a region's name (they look like us-east-1)", region)
    keys = _keys(given)
    host = found.host or f"ec2.{region}.{_domains(region)[0]}"
    port = f":{found.port}" if found.port else ""
    parts = f"{'https' if found.secure else 'http'}://{host}{port}"
    endpoint = _endpoint(given, "endpoint", own or parts, insecure)
    domain = _amazon_domain(endpoint.host)
    if found.sts_endpoint is not None:
        sts = _endpoint(given, "sts_endpoint", found.sts_endpoint, insecure)
    else:
        sts = Endpoint(f"sts.{region}.{domain}", 443) if domain is not None else endpoint
    return Access(
        region=region,
        endpoint=endpoint,
        sts=sts,
        amazon=domain is not None,
        timeout=found.timeout or timeout,
        trust=False if insecure else found.ca_bundle,
        keys=keys,
    )


def _domains(region: str) -> tuple[str, str]:
    """The domains of the region's partition; see PARTITIONS."""
    return next(both for begin, both in PARTITIONS.items() if region.startswith(begin))


def _amazon_domain(host: str) -> str | None:
    """Amazon's domain that the host is in; None where it is another's."""
    domains = (domain for both in PARTITIONS.values() for domain in both)
    return next((domain for domain in domains if host.endswith(f".{domain}")), None)


def _keys(given: SectionReader) -> dict[str, str]:
    """The credentials that the file itself gives, by option name."""
    for one, other in (("key", "secret"), ("secret", "key"), ("token", "key")):
        if given.text(one) and not given.text(other):
            given.wrong(one, f"needs {other}, too; without both, Amazon's standard chain is used")
    if given.text("profile") and given.text("key"):
        given.wrong("profile", "contradicts key: give one of them")
    return {
        key: given.values[key] for key in ("key", "secret", "token", "profile") if given.text(key)
    }


def _endpoint(given: SectionReader, key: str, text: str, insecure: bool) -> Endpoint:
    try:
        return Endpoint.parse(text, insecure)
    except ValueError as error:
        given.wrong(key, str(error), text)
        return Endpoint("", 443)
