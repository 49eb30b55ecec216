"""The port to a record store: what every adapter promises.

One contract suite, tests/contract/test_store_contract.py, holds every adapter to this text.
"""

from __future__ import annotations

from typing import Protocol

from nodemanager.core.model import Claim, Guarantee, LatePing, Listed, Record, StoreTime


class RecordStore(Protocol):
    """A record API as the manager sees it.

    Every call ends within the configured time-out and raises only `nodemanager.errors.StoreError`
    and its subclasses. A store is used by several threads at once. One that can't compare says of
    an error of a write whether it came before anything was written (`unsent`).
    """

    provider: str
    """`registry` or `arvados`."""
    guarantee: Guarantee
    """CAS: `clean` is atomic against pings. FENCED: `fence` first, wait, look again (C12)."""
    may_authorise: bool
    """The contract suite proves its listings complete; without that it frees nothing (L2)."""
    settle_wait: float
    """Seconds a fence must stand before the fields may be cleared; 0 under CAS."""
    tells_drain: bool
    """Its answers to pings tell a node to take no more work, and to take it again (D12)."""

    def store_id(self) -> str:
        """What tells this store from any other, the same over restarts and addresses (L5)."""
        ...

    def slots(self) -> int | None:
        """How many slots the store gives out; None where it can't say."""
        ...

    def store_time(self, *, writes: bool = True) -> StoreTime:
        """The store's clock, from a stamp it made for a write of ours or its Date header (T1).

        Without `writes` nothing is written: a dry run's reading of the clock (S3). `boottime` is
        CLOCK_BOOTTIME at the middle of the round trip, `error_s` half of that. `beats` never falls,
        unless the store was put back to what it was (L5); None where it can't say.
        """
        ...

    def list_records(self) -> Listed[Record]:
        """Every record of every pool, paged by uuid (L2).

        A record that can't be read whole is listed with `problems`; a repeated uuid, or an item
        without one, makes the listing incomplete.
        """
        ...

    def read(self, uuid: str) -> Record | None:
        """The record as it is now; None for the store's "no such record"."""
        ...

    def create(self, claim: Claim) -> Record:
        """A new record with the claim on it, its slot reserved where the store can (U1, U7).

        A repeated call with the same incarnation finds the record of the first. Raises
        NoFreeSlot. `Record.ping_secret` is filled in.
        """
        ...

    def claim(self, record: Record, claim: Claim) -> Record:
        """Put `claim` on `record` if it still is at `record.version`; else Conflict (U1).

        Reserves a slot where the store can. Used for a cleaned record and to renew a claim of
        the same incarnation (U5). `Record.ping_secret` is filled in. Once the claim names its node,
        a store that compares refuses pings that name another (P1a).
        """
        ...

    def clean(self, record: Record, reason: str) -> Record:
        """Free the record if it still is at `record.version`; else Conflict (C12).

        One write: slot_number, hostname, ip_address, first_ping_at, last_ping_at and
        info.ec2_instance_id become None, ping_secret and the claim go, properties keep only the
        pool's name, info.last_action tells `reason`. Under FENCED the version can't be bound
        to the write; the caller has fenced before.
        """
        ...

    def delete(self, record: Record) -> None:
        """Delete a record that holds nothing if it still is at `record.version` (C12).

        Else Conflict; StoreRefused for one that holds anything, NoSuchRecord where it is gone.
        A store that can't compare refuses every one (StoreRefused), and writes nothing: a claim
        that came meanwhile would be deleted with it. Pings of its freed lives are refused and
        told as before (U8).
        """
        ...

    def fence(self, record: Record) -> Record:
        """Lock the record's node out: a new ping secret, nothing else (C12, FENCED only)."""
        ...

    def unfence(self, record: Record, ping_secret: str | None) -> Record:
        """Give the node its old secret back (C12, FENCED only).

        Without `ping_secret` the one that the store kept, or nothing where no fence stands. A
        fence that stands shows as `Record.fenced`.
        """
        ...

    def drain(self, record: Record, *, on: bool) -> Record:
        """Tell the record's node, by the answers to its pings, to take no more work (D12).

        With `on` False that is taken back. Each order has a number that no other has,
        `Record.drain`. Written beside the versioned fields: neither version nor modified_at moves.
        Only while the record has the incarnation and the order that `record` has; else Conflict.
        Where the store can't tell: StoreRefused, and nothing is written.
        """
        ...

    def late_pings(self) -> tuple[LatePing, ...]:
        """Of each freed life that pinged since, the newest ping, oldest first (U8).

        Known for a week after the clean. Such a ping is refused as any with a wrong secret is. A
        life that was restored is not freed any more. A store that remembers no pings has none.
        """
        ...

    def restore(self, record: Record, before: Record) -> Record:
        """Put a freed record back to what it was, secret and all (U8).

        `record` is what it is now: it holds nothing, and still is at `record.version`; else
        Conflict or StoreRefused. SlotTaken where another record has its slot by now. `before` is
        the pre-image of its clean.
        """
        ...

    def ping_url(self, record: Record) -> str:
        """The URL the record's node pings, secret included: for user data only, never logged."""
        ...

    def probe(self) -> bool:
        """True when the nodes' own ping URL answers: an unknown uuid's 404 is an answer (D8)."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...
