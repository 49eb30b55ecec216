"""The token endpoints of the GCE server: a service account's signed claim, a user's refresh token,
another issuer's token, an impersonation, and an instance's role.

The claim is checked as Google does: its signature by the account's public key, its audience, its
times.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ACCOUNT = "someone@example.iam.gserviceaccount.com"
TOKEN_PATHS = ("/token", "/v1/token")
IMPERSONATION = f"/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"
METADATA = "/computeMetadata/v1/"
COMPUTE = "https://www.googleapis.com/auth/compute"
AUDIENCE = "https://oauth2.googleapis.com/token"
POOL_AUDIENCE = (
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x"
)
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ALL = "https://www.googleapis.com/auth/cloud-platform"
REFRESH, SUBJECT = "1//a-refresh-token", "a.subject.token"

Told = tuple[int, Any]


@functools.cache
def private_key() -> rsa.RSAPrivateKey:
    # Checking a longer one takes a thirtieth of a second, each time that it is read.
    return rsa.generate_private_key(public_exponent=65537, key_size=1024)


@functools.cache
def pem() -> str:
    """The service account's key as a PEM file has it."""
    return (
        private_key()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode("ascii")
    )


def key_file(project: str = "some-project") -> str:
    """The service account's key as the JSON file that Google's console gives."""
    return json.dumps(
        {
            "type": "service_account",
            "project_id": project,
            "private_key_id": "0123456789abcdef",
            "private_key": pem(),
            "client_email": ACCOUNT,
            "token_uri": AUDIENCE,
        }
    )


def user_file() -> dict[str, Any]:
    """What `gcloud auth application-default login` writes."""
    return {
        "type": "authorized_user",
        "client_id": "some-client",
        "client_secret": "a-client-secret",
        "refresh_token": REFRESH,
    }


def workload_file(url: str, path: str, *, impersonates: bool = False) -> dict[str, Any]:
    """What `gcloud iam workload-identity-pools create-cred-config` writes, for a token in a
    file."""
    found: dict[str, Any] = {
        "type": "external_account",
        "audience": POOL_AUDIENCE,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{url}/v1/token",
        "credential_source": {"file": path},
    }
    if impersonates:
        found["service_account_impersonation_url"] = f"{url}{IMPERSONATION}"
    return found


def impersonation_file() -> dict[str, Any]:
    """What `gcloud auth application-default login --impersonate-service-account` writes."""
    return {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": f"https://iamcredentials.googleapis.com{IMPERSONATION}",
        "source_credentials": user_file(),
    }


class Tokens:
    """The access tokens that are valid."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.valid: dict[str, frozenset[str]] = {}
        """The scopes of each token."""
        self.given = 0
        self.asked: list[str] = []
        """The path of each request for a token."""
        self.life_s = 3600
        self.role = True
        """Whether the instance that asks has a service account."""
        self.scopes: tuple[str, ...] = (COMPUTE,)
        """What its tokens are good for."""

    def knows(self, authorization: str) -> bool:
        return authorization.removeprefix("Bearer ") in self.valid

    def scopes_of(self, authorization: str) -> frozenset[str]:
        return self.valid[authorization.removeprefix("Bearer ")]

    def revoke(self) -> None:
        """Every token so far is refused from now on."""
        self.valid.clear()

    def answer(self, verb: str, path: str, headers: Mapping[str, str], sent: bytes) -> Told | None:
        """Status and JSON for a request for a token; None for any other request."""
        if path in TOKEN_PATHS and verb == "POST":
            self.asked.append(path)
            return self._granted(parse_qs(sent.decode()))
        if path == IMPERSONATION and verb == "POST":
            self.asked.append(path)
            return self._impersonated(headers.get("authorization", ""), json.loads(sent))
        if path.startswith(METADATA):
            self.asked.append(path)
            return self._metadata(path.removeprefix(METADATA), headers)
        return None

    def _metadata(self, path: str, headers: Mapping[str, str]) -> Told:
        if headers.get("metadata-flavor") != "Google":
            return 403, {"error": "Missing Metadata-Flavor:Google header."}
        what = path.removeprefix("instance/service-accounts/default/")
        if what == "token" and self.role:
            return 200, self._new(self.scopes)
        if not what and self.role:
            return 200, {"email": ACCOUNT, "scopes": list(self.scopes), "aliases": ["default"]}
        return 404, {"error": "not found"}

    def _granted(self, form: Mapping[str, list[str]]) -> Told:
        match form.get("grant_type"):
            case ["refresh_token"]:
                if form.get("refresh_token") != [REFRESH]:
                    return 400, _no("invalid_grant", "Token has been expired or revoked.")
                return 200, self._new()
            case [grant] if grant == EXCHANGE:
                if form.get("subject_token") != [SUBJECT] or form["audience"] != [POOL_AUDIENCE]:
                    return 400, _no("invalid_grant", "The subject token is not valid.")
                said = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
                return 200, self._new(form["scope"][0].split()) | said
            case [grant] if grant == GRANT:
                return self._claimed(form)
        return 400, _no("unsupported_grant_type", "another grant is needed")

    def _impersonated(self, authorization: str, asked: Mapping[str, Any]) -> Told:
        if not self.knows(authorization):
            return 401, {"error": {"code": 401, "message": "Invalid", "status": "UNAUTHENTICATED"}}
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.life_s))
        token = self._new(asked["scope"])["access_token"]
        return 200, {"accessToken": token, "expireTime": until}

    def _claimed(self, form: Mapping[str, list[str]]) -> Told:
        try:
            claim, said, signature = form["assertion"][0].split(".")
            claims = json.loads(_decoded(said))
            private_key().public_key().verify(
                _decoded(signature),
                f"{claim}.{said}".encode(),
                padding.PKCS1v15(),
                hashes.SHA256(),
            )
        except (KeyError, ValueError, binascii.Error):
            return 400, _no("invalid_request", "the assertion can't be read")
        except InvalidSignature:
            return 400, _no("invalid_grant", "Invalid JWT Signature.")
        now = time.time()
        fine = (
            claims.get("iss") == ACCOUNT
            and claims.get("aud") == AUDIENCE
            and "auth/c" in claims.get("scope", "")
            and claims["iat"] - 60 <= now <= claims["exp"] <= claims["iat"] + 3600
        )
        if not fine:
            return 400, _no("invalid_grant", "Invalid JWT: claims")
        return 200, self._new(claims["scope"].split())

    def _new(self, scopes: Iterable[str] = (COMPUTE,)) -> dict[str, Any]:
        token = f"ya29.{secrets.token_hex(16)}"
        self.valid[token] = frozenset(scopes)
        self.given += 1
        return {"access_token": token, "expires_in": self.life_s, "token_type": "Bearer"}


def _no(code: str, why: str) -> dict[str, str]:
    return {"error": code, "error_description": why}


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
