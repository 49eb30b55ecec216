"""How the manager reaches Azure: `[Cloud Credentials]` of an Azure file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from libcloud.common.azure_arm import publicEnvironments

from nodemanager.cloud import declared
from nodemanager.cloud.declared import Endpoint, SectionReader, one_of, option

if TYPE_CHECKING:
    from nodemanager.cloud.azure.sign_in import Principal

WAYS = {
    "secret": "AZURE_CLIENT_SECRET",
    "certificate": "AZURE_CLIENT_CERTIFICATE_PATH",
    "federated_token_path": "AZURE_FEDERATED_TOKEN_FILE",
}
"""How a service principal shows who it is, by our options, and by azure-identity's names."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CLOUDS = tuple(one for one in publicEnvironments if one != "AzureGermanCloud")


def _subscription(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise ValueError("is no UUID (az account show --query id)")
    return value.lower()


def _tenant(value: str) -> str:
    if not _UUID.fullmatch(value) and "." not in value:
        raise ValueError("neither a UUID nor a domain")
    return value


def _region(value: str) -> str:
    """Azure's display names, such as East US, are taken, too."""
    name = value.lower().replace(" ", "")
    if not re.fullmatch(r"[a-z]+[0-9]{0,2}", name):
        raise ValueError("is no region's name (az account list-locations)")
    return name


@dataclass(frozen=True, slots=True)
class Credentials:
    """`[Cloud Credentials]` as the file has it."""

    subscription_id: str = option(
        _subscription,
        "00000000-0000-0000-0000-000000000000",
        default="",
        missing="is missing (az account show --query id)",
        hidden=True,
    )
    """The subscription to run nodes in (az account show --query id). Must be given."""
    tenant_id: str = option(
        _tenant, "00000000-0000-0000-0000-000000000000", default="", hidden=True
    )
    """Its directory (az account show --query tenantId); needed with a service principal. It is
    compared with what Azure says of the subscription (L5)."""
    region: str = option(
        _region, "eastus", default="", missing="is missing: where nodes boot, such as eastus"
    )
    """The region to run nodes in, as eastus or East US. Must be given."""
    key: str = option(str, "00000000-0000-0000-0000-000000000000", default="")
    """The client id of a service principal. Without the next three, the identity of the machine
    that this runs on is used; this then chooses one of several."""
    secret: str | None = option(str, "SECRET")
    """The service principal's secret; secret_file = PATH reads it from a file."""
    certificate: str | None = option(str, "/etc/nodemanager/azure-client.pem")
    """The file of its certificate and RSA key, in PEM, instead of a secret. The key signs a request
    for each token, and is never sent."""
    federated_token_path: str | None = option(
        str, "/var/run/secrets/azure/tokens/azure-identity-token"
    )
    """The file of a token that another issuer, such as Kubernetes, replaces in time, instead of
    both. It is read for each token."""
    cloud_environment: str = option(one_of(*_CLOUDS), "AzureUSGovernment", default=_CLOUDS[0])
    """AzureChinaCloud or AzureUSGovernment, where it is not the public cloud."""
    timeout: float | None = option(declared.number, "60")
    """How many seconds to wait for one answer."""
    endpoint: Endpoint | None = option(declared.endpoint, "https://management.azure.com")
    """Another address of Azure Resource Manager, as host[:port] (https) or a URL. Plain http is for
    loopback."""
    login_endpoint: Endpoint | None = option(declared.endpoint, "https://login.microsoftonline.com")
    """Where access tokens are asked for, with a service principal."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`, and the resource group. `principal` is None where the machine's own
    identity is used. `scope` is what a token is asked for."""

    subscription: str
    tenant: str
    group: str
    region: str
    endpoint: Endpoint
    login: Endpoint
    scope: str
    timeout: float
    client_id: str
    principal: Principal | None


def access_of(given: SectionReader, listed: SectionReader, timeout: float) -> Access:
    given, how = _signing_in(given)
    found = Credentials(**given.read())
    about = publicEnvironments[found.cloud_environment]
    hosts = (about["resourceManagerEndpointUrl"], about["activeDirectoryEndpointUrl"])
    resources, directory = (f"https://{urlsplit(one).hostname}" for one in hosts)
    client_id, tenant = found.key, found.tenant_id
    if how and not given.text("tenant_id"):
        given.wrong("tenant_id", "is missing: the directory (az account show --query tenantId)")
    if how and not client_id:
        given.wrong("key", "is missing: the client id of the service principal")
    return Access(
        subscription=found.subscription_id,
        tenant=tenant,
        group=listed.read()["resource_group"],
        region=found.region,
        endpoint=found.endpoint or declared.endpoint(resources),
        login=found.login_endpoint or declared.endpoint(directory),
        scope=f"{resources}/.default",
        timeout=found.timeout or timeout,
        client_id=client_id,
        principal=_principal(given, how, tenant, client_id) if how else None,
    )


def _signing_in(given: SectionReader) -> tuple[SectionReader, str]:
    """The section, and which of its options shows who the manager is; none of them where the
    machine's own identity is used.

    A section with none of them is filled from the environment, by azure-identity's names: a pod
    has them from Azure's webhook.
    """
    ways = [key for key in WAYS if given.text(key)]
    for more in ways[1:]:
        given.wrong(more, f"contradicts {ways[0]}: give one of them")
    if ways:
        return given, ways[0]
    how = next((key for key, name in WAYS.items() if os.environ.get(name)), "")
    if not how:
        return given, ""
    names = {how: WAYS[how], "key": "AZURE_CLIENT_ID", "tenant_id": "AZURE_TENANT_ID"}
    found = {key: os.environ.get(name, "") for key, name in names.items()}
    own = {key: text for key, text in given.values.items() if text.strip()}
    return SectionReader(given.section, {**found, **own}, given.problems, given.options), how


def _principal(given: SectionReader, how: str, tenant: str, client_id: str) -> Principal | None:
    # The manual's generators read this module's tables without that library.
    from nodemanager.cloud.azure.sign_in import Principal

    text = given.text(how) or ""
    if how == "certificate" and "-----BEGIN" not in text:
        try:
            text = declared.file(text)
        except ValueError as error:
            given.wrong(how, f"the file {error}")
            return None
    made = Principal(tenant, client_id, text, how)
    if how == "certificate" and not given.problems:
        try:
            made()
        except Exception:
            # Those of cryptography are many, and all mean the same here.
            given.wrong(how, "no PEM with a certificate and its RSA key, without a password")
    return made
