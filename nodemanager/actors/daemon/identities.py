"""Checks that account and store are the known ones, over restarts, too (SAFETY.md L5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nodemanager.actors.daemon.context import Context
from nodemanager.core.execute.state import Identity
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import StartError
from nodemanager.lib.log import WARNING

T = TypeVar("T")


@dataclass(eq=False)
class Identities:
    """Makes the daemon read-only while account or store is another, or can't be compared."""

    _context: Context
    _refused: str | None = None
    """What was told last of credentials that are not used."""

    @property
    def _known(self) -> Identity:
        return self._context.state.identity

    def _note(self, **changes: Any) -> None:
        after = replace(self._known, **changes)
        if after != self._known:
            self._context.learn(after)

    def unverified(self, error: Exception) -> None:
        """Log that the account can't be asked for; once, until it is seen again."""
        if "account" in self._known.identified:
            self._note(identified=self._known.identified - {"account"})
            self._context.log.event(
                Event.IDENTITY_UNVERIFIED, level=WARNING, account=self._known.account, error=error
            )

    def saw_account(self, account: str) -> None:
        self._note(account=account)
        self._identify("account", account)

    def offered_account(self, account: str | None, error: Exception | None) -> bool | None:
        """Whether other credentials lead to the known account; None while that can't be told."""
        kept, problem = False, None
        if account is not None:
            check = self._context.inputs.identity.check
            kept, problem = self.keeps_state("account", lambda: check("account", account))
        if kept and problem is None:
            self._refused = None
            self._context.log.event(Event.CLOUD_TAKEN, account=account)
            return True
        why = problem or str(error)
        if self._refused != why and (kept or error is not None):
            self._refused = why
            self._context.log.event(
                Event.CLOUD_REFUSED, level=WARNING, account=account, problem=problem, error=error
            )
        return False if kept else None

    def saw_store(self, store_id: str, beats: int | None) -> None:
        """Take in the id of the store that answered, and its count of heartbeats.

        A store that was restored from a backup has the same id, but lacks records that we know.
        """
        self._identify("store", store_id)
        if beats is not None and "store" not in self._known.mismatched:
            self._compare(
                "heartbeats",
                lambda: self._context.inputs.identity.check_age(store_id, beats),
                store=store_id,
            )
        self._note(store=store_id)

    def _identify(self, kind: str, seen: str) -> None:
        """Compare an account or a store with the known one (L5)."""
        kept = self._compare(
            kind,
            lambda: self._context.inputs.identity.check(kind, seen),
            is_new=kind not in self._known.identified,
            **{kind: seen},
        )
        if kept:
            self._note(identified=self._known.identified | {kind})

    def _compare(
        self,
        kind: str,
        check: Callable[[], str | None],
        *,
        is_new: bool = False,
        **seen_as: Any,
    ) -> bool:
        """Compare, and log what is news. False if the known one could not be read."""
        log = self._context.log
        kept, problem = self.keeps_state(kind, check)
        if not kept:
            return False
        mismatched = self._known.mismatched
        if problem is None:
            self._note(mismatched=_without(mismatched, kind))
            if kind in mismatched or is_new:
                log.event(Event.IDENTITY_SEEN, **seen_as)
        elif mismatched.get(kind) != problem:
            self._note(mismatched={**mismatched, kind: problem})
            log.event(
                Event.IDENTITY_CHANGED, level=WARNING, reason=Reason.READ_ONLY, problem=problem
            )
        return True

    def keeps_state(self, what: str, call: Callable[[], T]) -> tuple[bool, T | None]:
        """Call something that uses the state directory: whether that worked, and its answer.

        A failure makes us read-only until that call works; the next poll or decision makes it.
        """
        log = self._context.log
        failed_before = bool(self._known.failed)
        try:
            answer = call()
        except StartError as error:
            self._note(failed={**self._known.failed, what: str(error)})
            if not failed_before:
                log.event(Event.STATE_FAILED, level=WARNING, reason=Reason.READ_ONLY, error=error)
            return False, None
        if not failed_before:
            return True, answer
        self._note(failed=_without(self._known.failed, what))
        if not self._known.failed:
            log.event(Event.STATE_HEALED)
        return True, answer


def _without(reasons: Mapping[str, str], key: str) -> Mapping[str, str]:
    return {one: why for one, why in reasons.items() if one != key}
