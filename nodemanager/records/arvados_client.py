"""Calls of the Arvados API through arvados-python-client, without retries, with a time-out."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import arvados.api
import arvados.util

from nodemanager.errors import StoreError, StoreRefused
from nodemanager.records.arvados_errors import refusal, translated
from nodemanager.records.arvados_http import OneShotHttp

_DISCOVERY = "/discovery/v1/apis/arvados/v1/rest"
_SERVICE = "/arvados/v1/"
NO_RESOURCE = (
    "this Arvados server has no `nodes` resource (3.0 removed it); keep the records in the"
    " registry instead: [Records] provider = registry"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call: the JSON object, and the unparsed Date header."""

    body: dict[str, Any]
    date: str | None


class ArvadosClient:
    """The calls that the record store needs, safe to use from many threads.

    Raises only StoreError and its subclasses. `timeout` in seconds limits each request. Requests
    carry the token, so they go only to `base_url`, whatever address the server's own document
    names.
    """

    def __init__(
        self, base_url: str, token: str, *, timeout: float, insecure: bool, ca_file: str | None
    ) -> None:
        self._base = base_url.rstrip("/")
        self._host = urlsplit(self._base).netloc
        self._token = token
        self._timeout = timeout
        self._insecure = insecure
        self._ca_file = ca_file or arvados.util.ca_certs_path()
        # httplib2 is not thread-safe, so each thread has a client of its own.
        self._local = threading.local()

    def call(self, method: str, *, slot_asked: bool = False, **parameters: Any) -> Answer:
        """Call `nodes.METHOD`; drops `count` where the server does not know it."""
        what = f"Arvados {self._host} nodes.{method}"
        if "uuid" in parameters:
            what += f" {parameters['uuid']}"
        client = self._client()
        declared = _methods(client._rootDesc).get(method, {}).get("parameters", {})
        if "count" not in declared:
            parameters.pop("count", None)
        if slot_asked:
            parameters["assign_slot"] = True
        return self._execute(client.nodes, method, parameters, what, slot_asked=slot_asked)

    def is_administrator(self) -> bool | None:
        """Whether the token is an administrator's; None where the server has no users."""
        client = self._client()
        if "users" not in client._rootDesc.get("resources", {}):
            return None
        what = f"Arvados {self._host} users.current"
        return self._execute(client.users, "current", {}, what).body.get("is_admin") is True

    def document(self) -> dict[str, Any]:
        """The current discovery document."""
        what = f"Arvados {self._host} discovery"
        with translated(what):
            headers, content = self._http().request(self._base + _DISCOVERY)
        status = int(headers.status)
        if status >= 300:
            raise refusal(what, status, headers, content)
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("resources"), dict):
            raise StoreError(f"{what}: the answer is no discovery document; see [Arvados] host")
        if not _methods(body):
            raise StoreRefused(f"{what}: {NO_RESOURCE}")
        return body

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

    def _execute(
        self,
        resource: Any,
        method: str,
        parameters: Mapping[str, Any],
        what: str,
        *,
        slot_asked: bool = False,
    ) -> Answer:
        seen: dict[str, str | None] = {}
        of_record = "uuid" in parameters
        with translated(what, of_record=of_record, slot_asked=slot_asked):
            request = getattr(resource(), method)(**parameters)
            request.add_response_callback(lambda answer: seen.update(date=answer.get("date")))
            body = request.execute(num_retries=0)
        if not isinstance(body, dict):
            raise StoreError(f"{what}: the answer is no JSON object; see [Arvados] host")
        return Answer(body, seen.get("date"))

    def _client(self) -> Any:
        """This thread's client; its first call reads the discovery document."""
        client = getattr(self._local, "client", None)
        if client is None:
            with translated(f"Arvados {self._host} discovery"):
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
            if not _methods(client._rootDesc):
                raise StoreRefused(f"Arvados {self._host}: {NO_RESOURCE}")
            self._local.client = client
        return client

    def _http(self, timeout: float | None = None) -> OneShotHttp:
        seconds = self._timeout if timeout is None else min(timeout, self._timeout)
        return OneShotHttp(timeout=seconds, insecure=self._insecure, ca_file=self._ca_file)


def _methods(document: Any) -> dict[str, Any]:
    """The methods of the `nodes` resource by name; empty where the server has no such resource."""
    try:
        methods = document["resources"]["nodes"]["methods"]
    except (KeyError, TypeError):
        return {}
    return methods if isinstance(methods, dict) else {}
