"""Calls of the Arvados API through arvados-python-client, without retries, with a time-out.

Its errors become ours; no message has a URL, since a ping's query contains its secret.
"""

from __future__ import annotations

import email.utils
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import arvados.api
import arvados.util
import httplib2
from googleapiclient.errors import Error as GoogleError
from googleapiclient.errors import HttpError

from nodemanager.errors import NoFreeSlot, NoSuchRecord, StartError, StoreError, StoreRefused
from nodemanager.lib import foreign, redact
from nodemanager.lib.deadline import Bounded
from nodemanager.lib.hosts import is_loopback

# Refusals for which the same request may succeed later.
_NOT_NOW = frozenset({408, 409, 423, 425, 429})
_MOST_TEXT = 200


@contextmanager
def translated(what: str, *, of_record: bool = False, slot_asked: bool = False) -> Iterator[None]:
    """Translate what the Arvados client raises in the block to StoreError or a subclass.

    `what` names the request in the error's text. With `of_record`, a 404 in the API's own form is
    NoSuchRecord; with `slot_asked`, a 422 whose text mentions slots is NoFreeSlot.
    """
    try:
        yield
    except HttpError as error:
        status, headers = int(error.resp.status), error.resp
        failure = refusal(
            what, status, headers, error.content, of_record=of_record, slot_asked=slot_asked
        )
        raise failure from None
    except (ssl.SSLError, ssl.CertificateError) as error:
        raise StoreError(f"{what}: its certificate is not trusted ({_text(error)})") from None
    except TimeoutError:
        raise StoreError(f"{what}: no answer in time") from None
    except OSError as error:
        raise StoreError(f"{what}: {_text(error)}") from None
    except (httplib2.HttpLib2Error, http.client.HTTPException) as error:
        raise StoreError(f"{what}: {type(error).__name__}: the answer was cut off") from None
    except (GoogleError, ValueError, KeyError, RecursionError) as error:
        failure = StoreError(f"{what}: an answer that is not Arvados' ({type(error).__name__})")
        raise failure from None
    except (TypeError, AttributeError) as error:
        # The client lacks methods and parameters that the discovery document does not declare.
        raise StoreRefused(f"{what}: the server's API lacks it ({_text(error)})") from None


def refusal(
    what: str,
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    *,
    of_record: bool = False,
    slot_asked: bool = False,
) -> StoreError:
    """The error for an answer with `status` 300 or more; see `translated`."""
    said = errors_of(content)
    text = f"{what}: {status}" + (f" {said}" if said else "")
    if status in (401, 403):
        return StoreRefused(f"{text}; [Arvados] token must be a valid administrator's token")
    if status == 404 and of_record and said is not None:
        return NoSuchRecord(text)
    if status == 422 and slot_asked and said is not None and "slot" in said.lower():
        return NoFreeSlot(text)
    if 400 <= status < 500 and status not in {404, *_NOT_NOW} and said is not None:
        return StoreRefused(text)
    if 300 <= status < 500 and status not in _NOT_NOW:
        return StoreError(f"{text}, which is not Arvados' answer; see [Arvados] host")
    return StoreError(text, retry_after=retry_after(headers))


def errors_of(content: bytes) -> str | None:
    """The API's error messages, shortened and without secrets; None for another server's answer."""
    try:
        body = foreign.loads(content)
    except ValueError:
        return None
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list):
        return None
    return redact.text("; ".join(str(error) for error in errors))[:_MOST_TEXT]


def retry_after(headers: Mapping[str, str], wall: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait by a Retry-After header with seconds or a date; None without one."""
    given = str(headers.get("retry-after", "")).strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    until = date_of(given)
    if until is None:
        return None
    server_time = date_of(headers.get("date"))
    return max(0.0, until - (wall() if server_time is None else server_time))


def date_of(header: Any) -> float | None:
    """Whole epoch seconds of an HTTP date; None for any other text."""
    try:
        return email.utils.parsedate_to_datetime(str(header)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _text(error: Exception) -> str:
    said = getattr(error, "strerror", None) or (error.args[-1] if error.args else "")
    return redact.text(str(said or type(error).__name__).partition("\n")[0])[:_MOST_TEXT]


# The HTTP layer of the Arvados client: sends each request once, with a time limit for all of it.


class OneShotHttp(httplib2.Http):  # type: ignore[misc]  # httplib2 has no types
    """An httplib2.Http with a new connection per request, without repeats and redirects.

    `timeout` in seconds limits a request from connect to the last byte. Certificates are checked
    against `ca_file` (PEM) unless `insecure`. The environment's proxies are not used.
    """

    def __init__(self, *, timeout: float, insecure: bool, ca_file: str) -> None:
        super().__init__(
            timeout=timeout,
            ca_certs=ca_file,
            disable_ssl_certificate_validation=insecure,
            proxy_info=None,
        )
        self.follow_redirects = False

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        redirections: int = 0,
        connection_type: Any = None,
    ) -> tuple[httplib2.Response, bytes]:
        kind = _Https if uri.lower().startswith("https:") else _Http
        once = {**(headers or {}), "connection": "close"}
        try:
            answer: tuple[httplib2.Response, bytes] = super().request(
                uri, method, body, once, redirections, kind
            )
            return answer
        finally:
            self.close()


class _Once(Bounded):
    """Mix-in for our two connection classes; a connection lives for one request."""

    def getresponse(self) -> http.client.HTTPResponse:
        try:
            answer: http.client.HTTPResponse = super().getresponse()  # type: ignore[misc]  # as above
        except (http.client.BadStatusLine, http.client.ResponseNotReady) as error:
            # httplib2 takes these two for a stale connection and would send the request again.
            raise ConnectionResetError("the connection ended without an answer") from error
        return answer


class _Http(_Once, httplib2.HTTPConnectionWithTimeout):  # type: ignore[misc]  # no types
    pass


class _Https(_Once, httplib2.HTTPSConnectionWithTimeout):  # type: ignore[misc]  # no types
    pass


_DISCOVERY = "/discovery/v1/apis/arvados/v1/rest"
_SERVICE = "/arvados/v1/"


@dataclass(frozen=True, slots=True)
class ArvadosAnswer:
    """The answer to one call: the JSON object, and the unparsed Date header."""

    body: dict[str, Any]
    date: str | None


class ApiClient:
    """Any resource of an Arvados server, safe to use from many threads.

    Raises only StoreError and its subclasses. `timeout` in seconds limits each request. Requests
    carry the token, so they go only to `base_url`, whatever address the server's own document
    names. `insecure` accepts any certificate, and plain http beyond loopback, which is a StartError
    without it; `ca_file` (PEM) replaces the system's authorities.
    """

    def __init__(
        self, base_url: str, token: str, *, timeout: float, insecure: bool, ca_file: str | None
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "https" and not insecure and not is_loopback(parts.hostname or ""):
            raise StartError("[Arvados] host: plain http is for loopback, or needs insecure = yes")
        self._base = base_url.rstrip("/")
        self.host = urlsplit(self._base).netloc
        self._token = token
        self._timeout = timeout
        self._insecure = insecure
        self._ca_file = ca_file or arvados.util.ca_certs_path()
        # httplib2 is not thread-safe, so each thread has a client of its own.
        self._local = threading.local()

    def methods(self, resource: str) -> dict[str, Any]:
        """The methods of a resource by name, by the document that this thread has; {} for none."""
        return methods_of(self._client()._rootDesc, resource)

    def execute(
        self,
        resource: str,
        method: str,
        parameters: Mapping[str, Any],
        *,
        slot_asked: bool = False,
    ) -> ArvadosAnswer:
        """Call `resource.method` with parameters that the server's document declares."""
        what = f"Arvados {self.host} {resource}.{method}"
        of_record = "uuid" in parameters
        if of_record:
            what += f" {parameters['uuid']}"
        client = self._client()
        seen: dict[str, str | None] = {}
        with translated(what, of_record=of_record, slot_asked=slot_asked):
            request = getattr(getattr(client, resource)(), method)(**parameters)
            request.add_response_callback(lambda answer: seen.update(date=answer.get("date")))
            body = request.execute(num_retries=0)
        if not isinstance(body, dict):
            raise StoreError(f"{what}: the answer is no JSON object; see [Arvados] host")
        return ArvadosAnswer(body, seen.get("date"))

    def is_administrator(self) -> bool | None:
        """Whether the token is an administrator's; None where the server has no users."""
        if "current" not in self.methods("users"):
            return None
        return self.execute("users", "current", {}).body.get("is_admin") is True

    def document(self) -> dict[str, Any]:
        what = f"Arvados {self.host} discovery"
        with translated(what):
            headers, content = self._http().request(self._base + _DISCOVERY)
        status = int(headers.status)
        if status >= 300:
            raise refusal(what, status, headers, content)
        try:
            body = foreign.loads(content)
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("resources"), dict):
            raise StoreError(f"{what}: the answer is no discovery document; see [Arvados] host")
        return body

    @property
    def token(self) -> str:
        """The token that calls send now."""
        return self._token

    def renew(self, token: str) -> None:
        """Send this token with every call that begins from now on."""
        self._token = token
        # A client that a thread makes meanwhile with the former token is not found any more.
        self._local = threading.local()

    def forget(self) -> None:
        self._local.client = None

    def post(self, url: str, form: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
        """Status and body of a POST without a token, as a node sends it."""
        with translated("ping"):
            headers, content = self._http(timeout).request(
                url,
                "POST",
                urlencode(form),
                {"content-type": "application/x-www-form-urlencoded"},
            )
        return int(headers.status), content

    def _client(self) -> Any:
        """This thread's client; its first call reads the discovery document."""
        local = self._local
        client = getattr(local, "client", None)
        if client is None:
            with translated(f"Arvados {self.host} discovery"):
                client = arvados.api.api_client(
                    "v1",
                    self._base + "/discovery/v1/apis/{api}/{apiVersion}/rest",
                    self._token,
                    cache=False,
                    http=self._http(),
                    insecure=self._insecure,
                    num_retries=0,
                    timeout=self._timeout,
                    client_options={"api_endpoint": self._base + _SERVICE},
                )
            local.client = client
        return client

    def _http(self, timeout: float | None = None) -> OneShotHttp:
        seconds = self._timeout if timeout is None else min(timeout, self._timeout)
        return OneShotHttp(timeout=seconds, insecure=self._insecure, ca_file=self._ca_file)


def methods_of(document: Any, resource: str) -> dict[str, Any]:
    """The methods of a resource in a discovery document, by name; {} where it has none such."""
    try:
        methods = document["resources"][resource]["methods"]
    except (KeyError, TypeError):
        return {}
    return methods if isinstance(methods, dict) else {}
