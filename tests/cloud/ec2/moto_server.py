"""A real EC2 API over HTTP for tests: moto's server, its traps mended, with faults on order.

Mended: a namespace without its trailing slash, errors in a namespace, lists numbered from zero,
SigV2 (which moto takes for another service), the client token (which it ignores), the
answers to tagging and to ending what is terminated, and what outlives an instance (moto_things).
`python -m tests.cloud.ec2.moto_server PORT` serves one in the foreground.
"""

from __future__ import annotations

import functools
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from tests.cloud.ec2 import moto_things
from tests.cloud.ec2 import schema as ec2_schema
from tests.cloud.json_http import CloudServer, Tls, in_foreground

ACCOUNT = "123456789012"
_SLASHLESS = re.compile(rb'xmlns="(http://ec2\.amazonaws\.com/doc/[0-9-]+)"')
_ENDED = re.compile(
    rb"<code>32</code><name>shutting-down</name>(</currentState><previousState>"
    rb"<code>48</code><name>terminated</name>)"
)
_RESERVATIONS = re.compile(rb"<reservationSet>.*</reservationSet>", re.DOTALL)
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


@dataclass(frozen=True)
class Call:
    """One request as it came over the wire; headers by their lower-case names."""

    action: str
    params: dict[str, str]
    method: str
    query: str
    headers: dict[str, str] = field(repr=False)

    @property
    def key_id(self) -> str:
        """The access key that the request was signed with."""
        found = re.search(r"Credential=([^/]+)/", self.headers.get("authorization", ""))
        return found[1] if found else ""


@dataclass
class Reply:
    status: str
    headers: list[tuple[str, str]]
    body: bytes


def refusal(
    code: str, status: int, message: str = "scripted", retry_after: str | None = None
) -> Callable[[], Reply]:
    """An error answer as EC2 words it."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
        f"<Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>0f0f</RequestID></Response>"
    )
    return plain(status, body, retry_after)


def plain(status: int, body: str, retry_after: str | None = None) -> Callable[[], Reply]:
    """Any answer at all."""
    headers = [("Content-Type", "text/xml")]
    if retry_after is not None:
        headers.append(("Retry-After", retry_after))
    return lambda: Reply(f"{status} Scripted", list(headers), body.encode())


def lost(_reply: Reply) -> None:
    """The work is done, and nobody hears of it."""


def truncated(reply: Reply) -> Reply:
    """Half an answer that claims to be whole."""
    return Reply(reply.status, reply.headers, reply.body[: len(reply.body) // 2])


def replaced(old: str, new: str) -> Callable[[Reply], Reply]:
    """The answer with one text in place of another, which must be there."""

    def replace(reply: Reply) -> Reply:
        assert old.encode() in reply.body, f"{old} is not in the answer"
        return Reply(reply.status, reply.headers, reply.body.replace(old.encode(), new.encode()))

    return replace


class Allowance:
    """So many calls a second, as EC2 counts them: a bucket that holds one second's worth."""

    def __init__(self, per_s: float) -> None:
        self._per_s = self._left = per_s
        self._at = time.monotonic()
        self._lock = threading.Lock()

    def takes(self) -> bool:
        """Whether one more call is served."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._per_s, self._left + (now - self._at) * self._per_s)
            self._at = now
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True


class MotoServer(CloudServer):
    """moto's EC2 and STS on a port of loopback, in a thread of this process.

    `calls` is every request so far. `page_limit` is the most reservations on one page,
    whatever MaxResults asks for, as EC2 may do. `tls` is a certificate's and its key's file.
    """

    def __init__(self, port: int = 0, tls: Tls | None = None) -> None:
        # It takes a second to import: not where tests are only collected.
        from tests.cloud.ec2 import moto_app

        serving = moto_app.serving(self._app, port, tls)
        super().__init__(serving, tls=tls)
        self.page_limit: int | None = None
        self.full: dict[str | None, str] = {}
        """By zone or subnet: the code by which it takes no node."""
        self.lists_nothing = False
        """Instances are told of only to who names their ids."""
        self.quota: int | None = None
        """No more instances than that run."""
        self.allowance: Allowance | None = None
        """How many calls are served; without it, all of them."""
        self.spans: list[tuple[str, float, float]] = []
        """Each call that was served: its action, and when it began and ended, time.monotonic."""
        self._tokens: dict[str | None, tuple[dict[str, str], Reply]] = {}
        self._runs = threading.Lock()
        self._moto, self._backends = moto_app.answering()

    def reset(self) -> None:
        """An account without nodes, no faults, nothing recorded."""
        for region in self._regions():
            # moto's own reset makes every backend anew, images and all: a fifth of a second.
            for made in (
                region.reservations,
                region.key_pairs,
                region.volumes,
                region.enis,
                region.addresses,
                region.tags,
            ):
                made.clear()
        self.page_limit = None
        self.full.clear()
        self.lists_nothing = False
        self.quota = self.allowance = None
        self.spans.clear()
        self.start_afresh()
        self._tokens.clear()

    def put(self, node_id: str, state: str) -> None:
        """Bring an instance into that raw state, as EC2 or another hand would."""
        codes = {
            "pending": 0,
            "running": 16,
            "shutting-down": 32,
            "terminated": 48,
            "stopping": 64,
            "stopped": 80,
        }
        for region in self._regions():
            for reservation in region.reservations.values():
                for instance in reservation.instances:
                    if instance.id == node_id:
                        instance._state.name = state
                        instance._state.code = codes[state]
                        return
        raise KeyError(node_id)

    def forget(self, node_id: str) -> None:
        """Let EC2 know nothing of the instance any more, as an hour after its end."""
        for region in self._regions():
            for reservation in list(region.reservations.values()):
                if any(instance.id == node_id for instance in reservation.instances):
                    del region.reservations[reservation.id]

    def _app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        began = time.monotonic()
        call = self._received(environ)
        reply = self._replied(environ, call)
        if reply is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("scripted")
        if reply.status.startswith("200"):
            self.spans.append((call.action, began, time.monotonic()))
        headers = [(n, v) for n, v in reply.headers if n.lower() != "content-length"]
        start_response(reply.status, [*headers, ("Content-Length", str(len(reply.body)))])
        return [reply.body]

    def _replied(self, environ: dict[str, Any], call: Call) -> Reply | None:
        """The answer; None where the connection is cut without one."""
        if self.allowance is not None and not self.allowance.takes():
            return refusal("RequestLimitExceeded", 503, "Request limit exceeded.")()
        if ec2_schema.knows(call.action) and (
            wrong := ec2_schema.wrong_in_request(_from_one(call.params))
        ):
            with self._lock:
                self.wrong += wrong
            return refusal("UnknownParameter", 400, "; ".join(wrong))()

        def work() -> Reply:
            reply = self._work(environ, call)
            if ec2_schema.knows(call.action) and reply.status.startswith("200"):
                with self._lock:
                    self.wrong += ec2_schema.wrong_in_answer(call.action, reply.body)
            return reply

        return cast(Reply | None, self.faulty(call.action, work))

    def _received(self, environ: dict[str, Any]) -> Call:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        sent = environ["wsgi.input"].read(size)
        if len(sent) < size:
            # EC2 would find that the signature does not fit; moto checks none.
            raise ConnectionAbortedError("the request was cut off on its way")
        body = sent.decode()
        query = environ.get("QUERY_STRING", "")
        params = dict(parse_qsl(query, keep_blank_values=True))
        params |= dict(parse_qsl(body, keep_blank_values=True))
        headers = {
            name.removeprefix("HTTP_").lower().replace("_", "-"): str(value)
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        action = params.get("Action", "")
        call = Call(action, params, environ["REQUEST_METHOD"], query, headers)
        with self._lock:
            self.calls.append(call)
        return call

    def _work(self, environ: dict[str, Any], call: Call) -> Reply:
        params = dict(call.params)
        params = _from_one(params)
        if self.page_limit is not None and "MaxResults" in params:
            params["MaxResults"] = str(min(self.page_limit, int(params["MaxResults"])))
        body = urlencode(params).encode()
        environ["REQUEST_METHOD"] = "POST"
        environ["QUERY_STRING"] = ""
        environ["CONTENT_TYPE"] = "application/x-www-form-urlencoded"
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = io.BytesIO(body)
        if (refused := moto_things.refused(self._regions(), params)) is not None:
            return refusal(refused[0], 400, refused[1])()
        if "AWSAccessKeyId" in params:
            environ["HTTP_AUTHORIZATION"] = (
                f"AWS4-HMAC-SHA256 Credential={params['AWSAccessKeyId']}"
                "/20200101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"
            )
        if call.action == "RunInstances":
            return self._once(environ, call)
        return self._asked(environ, call)

    def _refuses(self, params: dict[str, str]) -> str | None:
        """The code that refuses a node in its zone or subnet; None where there is room."""
        wanted = (
            params.get("SubnetId"),
            params.get("NetworkInterface.1.SubnetId"),
            params.get("Placement.AvailabilityZone"),
        )
        return next((self.full[place] for place in wanted if place in self.full), None)

    def _running(self) -> int:
        """How many instances count against the quota."""
        return sum(
            instance._state.name in ("pending", "running")
            for region in self._regions()
            for reservation in region.reservations.values()
            for instance in reservation.instances
        )

    def _regions(self) -> list[Any]:
        return list(self._backends[ACCOUNT].values())

    def _once(self, environ: dict[str, Any], call: Call) -> Reply:
        """EC2 makes one node of one client token; moto ignores it."""
        token = call.params.get("ClientToken")
        with self._runs:
            known = self._tokens.get(token)
            full = self._refuses(call.params)
            if known is None and full is not None:
                return refusal(full, 500 if full.startswith("InsufficientInstance") else 400)()
            if known is not None and known[0] != call.params:
                return refusal("IdempotentParameterMismatch", 400)()
            if known is None and self.quota is not None and self._running() >= self.quota:
                return refusal("InstanceLimitExceeded", 400)()
            reply = known[1] if known is not None else self._asked(environ, call)
            if token is not None and reply.status.startswith("200"):
                self._tokens[token] = (call.params, reply)
        return reply

    def _asked(self, environ: dict[str, Any], call: Call) -> Reply:
        told: list[Any] = []
        answer = self._moto(environ, lambda status, headers, *_: told.extend((status, headers)))
        body = b"".join(answer)
        body = _SLASHLESS.sub(rb'xmlns="\1/"', body)
        if b"<Response xmlns=" in body:
            body = re.sub(rb"<Response xmlns=[^>]*>", b"<Response>", body)
        if self.lists_nothing and _is_list(call):
            body = _RESERVATIONS.sub(b"<reservationSet/>", body)
        if told[0].startswith("200"):
            moto_things.done(self._regions(), call.params, body)
            body = moto_things.page(call.params, body, self.page_limit)
        if call.action == "TerminateInstances":
            body = _ENDED.sub(rb"<code>48</code><name>terminated</name>\1", body)
        if call.action in ("CreateTags", "DeleteTags") and b"<return>" not in body:
            body = body.replace(b"<requestId>", b"<return>true</return><requestId>")
        return Reply(told[0], list(told[1]), body)


def _is_list(call: Call) -> bool:
    """Whether it asks for instances without naming any."""
    return call.action == "DescribeInstances" and not any(
        name.startswith("InstanceId.") for name in call.params
    )


def _from_one(params: dict[str, str]) -> dict[str, str]:
    """EC2 takes lists numbered from zero or one; moto from one alone."""
    lists = {found[1] for name in params if (found := _NUMBERED.match(name)) and found[2] == "0"}

    def mended(name: str) -> str:
        found = _NUMBERED.match(name)
        if found is None or found[1] not in lists:
            return name
        return f"{found[1]}.{int(found[2]) + 1}{name[found.end() :]}"

    return {mended(name): value for name, value in params.items()}


@functools.cache
def shared() -> MotoServer:
    """One server for all tests of this process: it takes a second to start."""
    return MotoServer().start()


if __name__ == "__main__":
    in_foreground(MotoServer)
