"""The one root of every error we raise, and the kinds the deciding tells apart.

Adapters translate a library's error once, with ``raise ... from``, into one of these; nothing
above a port ever sees a library's own exception.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class NodeManagerError(Exception):
    """Root of all errors raised on purpose by this program."""


class ConfigError(NodeManagerError):
    """The configuration can't be used. `problems` holds one finished line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StartError(NodeManagerError):
    """The daemon can't start (a taken port, a second daemon, a newer schema): says what to do."""


class JournalError(NodeManagerError):
    """The journal can't be written or read: says what to do. Nothing was written.

    It passes by itself once the cause is gone (a full disk, another's lock).
    """


class RemoteError(NodeManagerError):
    """A cloud or a record store did not do what it was asked.

    `definite` says that nothing was done and nothing will be (SAFETY.md U6); otherwise the
    request may still have taken effect. `retry_after` is in seconds, where the server named it.
    `unsent` says that it failed before anything was written: nothing of it can come late.
    """

    definite = False
    unsent = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@contextlib.contextmanager
def before_writing() -> Iterator[None]:
    """What fails in here fails before anything is written."""
    try:
        yield
    except RemoteError as error:
        error.unsent = True
        raise


class CloudError(RemoteError):
    """Unknown failure of a cloud: time-out, cut connection, a 5xx without an error code."""


class Throttled(CloudError):
    """The cloud asks for fewer calls: back off every call, honour `retry_after` (D6)."""

    definite = True


class QuotaExceeded(CloudError):
    """The account may not have more nodes: lower the quota and probe it later (D6)."""

    definite = True


class CapacityUnavailable(CloudError):
    """The cloud has no machine of this size now: rest that size (D6)."""

    definite = True


class BadRequest(CloudError):
    """The cloud refuses the request itself: bad image, unknown size, wrong option."""

    definite = True


class MalformedId(BadRequest):
    """What was asked for is no node id of this cloud. That says nothing of any node (P1a)."""


class LeftAlone(CloudError):
    """A leftover that we do not release: held, ours no more, or used by a node that lives (D4)."""

    definite = True


class TooLate(CloudError):
    """What was decided may not be sent any more: too much time passed since (C11)."""

    definite = True


class Unauthorized(CloudError):
    """The credentials are refused."""

    definite = True


class IncompleteListing(CloudError):
    """A list call answered, but not with everything: no evidence (L1, L2)."""


class ForeignAnswer(CloudError):
    """The answer is not this API's: another service, namespace or account (L2, L5)."""


class StoreError(RemoteError):
    """Unknown failure of a record store: time-out, cut connection, 5xx, locked or full disk."""


class Conflict(StoreError):
    """The record is not at the version the write was conditional on."""

    definite = True


class NoSuchRecord(StoreError):
    """The store has no record of that uuid."""

    definite = True


class NoFreeSlot(StoreError):
    """Every slot is held."""

    definite = True


class SlotTaken(StoreError):
    """The slot that a freed record had is another's by now (U8)."""

    definite = True


class StoreRefused(StoreError):
    """The store refuses the request itself (4xx): token, not an administrator, bad field."""

    definite = True
