"""How the manager reaches EC2: `[Cloud Credentials]` of an EC2 file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.cloud import declared
from nodemanager.cloud.declared import Endpoint, SectionReader, flag, option, switch


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
