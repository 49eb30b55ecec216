"""Where an access token for Google comes from: google-auth, by a credential or an instance's role.

libcloud's own credential keeps it in a file of the home folder, and takes what it finds there,
whoever's it is (L5).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from google.auth import aws, external_account_authorized_user, identity_pool
from google.auth import impersonated_credentials as impersonated
from google.auth.compute_engine import Credentials as Role
from google.auth.transport.requests import Request
from google.oauth2 import credentials as user
from google.oauth2 import service_account

from nodemanager.cloud.sign_in import SignInSession
from nodemanager.errors import CloudError

SCOPE = "https://www.googleapis.com/auth/compute"
AWS = "urn:ietf:params:aws:token-type:aws4_request"


def credentials_of(info: Mapping[str, Any] | None, scope: str = SCOPE) -> Any:
    """google-auth's credentials for one of Google's JSON files; the instance's role without one.

    google-auth's own function for all kinds asks its network while it reads. Raises ValueError or
    another error for what is none; its text may have a secret in it.
    """
    if info is None:
        return Role()
    match info.get("type"):
        case "service_account":
            return service_account.Credentials.from_service_account_info(info, scopes=[scope])
        case "authorized_user":
            return user.Credentials.from_authorized_user_info(info, scopes=[scope])
        case "external_account_authorized_user":
            return external_account_authorized_user.Credentials.from_info(info, scopes=[scope])
        case "impersonated_service_account":
            made = impersonated.Credentials.from_impersonated_service_account_info
            return made(info, scopes=[scope])
        case "external_account" if "executable" not in info["credential_source"]:
            kind = aws if info["subject_token_type"] == AWS else identity_pool
            return kind.Credentials.from_info(info, scopes=[scope])
    raise ValueError("no kind of credentials that is taken here")


@dataclass(frozen=True, slots=True)
class GoogleSignIn:
    """Gets tokens, by one of Google's JSON files or by the instance's role."""

    info: Mapping[str, Any] | None = field(repr=False)
    timeout: float
    scope: str = SCOPE

    def __call__(self) -> tuple[str, float]:
        made = self.signed_in()
        return made.token, made.expiry.replace(tzinfo=UTC).timestamp() - time.time()

    def signed_in(self) -> Any:
        """google-auth's credentials, which have a new token."""
        with SignInSession(self.timeout, self._without) as session:
            try:
                # Made anew each time: what a refused token came from is asked again, too.
                made = credentials_of(self.info, self.scope)
                made.refresh(Request(session))
                return made
            except CloudError:
                raise
            except Exception as error:
                # google-auth lets errors of any kind through for an answer that it can't read.
                raise session.failed(error, f"no access token{self._hint}") from None

    @property
    def _without(self) -> str | None:
        """What to say where no metadata server is; None where none is asked."""
        if self.info is None:
            return "no key in [Cloud Credentials], and no metadata server"
        return "no metadata server" if "credential_source" in self.info else None

    @property
    def _hint(self) -> str:
        return ", has this instance a service account?" if self.info is None else ""
