"""The reading of a ping's parameters, the check against its row, and the resulting columns.

Pure functions of a row, so that one transaction can handle many pings.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from nodemanager.core.model.world import Taking
from nodemanager.errors import StoreRefused
from nodemanager.records import rows, wire
from nodemanager.records.view import view

_TOTALS = ("total_cpu_cores", "total_ram_mb", "total_scratch_mb")
_LEADING_NUMBER = re.compile(r"\s*(\d{1,15})")
_INSTANCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]*")
"""The form of every cloud's node ids; only the cloud itself can say whether an id is valid."""
_MAX_WORD = 255
_NO_NOTICE = "none"


class WrongSecret(StoreRefused):
    """A ping without the record's secret."""


class WrongInstance(StoreRefused):
    """A ping with the record's secret that names another node than the record's own (P1a)."""


@dataclass(frozen=True, slots=True)
class Ping:
    """One ping as received: the record's uuid, the parameters, the caller's address."""

    uuid: str
    params: Mapping[str, Any]
    caller: str


@dataclass(frozen=True, slots=True)
class Pinged:
    """The result of a ping. `taken_from` lists the records that lost their address to this one."""

    node: dict[str, Any]
    taken_from: tuple[str, ...] = ()


class SaidNotice(NamedTuple):
    """What a ping says of the cloud's taking its node (D18).

    `why` is None where it says nothing that can be read, `at` a stamp, and `problem` what can't be.
    """

    why: str | None = None
    at: str | None = None
    problem: str | None = None


def columns_of(row: rows.Row, ping: Ping) -> dict[str, Any]:
    """The columns that the ping writes, without its time, address and slot.

    Raises WrongSecret, WrongInstance, and StoreRefused for malformed parameters.
    """
    properties, info = rows.objects(row)
    _check_secret(info, word(ping.params, "ping_secret"))
    _say(properties, info, ping.params)
    return {"info": info, "properties": properties}


def is_first(row: rows.Row) -> bool:
    """Whether a ping may give the row an address or a slot, which may affect other rows."""
    return row["ip_address"] is None or not row["slot_number"]


def answer_to(row: rows.Row, now_ns: int) -> dict[str, Any]:
    """The answer to a ping: the drain order, then the record's view (D12).

    `drain` comes first, so that a shell script finds it at the start of the answer.
    """
    order = row["drain"]
    return {"drain": order is not None, "drain_order": order, **view(row, now_ns)}


def address_of(ping: Ping) -> str:
    """The address that the ping names, or else the caller's."""
    text = word(ping.params, "local_ipv4") or ping.caller
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError as error:
        raise StoreRefused("local_ipv4 is not an address") from error
    if getattr(address, "scope_id", None) is not None:
        # A scope is a name on the node's own machine, and may be any text.
        raise StoreRefused("local_ipv4 is an address with a scope")
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def address_or_caller(ping: Ping) -> str:
    """The same; the caller's where the ping names none that can be used."""
    try:
        return address_of(ping)
    except StoreRefused:
        return ping.caller


def said_of_notice(params: Mapping[str, Any]) -> SaidNotice:
    """What the ping says of the cloud's taking its node."""
    if not params.get("notice"):
        return SaidNotice()
    why = (word_or_none(params, "notice") or "").strip().lower()
    if why not in (_NO_NOTICE, *Taking):
        return SaidNotice(problem="notice is not none, spot or maintenance")
    if why == _NO_NOTICE or not params.get("notice_at"):
        return SaidNotice(why)
    at = _moment(word_or_none(params, "notice_at") or "")
    return SaidNotice(why, at) if at else SaidNotice(why, problem="notice_at is not a time")


def _moment(text: str) -> str | None:
    """The stamp of a time in one of the forms in which clouds write it (RFC 3339 and 5322)."""
    try:
        return wire.stamp(wire.parse_stamp(text))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
        return wire.stamp(moment.timestamp()) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _check_secret(info: Mapping[str, Any], given: str | None) -> None:
    if not given:
        raise StoreRefused("a ping needs its ping_secret")
    secret = info.get(wire.PING_SECRET)
    known = secret if isinstance(secret, str) else ""
    if not known or not hmac.compare_digest(_bytes(known), _bytes(given)):
        raise WrongSecret("this is not the record's ping_secret")


def _say(properties: dict[str, Any], info: dict[str, Any], params: Mapping[str, Any]) -> None:
    """Put a ping's parameters into info and properties; keeps our own keys there."""
    _say_whose(properties, info, params)
    for key in wire.STATE:
        info.pop(key, None)
    say_notice(info, params)
    state = (word(params, "worker_state") or "").strip().lower()
    if state:
        info[wire.WORKER_STATE] = state
    order = word(params, "drain_order")
    if order and state == wire.DRAINED:
        info[wire.DRAIN_ORDER] = order
    if (word(params, "drain_hook") or "").strip().lower() == "yes":
        info[wire.DRAIN_HOOK] = True
    for name in _TOTALS:
        total = word(params, name)
        number = _LEADING_NUMBER.match(total) if total else None
        if number is None:
            properties.pop(name, None)
        else:
            properties[name] = int(number[1])


def say_notice(info: dict[str, Any], params: Mapping[str, Any]) -> None:
    """Put in what the node read of the cloud's taking it.

    A ping that tells nothing of it, or nothing that can be read, changes nothing: the node may not
    have got an answer (D18).
    """
    said = said_of_notice(params)
    if said.why is None:
        return
    for key in (wire.NOTICE, wire.NOTICE_AT):
        info.pop(key, None)
    if said.why != _NO_NOTICE:
        info[wire.NOTICE] = said.why
    if said.at is not None:
        info[wire.NOTICE_AT] = said.at


def _say_whose(properties: dict[str, Any], info: dict[str, Any], params: Mapping[str, Any]) -> None:
    own = rows.own_node(properties)
    if own is not None:
        # The claim decides which node it is, whatever pings or clients have written.
        info[wire.INSTANCE_ID] = own
    instance = word(params, "instance_id") or word(params, "ec2_instance_id")
    if not instance:
        return
    if not _INSTANCE.fullmatch(instance):
        raise WrongInstance("instance_id has not the form of a node's id")
    known = info.setdefault(wire.INSTANCE_ID, None)
    if known is not None and known != instance:
        raise WrongInstance("this record belongs to another instance_id")
    info[wire.INSTANCE_ID] = instance


def word(params: Mapping[str, Any], name: str) -> str | None:
    """A parameter as text; in a JSON body it may be a number."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        text = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
    else:
        raise StoreRefused(f"{name} must be text")
    if len(text) > _MAX_WORD or not text.isprintable():
        raise StoreRefused(f"{name} is not a plain short text")
    return text


def word_or_none(params: Mapping[str, Any], name: str) -> str | None:
    """A parameter as text; None for an unusable value."""
    try:
        return word(params, name)
    except StoreRefused:
        return None


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
