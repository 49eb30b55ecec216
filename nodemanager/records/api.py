"""The port to a record store: what every adapter promises.

One contract suite, tests/contract/test_store_contract.py, holds every adapter to this text.
"""

from __future__ import annotations

from typing import Protocol

from nodemanager.core.model.world import Claim, Guarantee, LatePing, Listed, Record, StoreTime


class RecordStore(Protocol):
    """A record API as the manager sees it.

    Every call ends within the configured time-out and raises only `nodemanager.errors.StoreError`
    and its subclasses. Several threads use a store at once. A store without compare-and-set marks
    a write's error as `unsent` if it came before anything was written.
    """

    provider: str
    """`registry`, `arvados` or `slurm`."""
    guarantee: Guarantee
    """CAS: `clean` is atomic against pings. FENCED: `fence` first, wait, then read again (C12)."""
    may_authorise: bool
    """The contract suite proves that its listings are complete; without that proof nothing
    may be freed (L2)."""
    settle_wait: float
    """Seconds that a fence must stand before the fields may be cleared; 0 under CAS."""
    tells_drain: bool
    """Its answers to pings can tell a node to take no more work, or to take work again (D12)."""

    def store_id(self) -> str:
        """The store's unique id, the same over restarts and changes of address (L5)."""
        ...

    def slots(self) -> int | None:
        """The number of slots in the store; None where it can't say."""
        ...

    def store_time(self, *, writes: bool = True) -> StoreTime:
        """The store's clock, from the time stamp of a write of ours or its Date header (T1).

        Without `writes`, as in a dry run (S3), nothing is written. `boottime` is CLOCK_BOOTTIME at
        the middle of the round trip, `error_s` half of the round trip. `beats` never falls unless
        the store was restored from a backup (L5); None where the store can't say.
        """
        ...

    def list_records(self) -> Listed[Record]:
        """Every record of every pool, paged by uuid (L2).

        A record with unreadable fields is listed with `problems`; a repeated or missing uuid makes
        the listing incomplete.
        """
        ...

    def read(self, uuid: str) -> Record | None:
        """The current record; None for the store's "no such record"."""
        ...

    def create(self, claim: Claim) -> Record:
        """A new record with the claim, and with a slot where the store can reserve one (U1, U7).

        A repeated call with the same incarnation gives the record of the first. Raises
        NoFreeSlot. Fills in `Record.ping_secret`.
        """
        ...

    def claim(self, record: Record, claim: Claim) -> Record:
        """Put `claim` on `record` if it still has `record.version`; else raise Conflict (U1).

        Reserves a slot where the store can. For a cleaned record, and to renew a claim of the same
        incarnation (U5). Fills in `Record.ping_secret`. Once the claim names its node, a store with
        compare-and-set refuses pings that name another (P1a).
        """
        ...

    def clean(self, record: Record, reason: str) -> Record:
        """Free the record if it still has `record.version`; else raise Conflict (C12).

        One write sets slot_number, hostname, ip_address, first_ping_at, last_ping_at and
        info.ec2_instance_id to None, removes ping_secret and the claim, keeps only the pool's name
        in properties, and sets info.last_action to `reason`. Under FENCED the write can't depend on
        the version, so the caller must have fenced before.
        """
        ...

    def delete(self, record: Record) -> None:
        """Delete a record that holds nothing and still has `record.version` (C12).

        Raises Conflict for another version, StoreRefused for a record that holds anything, and
        NoSuchRecord where it is gone. A store without compare-and-set always raises StoreRefused
        and writes nothing: it could delete a claim that came meanwhile. Pings of the record's freed
        lives are still refused and reported (U8).
        """
        ...

    def fence(self, record: Record) -> Record:
        """Lock the record's node out by a new ping secret and nothing else (C12, FENCED only)."""
        ...

    def unfence(self, record: Record, ping_secret: str | None) -> Record | None:
        """Restore the node's old secret (C12, FENCED only).

        None where there is no fence: then nothing is written. Without `ping_secret`, restores the
        secret that the store kept. `Record.fenced` tells whether there is a fence.
        """
        ...

    def drain(self, record: Record, *, on: bool) -> Record:
        """Tell the record's node, in the answers to its pings, to take no more work (D12).

        With `on` False, take that order back. Each order has a unique number, `Record.drain`. It is
        kept beside the versioned fields: version and modified_at don't change. Raises Conflict
        unless the record still has the incarnation and the order of `record`. A store that can't
        tell nodes raises StoreRefused and writes nothing.
        """
        ...

    def late_pings(self) -> tuple[LatePing, ...]:
        """The newest ping of each freed life that pinged after its clean, oldest first (U8).

        Covers a week after the clean. Such pings are refused like any with a wrong secret. A
        restored life no longer counts as freed. Empty for a store that remembers no such pings.
        """
        ...

    def restore(self, record: Record, before: Record) -> Record:
        """Restore a freed record to what it was, with its secret and its drain order (U8, D12).

        `record` is its current state; `before` is the pre-image of its clean. Raises Conflict
        unless it still has `record.version`, StoreRefused where it holds anything, and SlotTaken
        where another record has taken its slot.
        """
        ...

    def ping_url(self, record: Record) -> str:
        """The URL that the record's node pings, with its secret; for user data, never for a log.

        A store whose nodes don't ping gives what they need to know instead: their hostname.
        """
        ...

    def probe(self) -> bool:
        """Whether the nodes' own ping URL answers; a 404 for an unknown uuid is an answer (D8)."""
        ...

    def close(self) -> None: ...
