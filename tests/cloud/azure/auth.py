"""The sign-in of the Azure server: Entra ID's token endpoint, and a machine's own identity.

A certificate's assertion is checked as Entra ID does: its signature, its audience, its times.
"""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import json
import secrets
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

SUBSCRIPTION = "11111111-2222-4333-8444-555555555555"
TENANT = "99999999-8888-4777-8666-555555555555"
CLIENT = "abcdefab-cdef-4abc-8def-abcdefabcdef"
SECRET = "very~hush.client-secret"
FEDERATED = "eyJhbGciOiJSUzI1NiJ9.federated.token"
SCOPE = "https://management.azure.com/.default"
ARC = "/arc/token"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Told = tuple[int, Any]


@functools.cache
def certificate() -> str:
    """A client certificate and its key, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nodemanager")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return (private + made.public_bytes(serialization.Encoding.PEM)).decode("ascii")


class Tokens:
    """The access tokens that are valid."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.valid: set[str] = set()
        self.given = 0
        self.life_s = 3600
        self.federated = FEDERATED
        self.requests = 0
        """How many there were at the sign-in, with those that ask where to ask."""
        self.arc_key: Path | None = None
        """The file that a machine of Azure Arc shows the text of."""
        self.arc_answer = "an-arc-key"
        self.asked: list[dict[str, str]] = []
        """The form or query of each request for a token."""
        self.identities: set[str] = {""}
        """The client ids of the identities of the machine that asks; "" is that of the system."""

    def knows(self, authorization: str) -> bool:
        return authorization.removeprefix("Bearer ") in self.valid

    def revoke(self) -> None:
        """Every token so far is refused from now on."""
        self.valid.clear()

    def new(self) -> str:
        token = f"eyJ0.{secrets.token_hex(16)}"
        self.valid.add(token)
        self.given += 1
        return token

    def answer(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        sent: bytes,
    ) -> Told | None:
        """Status, JSON and headers for a request for a token; None for any other request."""
        if path.endswith("/oauth2/v2.0/token") and verb == "POST":
            form = {name: values[0] for name, values in parse_qs(sent.decode()).items()}
            self.asked.append(form)
            return self._granted(path.split("/")[1], form, f"https://{headers.get('host')}{path}")
        if path.endswith("/v2.0/.well-known/openid-configuration"):
            return self._discovered(path.split("/")[1], f"https://{headers.get('host')}")
        if path == "/metadata/identity/oauth2/token":
            self.asked.append(dict(query))
            return self._identity(query, headers)
        if path == ARC:
            return self._arc(headers)
        return None

    def _arc(self, headers: Mapping[str, str]) -> Told:
        """As Arc's agent: who asks shows that it can read a file of root's."""
        if headers.get("authorization") == f"Basic {self.arc_answer}":
            said = {"access_token": self.new(), "expires_in": str(self.life_s)}
            return 200, {**said, "resource": "https://management.azure.com"}
        return 401, _no("unauthorized_client", f"Basic realm={self.arc_key}")

    def _identity(self, query: Mapping[str, str], headers: Mapping[str, str]) -> Told:
        if headers.get("metadata") != "true":
            return 400, _no("bad_request_102", "Required metadata header not specified")
        fine = query.get("api-version") == "2018-02-01"
        if not fine or query.get("resource") != "https://management.azure.com":
            return 400, _no("invalid_resource", "AADSTS500011")
        if query.get("client_id", "") not in self.identities:
            return 400, _no("invalid_request", "Identity not found")
        # The metadata service gives numbers as texts.
        return 200, {"access_token": self.new(), "expires_in": str(self.life_s)}

    def _discovered(self, tenant: str, host: str) -> Told:
        if tenant != TENANT:
            return 400, _no("invalid_tenant", f"AADSTS90002: Tenant '{tenant}' not found.")
        here = f"{host}/{tenant}"
        return 200, {
            "issuer": f"{here}/v2.0",
            "authorization_endpoint": f"{here}/oauth2/v2.0/authorize",
            "token_endpoint": f"{here}/oauth2/v2.0/token",
        }

    def _granted(self, tenant: str, form: Mapping[str, str], audience: str) -> Told:
        if tenant != TENANT:
            return 400, _no("invalid_request", f"AADSTS90002: Tenant '{tenant}' not found.")
        if form.get("grant_type") != "client_credentials" or form.get("scope") != SCOPE:
            return 400, _no("invalid_scope", "AADSTS1002012")
        if form.get("client_id") != CLIENT:
            return 400, _no("unauthorized_client", "AADSTS700016: Application not found")
        if "client_secret" in form:
            fine = form["client_secret"] == SECRET
            why = "AADSTS7000215: Invalid client secret provided."
        else:
            said = form.get("client_assertion", "")
            fine = form.get("client_assertion_type") == ASSERTION and (
                said == self.federated or _signed(said, audience)
            )
            why = "AADSTS700027: The certificate with identifier used to sign is not registered."
        if not fine:
            return 401, _no("invalid_client", why)
        return 200, {"token_type": "Bearer", "expires_in": self.life_s, "access_token": self.new()}


def _signed(assertion: str, audience: str) -> bool:
    pem = certificate().encode()
    known = x509.load_pem_x509_certificate(pem)
    public = known.public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    try:
        head, claims, signature = assertion.split(".")
        public.verify(
            _decoded(signature),
            f"{head}.{claims}".encode(),
            padding.PKCS1v15(),
            hashes.SHA256(),
        )
        said, by = json.loads(_decoded(claims)), json.loads(_decoded(head))
        uuid.UUID(said["jti"])
    except (ValueError, KeyError, InvalidSignature):
        return False
    der = known.public_bytes(serialization.Encoding.DER)
    now = time.time()
    return (
        _decoded(by["x5t"]) == hashlib.sha1(der).digest()
        and by["alg"] == "RS256"
        and said["iss"] == said["sub"] == CLIENT
        and said["aud"] == audience
        and said.get("nbf", now) <= now <= said["exp"] <= now + 86_400
    )


def _no(code: str, why: str) -> dict[str, str]:
    return {"error": code, "error_description": why}


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
