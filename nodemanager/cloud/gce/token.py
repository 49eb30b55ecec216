"""Where an access token for Google comes from.

libcloud's own credential keeps it in a file of the home folder, and takes what it finds there,
whoever's it is (L5).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from libcloud.common.google import GoogleAuthError, GoogleBaseError, GoogleServiceAcctAuthConnection

from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.libcloud_base import OneTry
from nodemanager.cloud.token import from_metadata
from nodemanager.errors import CloudError, Unauthorized

SCOPE = "https://www.googleapis.com/auth/compute"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account's key; asks Google for tokens by a claim that the key signs."""

    email: str
    key: str = field(repr=False)
    endpoint: Endpoint
    timeout: float

    def __call__(self) -> Mapping[str, Any]:
        try:
            connection = GoogleServiceAcctAuthConnection(
                self.email,
                {"private_key": self.key},
                [SCOPE],
                secure=self.endpoint.secure,
                host=self.endpoint.host,
                port=self.endpoint.port,
                timeout=self.timeout,
            )
            connection.retryCls = OneTry
            try:
                told: Mapping[str, Any] = connection.get_new_token()
                return told
            finally:
                connection.connection.session.close()
        except GoogleAuthError as error:
            # Its text may have the key in it.
            raise Unauthorized("[Cloud Credentials] key: it can't sign") from error
        except GoogleBaseError as error:
            status = error.http_code
            text = f"access for {self.email} is refused: HTTP {status}, {error.value}"
            if isinstance(status, int) and 400 <= status < 500 and status not in (408, 429):
                raise Unauthorized(text) from error
            raise CloudError(text) from error


@dataclass(frozen=True, slots=True)
class InstanceRole:
    """The service account of the instance that this runs on, from its metadata server."""

    timeout: float

    def __call__(self) -> Mapping[str, Any]:
        # Google's own libraries take this variable, too.
        host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
        path = "computeMetadata/v1/instance/service-accounts/default/token"
        return from_metadata(
            f"http://{host}/{path}",
            headers={"Metadata-Flavor": "Google"},
            timeout=self.timeout,
            without="no key in [Cloud Credentials], and no metadata server that gives a token",
            refused="has the instance a service account?",
        )
