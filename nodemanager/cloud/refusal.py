"""An error answer with one of a cloud's own codes, the same for the clouds that have such codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, TypeVar

from nodemanager.cloud.translate import without_secrets
from nodemanager.errors import BadRequest, CloudError, Throttled, Unauthorized

T = TypeVar("T")
_LONGEST = 400


def words(text: str) -> frozenset[str]:
    """The words of a text, such as a cloud's codes, in any order."""
    return frozenset(text.split())


class CodedRefusal(Exception):
    """A refused request, or an operation that failed; `message` is one line."""

    MEANINGS: ClassVar[Sequence[tuple[Collection[str], type[CloudError]]]] = ()
    """The cloud's codes, and the error that they mean (D6). The first row that has the code counts;
    without one it is the HTTP status."""
    FULL_THERE: ClassVar[Collection[str]] = ()
    """Further codes that say of one place alone that it has no room."""
    NOT_FOUND: ClassVar[str | None] = None
    """The cloud's own "no such thing"; a proxy's 404 has no code of the cloud's."""

    def __init__(
        self, code: str, message: str, status: int, retry_after: float | None = None
    ) -> None:
        super().__init__()
        self.code = code
        self.message = " ".join(message.split())
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def meaning(self) -> type[CloudError]:
        """The error that it means to us."""
        for codes, meaning in self.MEANINGS:
            if self.code in codes:
                return meaning
        if self.status == 429:
            return Throttled
        if self.status in (401, 403):
            return Unauthorized
        return CloudError if self.status >= 500 or self.status in (408, 409) else BadRequest

    @property
    def is_not_found(self) -> bool:
        return self.code == self.NOT_FOUND

    def typed(self, doing: str) -> CloudError:
        """The CloudError for it, which says what was refused in the cloud's own words."""
        text = f"{doing}: {without_secrets(str(self))[:_LONGEST]}"
        return self.meaning(text, retry_after=self.retry_after)

    def hide(self, secrets: Iterable[str]) -> None:
        """Take the secrets out of its message."""
        self.message = without_secrets(self.message, secrets)


def unless_missing(ask: Callable[[], T]) -> T | None:
    """The answer; None for the cloud's own "no such thing" alone."""
    try:
        return ask()
    except CodedRefusal as refusal:
        if refusal.is_not_found:
            return None
        raise
