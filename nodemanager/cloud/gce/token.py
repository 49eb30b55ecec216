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

from nodemanager.bounded_session import within_its_time
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.libcloud_base import OneTry
from nodemanager.cloud.metadata import as_token, from_metadata
from nodemanager.cloud.transport import Answer
from nodemanager.errors import Unauthorized

SCOPE = "https://www.googleapis.com/auth/compute"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account's key; asks Google for tokens by a claim that the key signs."""

    email: str
    key: str = field(repr=False)
    endpoint: Endpoint
    timeout: float
    scope: str = SCOPE

    def __call__(self) -> Mapping[str, Any]:
        try:
            connection = GoogleServiceAcctAuthConnection(
                self.email,
                {"private_key": self.key},
                [self.scope],
                secure=self.endpoint.secure,
                host=self.endpoint.host,
                port=self.endpoint.port,
                timeout=self.timeout,
            )
            connection.retryCls = OneTry
            connection.connect()
            within_its_time(connection.connection.session)
            try:
                told: Mapping[str, Any] = connection.get_new_token()
                answer = Answer(connection.connection.response)
                if answer.status >= 300:
                    # libcloud takes an error without a body for a token.
                    raise answer.of_a_proxy(f"no access token: HTTP {answer.status}")
                return told
            finally:
                connection.connection.session.close()
        except GoogleAuthError as error:
            # Its text may have the key in it.
            raise Unauthorized("[Cloud Credentials] key: it can't sign") from error
        except GoogleBaseError as error:
            answer = Answer(connection.connection.response)
            text = f"access for {self.email} is refused: HTTP {answer.status}, {error.value}"
            # Google's own refusal is JSON; a proxy's page is nobody's word on the key.
            is_json = "json" in answer.headers.get("content-type", "")
            if is_json and 400 <= answer.status < 500 and answer.status not in (408, 429):
                raise Unauthorized(text) from error
            raise answer.of_a_proxy(text) from error


@dataclass(frozen=True, slots=True)
class InstanceRole:
    """The service account of the instance that this runs on, from its metadata server."""

    timeout: float

    def __call__(self) -> Mapping[str, Any]:
        return as_token(self.told("token"))

    def told(self, what: str) -> str:
        """What the metadata server says of the account: `token`, `email` or `scopes`."""
        # Google's own libraries take this variable, too.
        host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
        return from_metadata(
            f"http://{host}/computeMetadata/v1/instance/service-accounts/default/{what}",
            what,
            headers={"Metadata-Flavor": "Google"},
            timeout=self.timeout,
            without=f"no key in [Cloud Credentials], and no metadata server that tells its {what}",
            refused="has the instance a service account?",
        )
