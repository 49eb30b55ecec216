"""The JSON format of the `nodes` resource.

Both the Arvados adapter (over HTTP) and the SQL store (row by row) read records with it, so that a
record means the same in both. Our own data is in `properties`, where pings change only `total_*`,
and in `info`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote

from nodemanager.core.model.worker_words import FAIL, words_of, worker_state
from nodemanager.core.model.world import Claim, CloudNotice, Listed, Record, Taking, WorkerState
from nodemanager.errors import StoreRefused
from nodemanager.lib import foreign

POOL = "nodemanager_pool"
CLAIM = "nodemanager_claim"
CLOUD_NODE = "cloud_node"
"""The property for the size and price of the record's node, as in Arvados Node Manager."""
HOLD = "nodemanager_hold"
PING_SECRET = "ping_secret"  # noqa: S105 - a key's name
FENCED_SECRET = "fenced_ping_secret"  # noqa: S105 - a key's name
"""The key of info that holds the node's own secret while there is a fence."""
INSTANCE_ID = "ec2_instance_id"
WORKER_STATE = "worker_state"
LAST_ACTION = "last_action"
DRAIN_HOOK = "drain_hook"
DRAIN_ORDER = "drain_order"
"""The key of info for the drain order that the node reports as carried out (D12)."""
DRAINED = "drained"
NOTHING_HELD: Mapping[str, None] = dict.fromkeys(
    ("slot_number", "hostname", "ip_address", "first_ping_at", "last_ping_at")
)
"""The fields that a clean empties, beside those in properties and info (C12)."""
STATE = (WORKER_STATE, DRAIN_HOOK, DRAIN_ORDER)
"""The keys of info for a node's own state, which each ping reports."""
NOTICE = "notice"
NOTICE_AT = "notice_at"
"""The keys of info for why and when the cloud will take the node, as its pings say (D18)."""
WORDS = (*STATE, NOTICE, NOTICE_AT)
"""All keys of info that a node's pings report of this life of it."""
UUID = re.compile(r"[a-z0-9]{5}-7ekkf-[a-z0-9]{15}")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")
_LONGEST_WINDOW_S = 1e9
_END_OF_TIME = 253_402_300_800.0
"""The year 10,000: nothing can show a later time."""
_CLAIM = tuple(one.name for one in fields(Claim))
_INCARNATION = re.compile(r"[0-9a-f]{32}")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Unreadable(ValueError):
    """An item without a readable uuid, so that the listing is incomplete (L2)."""


def epoch(nanoseconds: int) -> float:
    """Epoch seconds of whole nanoseconds: the nearest float, which dividing by 1e9 may miss."""
    return nanoseconds / 1_000_000_000


def stamp_ns(nanoseconds: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ` of whole nanoseconds since the epoch."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest:09d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return f"{_EPOCH + datetime.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


def stamp(seconds: float) -> str:
    """The time stamp of epoch seconds, to the microsecond, which is a float's precision."""
    return stamp_ns(round(seconds * 1e6) * 1000)


def parse_stamp_ns(text: object) -> int:
    """Whole nanoseconds since the epoch; raises ValueError for anything but a UTC time stamp."""
    match = _STAMP.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("is not a time like 2020-01-31T23:59:59.000000000Z")
    return _whole_s(match[1]) * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))


@lru_cache(maxsize=1024)
def _whole_s(text: str) -> int:
    """Whole epoch seconds of `YYYY-MM-DDTHH:MM:SS`; raises ValueError for an impossible time."""
    moment = datetime.datetime.fromisoformat(f"{text}+00:00")
    return (moment - _EPOCH) // datetime.timedelta(seconds=1)


def parse_stamp(text: object) -> float:
    """Epoch seconds; raises ValueError for anything but a UTC time stamp."""
    return epoch(parse_stamp_ns(text))


def nobody(prefix: str) -> str:
    """The uuid of no record, for a probe."""
    return f"{prefix}-7ekkf-{'0' * 15}"


def ping_path(base: str, uuid: str) -> str:
    """The URL for a record's pings, without a secret, on the server at `base`."""
    return f"{base.rstrip('/')}/arvados/v1/nodes/{uuid}/ping"


def ping_url(base: str, record: Record) -> str:
    """The URL that the record's node pings. Raises StoreRefused for a record without a secret."""
    if record.ping_secret is None:
        raise StoreRefused(f"record {record.uuid} is not claimed, so it has no ping secret")
    return f"{ping_path(base, record.uuid)}?ping_secret={quote(record.ping_secret, safe='')}"


def without_word(info: Mapping[str, Any]) -> dict[str, Any]:
    """`info` without the states that a node reported, for the record's next life."""
    return {key: value for key, value in info.items() if key not in WORDS}


def claim_json(claim: Claim) -> dict[str, Any]:
    """The JSON of `properties.nodemanager_claim`; `at` is epoch seconds, so that it is exact."""
    return {name: said for name in _CLAIM if (said := getattr(claim, name)) is not None}


def claimed(properties: Mapping[str, Any], claim: Claim) -> dict[str, Any]:
    with_claim = {**properties, POOL: claim.pool, CLAIM: claim_json(claim)}
    if claim.size is not None:
        with_claim[CLOUD_NODE] = {"size": claim.size, "price": claim.price}
    return with_claim


def refuse_unfit(held: Record, claim: Claim, *, renewed: bool) -> None:
    """Raise StoreRefused where the record can't take the claim (T3, U3)."""
    if held.problems:
        raise StoreRefused(f"record {held.uuid} can't be read: {held.problems[0]}")
    if held.pool not in (None, claim.pool):
        raise StoreRefused(f"record {held.uuid} belongs to pool {held.pool} (T3)")
    if held.holds_anything and not renewed:
        raise StoreRefused(f"record {held.uuid} still holds something: clean it first (U3)")


def checked_claim(value: object) -> dict[str, Any]:
    """A claim's JSON, checked; raises ValueError with what is wrong."""
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    for key in ("pool", "manager", "node_name", "incarnation"):
        if not isinstance(value.get(key), str):
            raise ValueError(f"has no text under {key}")
    if not _INCARNATION.fullmatch(value["incarnation"]):
        raise ValueError("has an incarnation that is not 32 hex digits")
    token, at = value.get("token"), value.get("at")
    if not isinstance(token, int) or isinstance(token, bool):
        raise ValueError("has no whole number under token")
    if not isinstance(at, int | float) or isinstance(at, bool) or not 0 <= at < 1e11:
        raise ValueError("has no epoch seconds under at")
    _check_newer_keys(value)
    return value


def _check_newer_keys(claim: Mapping[str, Any]) -> None:
    """Raise ValueError for an optional key with a wrong value."""
    for key in ("size", "node_id", "image", "instance_type"):
        if not isinstance(claim.get(key), str | None):
            raise ValueError(f"has no text under {key}")
    price, window = claim.get("price"), claim.get("window")
    if price is not None and not (type(price) in (int, float) and 0 <= price < 1e9):
        raise ValueError("has no price under price")
    if window is not None and not _is_window(window):
        raise ValueError("has no seconds under window")


def parse_claim(value: object) -> Claim:
    """The claim; raises ValueError with what is wrong."""
    said = checked_claim(value)
    given: dict[str, Any] = {name: said.get(name) for name in _CLAIM}
    if given["window"] is not None:
        given["window"] = float(given["window"])
    return Claim(**given | {"node_id": given["node_id"] or None})


def _is_window(value: object) -> bool:
    """Whether `value` is a plausible claim window in seconds: above 0 and not too long."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < cast("float", value) <= _LONGEST_WINDOW_S


def collect(parse_one: Callable[[Any], Record], items: Iterable[Any]) -> Listed[Record]:
    """Read each item of a listing with `parse_one` and collect the problems.

    An item without a readable uuid, or with a repeated one, makes the listing incomplete (L2).
    """
    records: dict[str, Record] = {}
    problems: list[str] = []
    complete = True
    for number, item in enumerate(items):
        try:
            record = parse_one(item)
        except Exception as problem:
            # Not by Unreadable alone: whatever one item says, the others are listed.
            what = "" if isinstance(problem, Unreadable) else f"{type(problem).__name__}: "
            problems.append(f"item {number}: {what}{problem}")
            complete = False
            continue
        if record.uuid in records:
            problems.append(f"{record.uuid}: listed twice")
            complete = False
            continue
        records[record.uuid] = record
        if record.problems:
            problems.extend(f"{record.uuid}: {line}" for line in record.problems)
    return Listed(tuple(records.values()), complete, tuple(problems))


def read(fields: Mapping[str, Any], *, version: str, when: Callable[[Any], float]) -> Record:
    """The record of `fields`, which have the API's names; `when` reads one of their times."""
    uuid = fields.get("uuid")
    if not isinstance(uuid, str) or not UUID.fullmatch(uuid):
        raise Unreadable("its uuid can't be read")
    seen = _Fields(fields, when)
    properties = seen.mapping("properties")
    info = seen.mapping("info")
    pool = seen.text_in("properties", properties, POOL)
    claim = seen.claim(properties)
    if claim is not None and pool is not None and pool != claim.pool:
        seen.problems.append(f"properties.{POOL} and its claim name different pools")
    said = seen.text_in("info", info, WORKER_STATE)
    drained = seen.text_in("info", info, DRAIN_ORDER) if said == DRAINED else None
    derived = fields.get("crunch_worker_state")
    slot, first, last = seen.slot(), seen.time("first_ping_at"), seen.time("last_ping_at")
    hostname, address = seen.text("hostname"), seen.text("ip_address")
    modified = seen.time("modified_at", needed=True)
    instance = seen.text_in("info", info, INSTANCE_ID)
    secret = seen.text_in("info", info, PING_SECRET)
    drain = seen.text("drain") if "drain" in fields else None
    if not version:
        seen.problems.append("it has no version to write by")
    return Record(
        uuid=uuid,
        version=version,
        slot_number=slot,
        hostname=hostname,
        ip_address=address,
        first_ping_at=first,
        last_ping_at=last,
        modified_at=modified,
        worker_state=_said_state(said, drained),
        derived_state=_derived(derived),
        instance_id=(claim.node_id if claim is not None else None) or instance or None,
        pool=pool if pool is not None or claim is None else claim.pool,
        claim=claim,
        held=bool(properties.get(HOLD)),
        properties=properties,
        info=info,
        ping_secret=secret or None,
        problems=tuple(seen.problems),
        fenced=bool(info.get(FENCED_SECRET)),
        failed=said is not None and _has_failed(said),
        drain=drain,
        drained=drained,
        drain_hook=info.get(DRAIN_HOOK) is True,
        notice=notice_of(info),
    )


def notice_of(info: Mapping[str, Any]) -> CloudNotice | None:
    """The notice that pings have put into `info`; what somebody else has written there is none."""
    if NOTICE not in info:
        return None
    try:
        at = info.get(NOTICE_AT)
        return CloudNotice(Taking(info[NOTICE]), None if at is None else parse_stamp(at))
    except ValueError:
        return None


def _said_state(said: str | None, drained: str | None) -> WorkerState | None:
    # Drained by our order, it is idle and takes no work; by another's order, we don't know.
    if drained:
        return WorkerState.IDLE
    return worker_state(words_of(said)) if said else None


def _has_failed(said: str) -> bool:
    words = words_of(said)
    return FAIL in words and worker_state(words) is WorkerState.DOWN


def _derived(raw: object) -> WorkerState:
    """The state that the API derives; its `down` only means that it has no information (T6)."""
    if raw in (WorkerState.BUSY, WorkerState.IDLE):
        return WorkerState(str(raw))
    return WorkerState.UNKNOWN


class _Fields:
    """Reads one item's fields and collects their problems."""

    def __init__(self, fields: Mapping[str, Any], when: Callable[[Any], float]) -> None:
        self._fields = fields
        self._when = when
        self.problems: list[str] = []

    def _get(self, name: str) -> Any:
        value = self._fields.get(name)
        if value is None and name not in self._fields:
            self.problems.append(f"{name} is missing")
        return value

    def slot(self) -> int | None:
        value = self._get("slot_number")
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.problems.append("slot_number is not a whole number from 0 up")
            return None
        return value

    def text(self, name: str) -> str | None:
        value = self._get(name)
        if value is not None and not (isinstance(value, str) and foreign.is_text(value)):
            self.problems.append(f"{name} is not text")
            return None
        return value

    def time(self, name: str, *, needed: bool = False) -> float | None:
        value = self._get(name)
        if value is None:
            if needed and name in self._fields:
                self.problems.append(f"{name} is empty")
            return None
        try:
            found = self._when(value)
            if 0 <= found < _END_OF_TIME:
                return found
        except (ValueError, TypeError, OverflowError):
            pass
        self.problems.append(f"{name} is not a time")
        return None

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problems.append(f"{name} is not an object")
            return {}
        if foreign.is_deep(value):
            self.problems.append(f"{name} is nested too deep")
            return {}
        return value

    def text_in(self, name: str, inside: Mapping[str, Any], key: str) -> str | None:
        value = inside.get(key)
        if value is not None and not (isinstance(value, str) and foreign.is_text(value)):
            self.problems.append(f"{name}.{key} is not text")
            return None
        return value

    def claim(self, properties: Mapping[str, Any]) -> Claim | None:
        value = properties.get(CLAIM)
        if value is None:
            return None
        try:
            return parse_claim(value)
        except ValueError as problem:
            self.problems.append(f"properties.{CLAIM} {problem}")
            return None
