"""Whether the URL that nodes ping can be reached, as far as that can be told from here."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from nodemanager.cloud.checks import Check, CheckStatus, Found
from nodemanager.config import Config, StoreProvider
from nodemanager.config.providers import traits_of
from nodemanager.lib.hosts import is_loopback, is_wildcard
from nodemanager.records import wire

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class _Target:
    """Where nodes ping; `option` sets it. `ours` says that the daemon itself listens there."""

    url: str
    option: str
    ours: bool


def checks(config: Config) -> list[Check]:
    """Two checks: the address as such, and what answers there."""
    target = _target(config)
    if target is None:
        why = "a running daemon takes a free port ([Registry] listen, port 0)"
        return [Check("ping URL", lambda: Found(why, CheckStatus.NOT_ASKED))]
    near = traits_of(config.cloud.provider).near
    trust = str(config.daemon.certs_file) if config.daemon.certs_file else True
    return [
        Check("ping address", lambda: _address(target, near, config.cloud.provider)),
        Check("ping answer", lambda: _answer(target, trust)),
    ]


def url_of(config: Config) -> str:
    """Where nodes ping, for people."""
    target = _target(config)
    return "[Registry] listen" if target is None else target.url


def _target(config: Config) -> _Target | None:
    if config.records.provider is StoreProvider.SLURM:
        return None
    listen = config.registry.listen
    arvados = config.records.provider is StoreProvider.ARVADOS
    if config.pinged is not None:
        own = config.ping_host is None
        option = "[Registry] public_url" if own else "[Cloud Create] ping_host"
        url = config.pinged.url
        return _Target(url, option, ours=not arvados and listen is not None)
    if arvados:
        server = config.arvados.host
        return None if server is None else _Target(server.url, "[Arvados] host", False)
    if listen is None or listen.port == 0:
        return None
    scheme = "https" if config.registry.tls_cert else "http"
    host = "127.0.0.1" if is_wildcard(listen.host) else listen.host
    shown = f"[{host}]" if ":" in host else host
    return _Target(f"{scheme}://{shown}:{listen.port}", "[Registry] listen", True)


def _address(target: _Target, near: bool, provider: str) -> Found:
    parts = urlsplit(target.url)
    host = parts.hostname or ""
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Found(
            f"{host} does not resolve here: {error.strerror or error}",
            CheckStatus.FAILED,
            f"correct {target.option}; nodes must resolve it, too",
        )
    addresses = sorted({str(one[4][0]) for one in found})
    shown = f"{target.url} ({', '.join(addresses)})"
    if all(is_loopback(one) for one in addresses):
        if near:
            return Found(f"{shown}: this machine's own, as its nodes are")
        return Found(
            f"{shown} is this machine's loopback: no node of {provider} can reach it",
            CheckStatus.FAILED,
            "set [Cloud Create] ping_host to an address that nodes reach",
        )
    if all(ipaddress.ip_address(one.partition("%")[0]).is_private for one in addresses):
        return Found(f"{shown}: a private address, so nodes must be in its network")
    return Found(shown)


def _answer(target: _Target, trust: str | bool) -> Found:
    """Ping an impossible uuid, as the daemon's own probe does (D8)."""
    try:
        with requests.Session() as session:
            # The environment's proxies are this machine's, not the nodes'.
            session.trust_env = False
            answer = session.post(
                wire.ping_path(target.url, wire.nobody("zzzzz")),
                data={"ping_secret": "probe"},
                timeout=TIMEOUT_S,
                verify=trust,
                allow_redirects=False,
            )
    except requests.exceptions.SSLError as error:
        return Found(
            f"its certificate is not trusted: {_plain(error)}",
            CheckStatus.FAILED,
            "give it a certificate that nodes trust (here: [Daemon] certs_file)",
        )
    except requests.RequestException as error:
        return _unreachable(target, error)
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.status_code >= 500 or not isinstance(body, dict) or "errors" not in body:
        return Found(
            f"HTTP {answer.status_code}, which is no answer of a record API",
            CheckStatus.FAILED,
            f"{target.option} must lead to the registry or the Arvados server",
        )
    secure = "its certificate is trusted, and it" if target.url.startswith("https") else "it"
    return Found(f"{secure} answers as a record API does")


def _unreachable(target: _Target, error: requests.RequestException) -> Found:
    if isinstance(error, requests.exceptions.Timeout):
        text = f"no answer within {TIMEOUT_S:g} s"
    else:
        text = "no connection: " + _plain(error)
    if target.ours:
        return Found(
            text,
            CheckStatus.WARNING,
            "the daemon serves it when it runs: check again then, or try with --boot. If it runs, "
            f"the port is closed on the way: see {target.option} and firewalls",
        )
    return Found(text, CheckStatus.FAILED, f"start that server, or correct {target.option}")


def _plain(error: Exception) -> str:
    """The innermost reason of requests' nested errors."""
    reason: BaseException = error
    while reason.args and isinstance(reason.args[0], BaseException):
        reason = reason.args[0]
    text = str(getattr(reason, "reason", None) or reason)
    # What stands before it is urllib3's connection, or its words for the same.
    return text.rpartition(": ")[2][:200]
