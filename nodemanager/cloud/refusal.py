"""An error answer with one of a cloud's own codes, the same for the clouds that have such codes."""

from __future__ import annotations

from nodemanager.cloud.translate import without_secrets

_LONGEST = 400


class CodedRefusal(Exception):
    """A refused request, or an operation that failed; `message` is one line."""

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

    def while_doing(self, doing: str) -> str:
        """What was refused, for the log: the cloud's own words, without a URL's query."""
        return f"{doing}: {without_secrets(str(self))[:_LONGEST]}"
