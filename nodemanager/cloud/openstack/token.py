"""Tokens from keystone, shared by all threads, and the endpoints that come with them.

libcloud would fetch a token for each thread and service, and would not tell the token's project, by
which we know the account (L5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keystoneauth1.exceptions import ClientException
from keystoneauth1.session import Session

from nodemanager.cloud.declared import Endpoint
from nodemanager.cloud.openstack.errors import Refusal, error_of
from nodemanager.cloud.openstack.options import Access
from nodemanager.cloud.sign_in import SignInSession
from nodemanager.cloud.transport import TokenSource
from nodemanager.errors import BadRequest, ForeignAnswer, Unauthorized

RENEW_S = 60.0
"""A token is renewed this long before its end, so that no request is sent with one that ends on
its way."""

TYPES: Mapping[str, tuple[str, ...]] = {
    "compute": ("compute",),
    "network": ("network",),
    "image": ("image",),
    "volume": ("volumev3", "block-storage", "block-store", "volume"),
}
"""The names that catalogs have for a service."""
_NO_CREDENTIAL = "Could not find Application Credential"
"""Keystone's 404 for one that was withdrawn or whose user is gone."""
VERSIONS = {"network": "/v2.0", "image": "/v2"}
"""The version of the API, for a catalog whose endpoint names none."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, its project, and the URL of each service that the catalog has in our region."""

    id: str = field(repr=False)
    project: str
    endpoints: Mapping[str, str]

    def endpoint(self, service: str) -> str:
        """Raises BadRequest where the catalog has no such service in our region."""
        if service not in self.endpoints:
            raise BadRequest(f"the cloud's catalog has no {service} service in this region")
        return self.endpoints[service]


class Keystone:
    """Gives a token that is valid now; several threads may ask at once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._tokens = TokenSource(self._fetched, RENEW_S)
        self._told_for: str | None = None

    def token(self) -> Token:
        """Raises Unauthorized for one of another project than the account was told for (L5)."""
        token = self._tokens.access_token
        if self._told_for not in (None, token.project):
            raise Unauthorized(
                f"the token is for project {token.project}, not for {self._told_for}, which "
                "the account was told for (L5); with the next poll it is asked for again"
            )
        return token

    def account(self) -> str:
        self._told_for = self._tokens.access_token.project
        return self._told_for

    def refused(self, token: str) -> None:
        """Note that a service refused that token: the next request gets a new one."""
        self._tokens.refused(lambda known: known.id == token)

    def _fetched(self) -> tuple[Token, float]:
        access = self._asked()
        try:
            token = Token(
                id=access.auth_token,
                project=str(access.project_id),
                endpoints=self._endpoints(access.service_catalog.catalog),
            )
            return token, (access.expires - access.issued).total_seconds()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # The text of a KeyError names the key alone, so no part of the answer is told.
            why = f"{type(error).__name__}: {error}"
            raise ForeignAnswer(f"keystone's answer can't be read ({why})") from None

    def _asked(self) -> Any:
        """keystoneauth1's AccessInfo, from a token that was asked for now."""
        access = self._access
        with SignInSession(access.timeout, trust=access.trust) as session:
            try:
                return access.signs_in.get_auth_ref(Session(session=session, redirect=False))
            except (ClientException, KeyError) as failure:
                answer = session.last
                if answer is None or answer.status < 300:
                    raise session.failed(failure, "ask keystone for a token") from None
                error = error_of(answer, "ask keystone for a token")
        if isinstance(error, Refusal) and _NO_CREDENTIAL in error.message:
            raise Unauthorized(f"keystone: {error}")
        raise error

    def _endpoints(self, catalog: list[Any]) -> dict[str, str]:
        """The URL of each service that the catalog has in our region."""
        found = {}
        for service, names in TYPES.items():
            for name in names:
                urls = self._urls(catalog, name)
                if len(urls) > 1:
                    raise BadRequest(
                        f"[Cloud Credentials] region: the catalog has {service} in "
                        f"{', '.join(sorted(urls))}; name one of them"
                    )
                if urls:
                    found[service] = self._checked(service, *urls.values())
                    break
        if "compute" not in found:
            where = self._access.region or "any region"
            raise BadRequest(f"[Cloud Credentials] region: the catalog has no compute in {where}")
        return found

    def _urls(self, catalog: list[Any], name: str) -> dict[str, str]:
        access = self._access
        return {
            str(one["region"]): str(one["url"])
            for service in catalog
            if service["type"] == name
            for one in service["endpoints"]
            if one["interface"] == access.interface and access.region in (None, one["region"])
        }

    def _checked(self, service: str, url: str) -> str:
        """The URL with the API's version; plain http would show the token to the network."""
        try:
            endpoint = Endpoint.parse(url, self._access.insecure)
        except ValueError as error:
            raise BadRequest(f"the catalog's endpoint of {service}, {url}: {error}") from error
        versioned = re.search(r"/v\d", endpoint.path)
        return str(endpoint) + ("" if versioned else VERSIONS.get(service, ""))
