"""The root of all our errors, and the kinds that decisions distinguish.

Adapters translate a library's error once, with ``raise ... from``, into one of these. Nothing
above a port ever sees a library's own exception.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class NodeManagerError(Exception):
    """Root of all errors that this program raises on purpose."""


class ConfigError(NodeManagerError):
    """The configuration can't be used. `problems` holds one complete line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StartError(NodeManagerError):
    """The daemon can't start (port in use, second daemon, newer schema); says what to do."""


class JournalError(NodeManagerError):
    """The journal can't be written or read; nothing was written. Says what to do.

    The next attempt works once the cause is gone (a full disk, another program's lock).
    """


class JournalReplaced(JournalError):
    """The journal's file is not the one that was opened: the process ends, and the next recovers.

    What the file had can't be written again from memory. So the manager starts as one that has no
    journal (R1).
    """


class RemoteError(NodeManagerError):
    """A cloud, a record store or a scheduler did not do what it was asked.

    `definite`: the request has had no effect and never will (SAFETY.md U6); otherwise it may have
    had, or still have, one. `retry_after`: the seconds to wait, where the server named them.
    `unsent`: the request failed before anything was written, so no write can take effect later.
    """

    definite = False
    unsent = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotSent(RemoteError):
    """This manager lacks the pool's lease, or is to change nothing: the order was not sent (L6)."""

    definite = True
    unsent = True


@contextlib.contextmanager
def before_writing() -> Iterator[None]:
    """Mark every RemoteError of this block as `unsent`."""
    try:
        yield
    except RemoteError as error:
        error.unsent = True
        raise


class CloudError(RemoteError):
    """Unknown failure of a cloud: time-out, cut connection, a 5xx without an error code."""


class Throttled(CloudError):
    """The cloud asks for fewer calls: slow down every call and honour `retry_after` (D6)."""

    definite = True


class QuotaExceeded(CloudError):
    """The account may not have more nodes: lower the quota and probe it later (D6)."""

    definite = True


class FamilyQuotaExceeded(QuotaExceeded):
    """The quota of one family of machines: others may still be had (D6)."""


class SpotQuotaExceeded(QuotaExceeded):
    """The quota of spot nodes: others may still be had (D6)."""


class CapacityUnavailable(CloudError):
    """The cloud has no machine of this size now: don't boot that size for a while (D6)."""

    definite = True


class PlaceFull(CapacityUnavailable):
    """The cloud has no room for this size in one place: rest it there, boot it elsewhere (D6)."""

    def __init__(self, message: str, *, place: str, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.place = place


class BadRequest(CloudError):
    """The cloud refuses the request as such: bad image, unknown size, wrong option."""

    definite = True


class MalformedId(BadRequest):
    """The id is no node id of this cloud, which is no evidence about any node (P1a)."""


class LeftAlone(CloudError):
    """A leftover that must stay: it is on hold, no longer ours, or used by a live node (D4)."""

    definite = True


class TooLate(CloudError):
    """Too much time has passed since the decision, so its request may not be sent (C11)."""

    definite = True


class Unauthorized(CloudError):
    """The credentials are refused."""

    definite = True


class IncompleteListing(CloudError):
    """A list call gave an incomplete answer, which is no evidence (L1, L2)."""


class ForeignAnswer(CloudError):
    """The answer is not this API's: another service, namespace or account (L2, L5)."""


class StoreError(RemoteError):
    """Unknown failure of a record store: time-out, cut connection, 5xx, locked or full disk."""


class Conflict(StoreError):
    """The record no longer has the version that the write required."""

    definite = True


class NoSuchRecord(StoreError):
    """The store has no record of that uuid."""

    definite = True


class NoFreeSlot(StoreError):
    """Every slot is held."""

    definite = True


class SlotTaken(StoreError):
    """Another record has taken the slot of a freed record (U8)."""

    definite = True


class StoreRefused(StoreError):
    """The store refuses the request as such (4xx): token, not an administrator, bad field."""

    definite = True


class Superseded(StoreRefused):
    """Another manager has taken the pool's lease: its database takes no write of ours (L6)."""

    unsent = True


class SchedulerError(RemoteError):
    """Unknown failure of a scheduler: time-out, no answer, or one that can't be read (L1)."""


class SchedulerRefused(SchedulerError):
    """The scheduler refuses the request as such: no such node or job, no right, no such verb."""

    definite = True
