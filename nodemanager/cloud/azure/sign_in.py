"""How the manager signs in to Microsoft Entra ID, and gets a token for Azure Resource Manager.

A service principal shows a secret, an assertion that its certificate's key signs, or a federated
token that somebody else issued to it. A machine of Azure may have an identity of its own instead.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode, urlsplit

from libcloud.common.base import Connection

from nodemanager import foreign
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.libcloud_base import OneTry
from nodemanager.cloud.metadata import as_token, from_metadata
from nodemanager.cloud.translate import without_secrets
from nodemanager.cloud.transport import Answer, WholeAnswers, wait_asked_for
from nodemanager.errors import CloudError, Throttled, Unauthorized

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import rsa

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_LIFE_S = 600
PASSING = frozenset({"temporarily_unavailable", "server_error"})
"""Errors of the sign-in that say nothing about the credentials."""
RENEWED = frozenset({404, 410})
"""What a metadata server answers while Azure renews it, for up to 70 s. A machine without an
identity gets a 400."""
_LONGEST = 300


class Proof(Protocol):
    """What a service principal shows to get a token."""

    def form(self, audience: str, client_id: str) -> Mapping[str, str]:
        """The fields of the token request; `audience` is its URL. Raises Unauthorized."""
        ...


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """A client secret."""

    text: str = field(repr=False)

    def form(self, audience: str, client_id: str) -> Mapping[str, str]:
        return {"client_secret": self.text}


@dataclass(frozen=True, slots=True)
class Federated:
    """A token of another issuer, such as Kubernetes, that is in a file and is replaced in time."""

    path: Path

    def form(self, audience: str, client_id: str) -> Mapping[str, str]:
        try:
            token = self.path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no token"
            raise Unauthorized(f"the federated token {self.path} can't be read: {why}") from error
        return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": token}


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate, and its RSA key."""

    thumbprint: str
    key: rsa.RSAPrivateKey = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Certificate:
        """Read PEM, or the file of that path. Raises ValueError with what is wrong, without any of
        the key."""
        # Installations without a certificate need not have it.
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        if "-----BEGIN" not in text:
            try:
                text = Path(text).expanduser().read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is no PEM"
                raise ValueError(f"the file can't be read: {why}") from None
        try:
            pem = text.encode("ascii")
            key = serialization.load_pem_private_key(pem, password=None)
            found = x509.load_pem_x509_certificate(pem)
        except Exception:
            # The library has many; all mean the same here.
            raise ValueError(
                "no PEM with a certificate and its private key, without a password"
            ) from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError("the key is no RSA key, which Entra ID needs")
        return cls(_coded(found.fingerprint(hashes.SHA256())), key)

    def form(self, audience: str, client_id: str) -> Mapping[str, str]:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        now = int(time.time())
        claims = {
            "aud": audience,
            "iss": client_id,
            "sub": client_id,
            "jti": str(uuid.uuid4()),
            "nbf": now - 60,
            "exp": now + ASSERTION_LIFE_S,
        }
        head = {"alg": "PS256", "typ": "JWT", "x5t#S256": self.thumbprint}
        signed = f"{_coded(json.dumps(head).encode())}.{_coded(json.dumps(claims).encode())}"
        pss = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)
        signature = self.key.sign(signed.encode("ascii"), pss, hashes.SHA256())
        return {
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": f"{signed}.{_coded(signature)}",
        }


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


@dataclass(frozen=True, slots=True)
class ServicePrincipal:
    """A service principal; asks Entra ID for tokens."""

    tenant: str
    client_id: str
    proof: Proof = field(repr=False)
    login: Endpoint
    scope: str
    timeout: float

    def __call__(self) -> Mapping[str, Any]:
        path = f"/{self.tenant}/oauth2/v2.0/token"
        proof = self.proof.form(f"{self.login}{path}", self.client_id)
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "scope": self.scope,
            **proof,
        }
        where = self.login
        connection = _SignIn(
            secure=where.secure, host=where.host, port=where.port, timeout=self.timeout
        )
        connection.request_path = where.path
        try:
            answer = connection.request(
                path,
                method="POST",
                data=urlencode(form),
                headers={"Content-Type": "application/x-www-form-urlencoded"},
                retry_failed=False,
            )
        finally:
            if connection.connection is not None:
                connection.connection.session.close()
        return self._judged(answer, tuple(proof.values()))

    def _judged(self, answer: Answer, secrets: tuple[str, ...]) -> Mapping[str, Any]:
        wait = wait_asked_for(answer.headers.get("retry-after"))
        try:
            told = foreign.loads(answer.content)
        except ValueError:
            told = None
        if answer.status == 200 and isinstance(told, dict):
            return told
        error, said = "", "no answer of Entra ID"
        if isinstance(told, dict):
            error = str(told.get("error", ""))
            said = " ".join(str(told.get("error_description") or error).split())
        text = f"access for {self.client_id} is refused: HTTP {answer.status}, "
        text += without_secrets(said, secrets)[:_LONGEST]
        definite = 400 <= answer.status < 500 and answer.status not in (408, 429)
        if definite and error and error not in PASSING:
            raise Unauthorized(text)
        kind = Throttled if answer.status == http.client.TOO_MANY_REQUESTS else CloudError
        raise kind(text, retry_after=wait)


# libcloud has no types, and its classes are Any to the checker.
class _SignIn(WholeAnswers, Connection):  # type: ignore[misc]
    """libcloud's connection, to the sign-in."""

    retryCls = OneTry


@dataclass(frozen=True, slots=True)
class ManagedIdentity:
    """The identity of the machine that this runs on, from its metadata server; `client_id` chooses
    one of several."""

    client_id: str
    scope: str
    timeout: float

    def __call__(self) -> Mapping[str, Any]:
        # Microsoft's own libraries take this variable, too.
        own = os.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or "http://169.254.169.254"
        params = {
            "api-version": "2018-02-01",
            "resource": f"https://{urlsplit(self.scope).hostname}/",
        }
        if self.client_id:
            params["client_id"] = self.client_id
        told = from_metadata(
            f"{own.rstrip('/')}/metadata/identity/oauth2/token",
            "token",
            headers={"Metadata": "true"},
            params=params,
            timeout=self.timeout,
            without="no secret in [Cloud Credentials], and no metadata server that gives a token",
            refused="has this machine an identity?",
            passing=RENEWED,
        )
        return as_token(told)
