"""What the account may do at Google, by the names of permissions. Asking changes nothing.

A permission on the whole project is asked of the Resource Manager API, the right to act as a
node's service account of the IAM API. Both want another scope than the daemon's own token has, so
that a token of its own is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.gce.options import Access
from nodemanager.cloud.gce.token import GoogleSignIn
from nodemanager.cloud.gce.wire import granted
from nodemanager.cloud.token import TokenSource

READ_ALL = "https://www.googleapis.com/auth/cloud-platform.read-only"
ALL = "https://www.googleapis.com/auth/cloud-platform"
COMPUTE = "https://www.googleapis.com/auth/compute"

ACT_AS = "iam.serviceAccounts.actAs"


@dataclass(frozen=True, slots=True)
class Rights:
    """`connect` opens a connection of libcloud's to another API of Google's."""

    access: Access
    connect: Callable[[Endpoint, TokenSource], Any]

    def who(self) -> tuple[str, list[str] | None]:
        """Whose credentials they are, and the scopes that this instance gives its account; None
        for a file's credentials, which give any."""
        access = self.access
        made = GoogleSignIn(access.info, access.timeout).signed_in()
        who = getattr(made, "service_account_email", None)
        if access.info is None:
            return str(who), list(made.scopes or ())
        return str(who or access.info.get("audience") or access.info["type"]), None

    def on_project(self, asked: Sequence[str]) -> set[str]:
        """Which of the permissions we have on the whole project."""
        path = f"/v1/projects/{self.access.project}:testIamPermissions"
        return self._granted("cloudresourcemanager", READ_ALL, path, asked)

    def on_account(self, email: str) -> bool:
        """Whether we may boot nodes that run as that service account."""
        path = f"/v1/projects/-/serviceAccounts/{email}:testIamPermissions"
        return ACT_AS in self._granted("iam", ALL, path, (ACT_AS,))

    def _granted(self, service: str, scope: str, path: str, asked: Sequence[str]) -> set[str]:
        access = self.access
        ask = GoogleSignIn(access.info, access.timeout, scope)
        connection = self.connect(_address(access.endpoint, service), TokenSource(ask))
        try:
            return granted(connection, path, asked)
        finally:
            connection.connection.session.close()


def _address(compute: Endpoint, service: str) -> Endpoint:
    """Where another of Google's APIs is: beside the compute API. An address that is not Google's
    own has them all."""
    if compute.host.startswith("compute") and compute.host.endswith(".googleapis.com"):
        return replace(compute, host=service + compute.host.removeprefix("compute"), path="")
    return compute
