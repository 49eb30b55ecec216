"""Tests of a host's name or address for who can reach it."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether a server on `host` listens on every address."""
    return host in ("", "*", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
