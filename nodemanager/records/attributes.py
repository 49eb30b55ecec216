"""The check of attributes that a client writes to a record, before they reach the database."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Any

from nodemanager.errors import StoreRefused
from nodemanager.lib import foreign
from nodemanager.records import wire
from nodemanager.records.query import plain_text, stored_time
from nodemanager.records.rows import Naming
from nodemanager.records.view import FIELDS

_TEXTS = ("hostname", "domain", "job_uuid")
_TIMES = ("first_ping_at", "last_ping_at")
_OBJECTS = ("properties", "info")
_WRITABLE = frozenset({*_TEXTS, *_TIMES, *_OBJECTS, "uuid", "slot_number", "ip_address"})
_MAX_TEXT = 255
_MAX_SLOT = 2**31 - 1


def writable(attributes: Mapping[str, Any], naming: Naming) -> dict[str, Any]:
    """Column values for `attributes`; raises StoreRefused for an unknown name or a wrong type.

    Ignores attributes that only the server makes (href, etag, status, modified_at ...), since
    clients send back the whole record that they read.
    """
    values: dict[str, Any] = {}
    for name, value in attributes.items():
        if name not in FIELDS:
            raise StoreRefused(f"no attribute {name[:80]!r}")
        if name in _WRITABLE:
            values[name] = _checked(name, value, naming)
    return values


def _checked(name: str, value: Any, naming: Naming) -> Any:
    if name in _OBJECTS:
        return _object(name, value)
    if name == "uuid":
        return _uuid(value, naming)
    if value is None:
        return None
    if name == "slot_number":
        return _slot(value)
    if name in _TIMES:
        nanoseconds = stored_time(name, value)
        if nanoseconds < 0:
            raise StoreRefused(f"{name} is before 1970")
        return nanoseconds
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise StoreRefused(f"{name} must be a text of at most {_MAX_TEXT} characters")
    return _address(value) if name == "ip_address" else plain_text(name, value)


def _object(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise StoreRefused(f"{name} must be an object")
    if foreign.is_deep(value):
        raise StoreRefused(f"{name} is nested deeper than {foreign.DEEPEST}")
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise StoreRefused(f"{name} can't be kept as JSON") from error
    secret = value.get(wire.PING_SECRET)
    if name == "info" and secret is not None and not isinstance(secret, str):
        raise StoreRefused("info.ping_secret must be text")
    return value


def _uuid(value: Any, naming: Naming) -> str:
    pattern = f"{naming.uuid_prefix}-7ekkf-"
    if not isinstance(value, str) or not wire.UUID.fullmatch(value):
        raise StoreRefused(f"uuid must be {pattern} and 15 of a-z and 0-9")
    if not value.startswith(pattern):
        raise StoreRefused(f"uuid must begin with {pattern}")
    return value


def _slot(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_SLOT:
        raise StoreRefused("slot_number must be a whole number from 0 up")
    return value


def _address(value: str) -> str:
    try:
        address = ipaddress.ip_address(value)
    except ValueError as error:
        raise StoreRefused("ip_address is not an address") from error
    if getattr(address, "scope_id", None) is not None:
        raise StoreRefused("ip_address has a scope, which means nothing elsewhere")
    return str(address)
