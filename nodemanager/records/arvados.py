"""The record store on an Arvados server that has the `nodes` resource (2.x and before).

Its API has no conditional writes. So every write here reads the record first, writes, and reads it
back.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any

from nodemanager import errors
from nodemanager.arvados_api.client import ApiClient, date_of, errors_of
from nodemanager.core.model.world import Claim, Guarantee, LatePing, Listed, Record, StoreTime
from nodemanager.lib.clock import Clock
from nodemanager.records import arvados_client, wire

_JUDGED = (
    "slot_number",
    "hostname",
    "ip_address",
    "first_ping_at",
    "last_ping_at",
    "modified_at",
    "properties",
    "info",
)
_ENCODE = json.JSONEncoder(sort_keys=True).encode
_DATE_STEP_S = 1.0
_PROBE_TIMEOUT_S = 5.0
_CREATED_WITHIN_S = 86400.0
_PREFIX = re.compile(r"[a-z0-9]{5}")


class ArvadosRecordStore:
    """The `nodes` resource at `base_url` (scheme, host, port) as a record store.

    `token` must be an administrator's. `timeout` in seconds limits each request; a listing needs
    one request per thousand records and one more, a write three. `insecure` accepts any
    certificate, and plain http beyond loopback; `ca_file` (PEM) replaces the system's authorities.
    `slots` is the number of the server's slots, which it does not tell. `ping_url` is the address
    that nodes use, `base_url` where it is None. Raises StartError for plain http that is not
    allowed.
    """

    provider = "arvados"
    guarantee = Guarantee.FENCED
    may_authorise = True
    tells_drain = False

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float,
        insecure: bool,
        slots: int | None,
        ping_url: str | None,
        ca_file: str | None,
        clock: Clock,
    ) -> None:
        self.settle_wait = timeout
        self._ping_base = ping_url or base_url
        self._slots = slots
        self._timeout = timeout
        self._clock = clock
        self._prefix = "zzzzz"
        self._known_administrator: str | None = None
        """The token that the server has called an administrator's."""
        api = ApiClient(base_url, token, timeout=timeout, insecure=insecure, ca_file=ca_file)
        self._client = arvados_client.ArvadosClient(api)

    def renew(self, token: str) -> None:
        """Send this token, of the same server, with every call that begins from now on."""
        self._client.renew(token)

    def store_id(self) -> str:
        """Our registry's own id where its document has one, else the cluster's uuid prefix."""
        document = self._client.document()
        prefix, own = document.get("uuidPrefix"), document.get("nodemanagerStoreId")
        if isinstance(prefix, str) and _PREFIX.fullmatch(prefix):
            self._prefix = prefix
        elif not own:
            raise errors.StoreError(
                "Arvados discovery: the document has no uuidPrefix to identify it by"
            )
        return str(own) if own else f"arvados-{prefix}"

    def slots(self) -> int | None:
        return self._slots

    def store_time(self, *, writes: bool = True) -> StoreTime:
        """The store's clock, from the Date header: the middle of the second that it names.

        Never writes, even where `writes` allows it.
        """
        before = self._clock.boottime()
        date = date_of(self._client.call("list", limit=0, count="none").date)
        after = self._clock.boottime()
        if date is None:
            raise errors.StoreError(
                "Arvados nodes.list: the answer has no Date header to read a clock from"
            )
        error_s = (after - before + _DATE_STEP_S) / 2
        return StoreTime(date + _DATE_STEP_S / 2, (before + after) / 2, error_s)

    def list_records(self) -> Listed[Record]:
        token, pages = self._client.token, arvados_client.Pages(self._client)
        listed = wire.collect(_record, pages)
        if not listed.items or self._known_administrator != token:
            arvados_client.ask_for_administrator(self._client)
            self._known_administrator = token
        problems = (*pages.problems, *listed.problems)
        return Listed(listed.items, listed.complete and not pages.problems, problems)

    def read(self, uuid: str) -> Record | None:
        try:
            item = self._client.call("get", uuid=uuid).body
        except errors.NoSuchRecord:
            return None
        arvados_client.require_administrator([item])
        return _one(item, uuid)

    def create(self, claim: Claim) -> Record:
        """A new record with claim and slot, or the one that an earlier attempt did make."""
        with errors.before_writing():
            made = self._made_before(claim)
        if made is None:
            attributes = {"properties": wire.claimed({}, claim)}
            try:
                answer = self._client.call("create", slot_asked=True, body={"node": attributes})
            except errors.NoFreeSlot:
                # As in claim(), the server has made the record before it refused a slot.
                self._unmake(claim)
                raise
            arvados_client.require_administrator([answer.body])
            made = _one(answer.body, None)
        elif made.slot_number is None:
            self._write(made.uuid, {"properties": made.properties}, slot_asked=True)
            made = self._read(made.uuid)
        if made.incarnation != claim.incarnation:
            raise errors.StoreError(f"record {made.uuid} was made without its claim")
        return made

    def claim(self, record: Record, claim: Claim) -> Record:
        """Write the claim to the record and check that it is there."""
        now = self._unmoved(record)
        renewed = now.incarnation == claim.incarnation
        wire.refuse_unfit(now, claim, renewed=renewed)
        attributes: dict[str, Any] = {"properties": wire.claimed(now.properties, claim)}
        if not renewed:
            # Without a secret the server makes a new one; a renewed claim's node keeps its secret.
            # The other keys may be there because a late write restored what a clean had removed.
            attributes["info"] = _without_secrets(now.info, wire.WORKER_STATE, wire.INSTANCE_ID)
        try:
            self._write(now.uuid, attributes, slot_asked=True)
        except errors.NoFreeSlot:
            # The server saves the fields before it looks for a slot, so undo that.
            self._write(now.uuid, {"properties": now.properties, "info": now.info})
            raise
        after = self._read(now.uuid)
        if after.claim != claim:
            raise errors.Conflict(f"record {now.uuid} bears another claim")
        return after

    def clean(self, record: Record, reason: str) -> Record:
        """Free the record and check that it stays free. Call `fence` before (C12)."""
        now = self._unmoved(record)
        info = _without_secrets(now.info)
        attributes = {
            **wire.NOTHING_HELD,
            "properties": {} if now.pool is None else {wire.POOL: now.pool},
            "info": info | {wire.INSTANCE_ID: None, wire.LAST_ACTION: reason},
        }
        self._write(now.uuid, attributes)
        after = self._read(now.uuid)
        if after.holds_anything or _opens(now.ping_secret, after):
            raise errors.StoreError(f"record {now.uuid} was written to after it was freed")
        return after

    def fence(self, record: Record) -> Record:
        """Lock the node out; its own secret is kept in info, which shows that there is a fence."""
        now = self._unmoved(record)
        info = _without_secrets(now.info)
        known = _text(now.info, wire.FENCED_SECRET) or now.ping_secret
        if known is not None:
            info[wire.FENCED_SECRET] = known
        self._write(now.uuid, {"info": info})
        after = self._read(now.uuid)
        if after.ping_secret is None or _opens(now.ping_secret, after):
            raise errors.StoreError(f"the fence of record {now.uuid} did not hold")
        return after

    def unfence(self, record: Record, ping_secret: str | None) -> Record | None:
        """Restore the node's secret where there still is a fence; change no other field.

        `record` may be the fenced one or, when the fence's answer was lost, the one judged before.
        Raises Conflict where a clean or claim has made a new secret since.
        """
        with errors.before_writing():
            now = self._read(record.uuid)
        fenced = _text(now.info, wire.FENCED_SECRET)
        if fenced is None and (ping_secret is None or _opens(ping_secret, now)):
            return None
        with errors.before_writing():
            if fenced is None and not _opens(record.ping_secret, now):
                raise errors.Conflict(f"record {now.uuid} has no fence")
        info = _without_secrets(now.info)
        info[wire.PING_SECRET] = fenced or ping_secret
        self._write(now.uuid, {"info": info})
        after = self._read(now.uuid)
        if not _opens(info[wire.PING_SECRET], after):
            raise errors.StoreError(f"the fence of record {now.uuid} was not lifted")
        return after

    def drain(self, record: Record, *, on: bool) -> Record:
        raise errors.StoreRefused("Arvados' answers to pings can't tell a node to drain")

    def late_pings(self) -> tuple[LatePing, ...]:
        """Always empty: the server refuses a freed life's ping, which has an old secret, and
        does not remember it.

        The manager's listings still show a node that lives, or a freed record that was pinged.
        """
        return ()

    def delete(self, record: Record) -> None:
        raise errors.StoreRefused(
            "Arvados has no conditional delete, so a claim that came meanwhile could be deleted, "
            "too: records are pruned in a registry only (C12)"
        )

    def restore(self, record: Record, before: Record) -> Record:
        """Write the record back and check it, after a check that its slot is free.

        A server with a unique index refuses a slot that was taken in between.
        """
        # A pre-image taken behind the fence of an earlier attempt has the fence's own secret.
        secret = _text(before.info, wire.FENCED_SECRET) or before.ping_secret
        if before.uuid != record.uuid or secret is None or before.problems:
            raise errors.StoreRefused(f"the pre-image of record {record.uuid} is incomplete")
        now = self._unmoved(record)
        if now.holds_anything:
            raise errors.StoreRefused(f"record {now.uuid} holds something again")
        with errors.before_writing():
            self._refuse_taken(before)
        attributes = {
            "slot_number": before.slot_number,
            "hostname": before.hostname,
            "ip_address": before.ip_address,
            "first_ping_at": _stamp(before.first_ping_at),
            "last_ping_at": _stamp(before.last_ping_at),
            "properties": dict(before.properties),
            "info": _without_secrets(before.info) | {wire.PING_SECRET: secret},
        }
        self._write(now.uuid, attributes)
        after = self._read(now.uuid)
        if after.claim != before.claim or not _opens(secret, after):
            raise errors.StoreError(f"record {now.uuid} was written to after it was restored")
        return after

    def _refuse_taken(self, before: Record) -> None:
        if before.slot_number is None:
            return
        pages = arvados_client.Pages(self._client)
        listed = wire.collect(_record, pages)
        for other in listed.items:
            if other.slot_number == before.slot_number and other.uuid != before.uuid:
                raise errors.SlotTaken(
                    f"slot {before.slot_number} now belongs to record {other.uuid}"
                )
        if pages.problems or not listed.complete:
            raise errors.StoreError(f"can't tell whether slot {before.slot_number} is free")

    def ping_url(self, record: Record) -> str:
        return wire.ping_url(self._ping_base, record)

    def probe(self) -> bool:
        """Ping an impossible uuid, as a node would; only this API's own 404 counts (D8)."""
        path = wire.ping_path(self._ping_base, wire.nobody(self._prefix))
        try:
            status, body = self._client.post(path, {"ping_secret": "probe"}, _PROBE_TIMEOUT_S)
        except errors.StoreError:
            return False
        return status == 404 and errors_of(body) is not None

    def close(self) -> None:
        """Do nothing: no connection outlives its request."""

    def _write(self, uuid: str, attributes: Mapping[str, Any], *, slot_asked: bool = False) -> None:
        body = {"node": dict(attributes)}
        self._client.call("update", uuid=uuid, body=body, slot_asked=slot_asked)

    def _read(self, uuid: str) -> Record:
        record = self.read(uuid)
        if record is None:
            raise errors.NoSuchRecord(f"no record {uuid}")
        return record

    def _unmoved(self, record: Record) -> Record:
        """The current record if it still has `record.version`; else raises Conflict."""
        with errors.before_writing():
            now = self._read(record.uuid)
            if now.version != record.version:
                what = f"at version {now.version}, not {record.version}"
                raise errors.Conflict(f"record {now.uuid} is {what}")
        return now

    def _made_before(self, claim: Claim) -> Record | None:
        """The record of the claim's incarnation, if an earlier create succeeded.

        It can't be much older than the first claim, so this reads only the newest records.
        """
        since = claim.at - _CREATED_WITHIN_S
        filters: list[Any] = [["created_at", ">=", wire.stamp(since)]] if since > 0 else []
        pages = arvados_client.Pages(self._client, tuple(filters))
        listed = wire.collect(_record, pages)
        made = [item for item in listed.items if item.incarnation == claim.incarnation]
        if not made and (pages.problems or not listed.complete):
            why = (*pages.problems, *listed.problems)[0]
            raise errors.StoreError(f"can't tell whether the record was made before: {why}")
        return min(made, key=lambda item: (item.first_ping_at is None, item.uuid), default=None)

    def _unmake(self, claim: Claim) -> None:
        made = self._made_before(claim)
        if made is not None and made.slot_number is None and made.last_ping_at is None:
            self._client.call("delete", uuid=made.uuid)


def _record(item: object) -> Record:
    if not isinstance(item, Mapping):
        raise wire.Unreadable("an item is not an object")
    return wire.read(item, version=_version(item), when=wire.parse_stamp)


def _version(item: Mapping[str, Any]) -> str:
    """A version that changes with every ping and every field.

    The etag is not enough. Arvados computes it from times that it may round to seconds, so two
    pings may share one; and from the attributes that a call happened to load, so two calls may
    differ.
    """
    encoded = _ENCODE([item.get(name) for name in _JUDGED])
    digest = hashlib.blake2b(encoded.encode(), digest_size=12).hexdigest()
    return f"{item.get('modified_at')}-{digest}"


def _one(item: Mapping[str, Any], uuid: str | None) -> Record:
    try:
        record = _record(item)
    except wire.Unreadable as error:
        raise errors.StoreError(f"Arvados: the answer is no record: {error}") from error
    if uuid is not None and record.uuid != uuid:
        raise errors.StoreError(f"Arvados: asked for {uuid}, it answered with {record.uuid}")
    return record


def _without_secrets(info: Mapping[str, Any], *others: str) -> dict[str, Any]:
    gone = {wire.PING_SECRET, wire.FENCED_SECRET, *others}
    return {key: value for key, value in info.items() if key not in gone}


def _stamp(seconds: float | None) -> str | None:
    return None if seconds is None else wire.stamp(seconds)


def _text(info: Mapping[str, Any], key: str) -> str | None:
    value = info.get(key)
    return value if isinstance(value, str) and value else None


def _opens(secret: str | None, record: Record) -> bool:
    """Whether `secret` is the record's ping secret."""
    if secret is None or record.ping_secret is None:
        return False
    return hmac.compare_digest(secret.encode(), record.ping_secret.encode())
