"""How the manager signs in to Microsoft Entra ID by azure-identity, and gets a token for Azure
Resource Manager.

A service principal shows a secret, an assertion that its certificate's key signs, or a federated
token that somebody else issued to it. A machine, of Azure or of Azure Arc, may have an identity of
its own instead.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from azure.identity import (
    CertificateCredential,
    ClientAssertionCredential,
    ClientSecretCredential,
    ManagedIdentityCredential,
)

from nodemanager.cloud.declared import Endpoint
from nodemanager.cloud.sign_in import SignInSession
from nodemanager.errors import Unauthorized

# It logs a refusal as the server words it, which may quote what was sent.
logging.getLogger("azure.identity").setLevel(logging.CRITICAL)

NOBODY = "no secret in [Cloud Credentials], and no metadata server"


@dataclass(frozen=True, slots=True)
class Principal:
    """A service principal, which shows a secret, a certificate or a federated token."""

    tenant: str
    client_id: str
    proof: str = field(repr=False)
    """The secret, the certificate and its key in PEM, or the path of the token."""
    how: str

    def __call__(self, **settings: Any) -> Any:
        if self.how == "secret":
            return ClientSecretCredential(self.tenant, self.client_id, self.proof, **settings)
        if self.how == "certificate":
            pem = self.proof.encode()
            return CertificateCredential(
                self.tenant, self.client_id, certificate_data=pem, **settings
            )
        return ClientAssertionCredential(self.tenant, self.client_id, self._token, **settings)

    def _token(self) -> str:
        """The federated token, which its issuer replaces in time."""
        try:
            return Path(self.proof).expanduser().read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no token"
            raise Unauthorized(f"the federated token {self.proof} can't be read: {why}") from error


@dataclass(frozen=True, slots=True)
class EntraSignIn:
    """Gets tokens: for the principal, else for the identity of the machine that this runs on,
    where `client_id` chooses one of several."""

    principal: Principal | None
    client_id: str
    login: Endpoint
    scope: str
    timeout: float

    def __call__(self) -> tuple[str, float]:
        who = self.client_id or "this machine"
        with _Session(self.timeout, self.login) as session:
            try:
                # Made anew each time, as it keeps a token that was refused, and refusals, too.
                made = self._made(session=session, session_owner=False, retry_total=0)
                info = made.get_token_info(self.scope)
            except Exception as error:
                # msal and azure-core have many, for an answer that can't be read also Python's.
                secrets = (self.principal.proof,) if self.principal else ()
                doing = f"access for {who} is refused"
                if self.principal is None:
                    doing = f"{doing}, has this machine an identity?"
                raise session.failed(error, doing, secrets) from None
        return info.token, info.expires_on - time.time()

    def _made(self, **pipeline: Any) -> Any:
        if self.principal is None:
            return ManagedIdentityCredential(client_id=self.client_id or None, **pipeline)
        authority = f"https://{_place(self.login)}{self.login.path}"
        return self.principal(authority=authority, disable_instance_discovery=True, **pipeline)


class _Session(SignInSession):
    """`login` is where Entra ID is; azure-identity takes https alone, and a test server has none.

    Azure's metadata server answers 404 or 410 while it is renewed, for up to 70 s. A machine
    without an identity gets a 400.
    """

    RENEWED = frozenset({404, 410})

    def __init__(self, timeout: float, login: Endpoint) -> None:
        super().__init__(timeout, NOBODY)
        self._login = login

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        there = f"https://{_place(self._login)}/"
        if not self._login.secure and str(request.url).startswith(there):
            request.url = str(request.url).replace("https:", "http:", 1)
        return super().send(request, **settings)


def _place(login: Endpoint) -> str:
    return login.host if login.port == 443 else f"{login.host}:{login.port}"
