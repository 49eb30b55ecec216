"""The registry's HTTP server, on a port of its own."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.errors import StartError
from nodemanager.httpserver.connections import limits_of
from nodemanager.httpserver.refusals import Refusals
from nodemanager.httpserver.server import AsgiApp, HttpServer
from nodemanager.registry.app import NAME
from nodemanager.registry.params import most_of


def registry_server(
    app: AsgiApp,
    host: str = "127.0.0.1",
    port: int = 0,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    refusals: Refusals | None = None,
) -> HttpServer:
    """A server for `build_app`'s application, not yet started; port 0 takes a free one.

    With `tls_cert` and `tls_key` (PEM files) it speaks only TLS. `refusals` counts its refused
    requests, together with the application's. Raises StartError.
    """
    if tls_cert is None and tls_key is not None:
        raise StartError(f"tls_key is {tls_key}, but tls_cert is not set: give both or neither")
    return HttpServer(
        app,
        host,
        port,
        option="[Registry] listen",
        tls_cert=tls_cert,
        tls_key=tls_key,
        name=NAME,
        limits=replace(limits_of(1 / 3), body_at=most_of),
        refusals=refusals,
    )
