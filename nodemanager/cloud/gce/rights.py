"""What the account may do at Google, by the names of permissions. Asking changes nothing.

A permission on the whole project is asked of the Resource Manager API. It wants another scope than
the daemon's own token has, so that a token of its own is asked for.
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
        access = self.access
        path = f"/v1/projects/{access.project}:testIamPermissions"
        tokens = TokenSource(GoogleSignIn(access.info, access.timeout, READ_ALL))
        connection = self.connect(_resource_manager(access.endpoint), tokens)
        try:
            return granted(connection, path, asked)
        finally:
            connection.connection.session.close()


def _resource_manager(compute: Endpoint) -> Endpoint:
    """Where that API is: beside the compute API. An address that is not Google's own has both."""
    if compute.host.startswith("compute") and compute.host.endswith(".googleapis.com"):
        host = "cloudresourcemanager" + compute.host.removeprefix("compute")
        return replace(compute, host=host, path="")
    return compute
