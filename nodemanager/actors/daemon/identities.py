"""Whether account, store and state directory are those that we know (SAFETY.md L5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from nodemanager.actors.daemon.context import Context
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import StartError
from nodemanager.log import WARNING

T = TypeVar("T")


class Identities:
    """Read-only while one of them is another than the one known, or that can't be known."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mismatched: dict[str, str] = {}
        self._identified: set[str] = set()
        self._state_failed: dict[str, str] = {}
        self.account: str | None = None
        self.store: str | None = None

    @property
    def read_only(self) -> tuple[str, ...]:
        """Why nothing may be written, but for the journal: identities, and where they are kept."""
        return (*sorted(self._mismatched.values()), *sorted(set(self._state_failed.values())))

    @property
    def state_failed(self) -> bool:
        """Whether the state directory failed to do what was asked of it last."""
        return bool(self._state_failed)

    @property
    def account_in_question(self) -> bool:
        """Whether the account is another than the one known, or could not be compared."""
        return "account" in self._mismatched or "account" in self._state_failed

    def unverified(self, error: Exception) -> None:
        """The account could not be asked for; told once for each time that it was seen."""
        if "account" in self._identified:
            self._identified.discard("account")
            self._context.log.event(
                Event.IDENTITY_UNVERIFIED, level=WARNING, account=self.account, error=error
            )

    def saw_account(self, account: str) -> None:
        """The account that the cloud's credentials belong to."""
        self.account = account
        self._identify("account", account)

    def saw_store(self, store_id: str, beats: int | None) -> None:
        """The store that answered, and how many heartbeats it has counted.

        A store from a backup has the same id, and not the records that we know (N26).
        """
        self._identify("store", store_id)
        if beats is not None and "store" not in self._mismatched:
            self._compare(
                "heartbeats",
                lambda: self._context.inputs.identity.check_age(store_id, beats),
                store=store_id,
            )
        self.store = store_id

    def _identify(self, kind: str, seen: str) -> None:
        """L5: another account or store than the one known makes us read-only."""
        kept = self._compare(
            kind,
            lambda: self._context.inputs.identity.check(kind, seen),
            is_new=kind not in self._identified,
            **{kind: seen},
        )
        if kept:
            self._identified.add(kind)

    def _compare(
        self,
        kind: str,
        check: Callable[[], str | None],
        *,
        is_new: bool = False,
        **seen_as: Any,
    ) -> bool:
        """Whether what is known could be read; tells what is news of it."""
        log = self._context.log
        kept, problem = self.keeps_state(kind, check)
        if not kept:
            return False
        if problem is None:
            if self._mismatched.pop(kind, None) is not None or is_new:
                log.event(Event.IDENTITY_SEEN, **seen_as)
        elif self._mismatched.get(kind) != problem:
            self._mismatched[kind] = problem
            log.event(
                Event.IDENTITY_CHANGED, level=WARNING, reason=Reason.READ_ONLY, problem=problem
            )
        return True

    def keeps_state(self, what: str, call: Callable[[], T]) -> tuple[bool, T | None]:
        """Whether the state directory did what `call` asks of it, and its answer.

        Read-only while it does not; what failed is called again with the next poll or decision.
        """
        log = self._context.log
        failed_before = self.state_failed
        try:
            answer = call()
        except StartError as error:
            self._state_failed[what] = str(error)
            if not failed_before:
                log.event(Event.STATE_FAILED, level=WARNING, reason=Reason.READ_ONLY, error=error)
            return False, None
        self._state_failed.pop(what, None)
        if failed_before and not self.state_failed:
            log.event(Event.STATE_HEALED)
        return True, answer
