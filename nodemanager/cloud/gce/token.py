"""The access token that requests to Google carry, shared by all threads.

libcloud's own credential asks for one as soon as a driver is made, for each driver anew, keeps it
in a file of the home folder, and takes what it finds there, whoever's it is (L5). Here it is asked
for when it is needed, and is kept in memory alone.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests
from libcloud.common.google import GoogleAuthError, GoogleBaseError, GoogleServiceAcctAuthConnection

from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.libcloud_base import OneTry
from nodemanager.cloud.transport import Answer, within_its_time
from nodemanager.errors import CloudError, Unauthorized

SCOPE = "https://www.googleapis.com/auth/compute"
EARLY_S = 300.0
"""A token is renewed so long before it ends. A metadata server gives a new one from then on."""


class TokenSource:
    """Gives the token that is valid now. `ask` gets a new one: `access_token`, `expires_in`."""

    def __init__(self, ask: Callable[[], Mapping[str, Any]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._token: str | None = None
        self._until = 0.0
        self._failures = 0

    @property
    def access_token(self) -> str:
        """As libcloud's connection asks for it. Raises Unauthorized where it is refused."""
        before = self._failures
        with self._lock:
            if self._token is not None and time.monotonic() < self._until:
                return self._token
            if self._failures != before:
                # Or each thread would wait for its own time-out, one after the other.
                raise CloudError("no access token was to be had a moment ago")
            try:
                return self._renewed()
            except Exception:
                # Whatever it was, those who waited for this token learn that there is none.
                self._failures += 1
                raise

    def _renewed(self) -> str:
        asked_at = time.monotonic()
        told = self._ask()
        try:
            token, life = str(told["access_token"]), float(told["expires_in"])
        except (KeyError, TypeError, ValueError) as error:
            raise CloudError("the answer has no access token") from error
        self._token = token
        # A token that is about to end may be all there is for some seconds.
        self._until = asked_at + max(life - EARLY_S, min(life / 2, 10.0))
        return token

    def refused(self) -> None:
        """Note that the token was refused: the next request asks for a new one."""
        with self._lock:
            self._token = None


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
        try:
            told: Mapping[str, Any] = json.loads(self.told("token"))
        except ValueError as error:
            raise Unauthorized("the metadata server's answer is no JSON") from error
        return told

    def told(self, what: str) -> str:
        """What the metadata server says of the account: `token`, `email` or `scopes`."""
        # Google's own libraries take this variable, too.
        host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
        path = f"computeMetadata/v1/instance/service-accounts/default/{what}"
        with requests.Session() as session:
            # Neither a proxy nor ~/.netrc is for this server.
            session.trust_env = False
            within_its_time(session)
            try:
                answer = session.get(
                    f"http://{host}/{path}",
                    headers={"Metadata-Flavor": "Google"},
                    timeout=self.timeout,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                raise Unauthorized(
                    f"no key in [Cloud Credentials], and no metadata server that tells its {what}: "
                    f"{type(error).__name__}"
                ) from error
        if answer.status_code != 200:
            raise Unauthorized(
                f"this instance's metadata server tells no {what}: HTTP {answer.status_code}; "
                "has the instance a service account?"
            )
        return answer.text
