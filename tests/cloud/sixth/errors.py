"""What DigitalOcean's errors mean to us (SAFETY.md D6, U6).

Each of its ids goes with one HTTP status, which decides; for 422, which it answers to anything that
it can't do, the words do.
"""

from __future__ import annotations

import re

from nodemanager.cloud.refusal import CodedRefusal
from nodemanager.errors import (
    CapacityUnavailable,
    CloudError,
    QuotaExceeded,
)

QUOTA = re.compile(r"droplet limit|volume limit", re.IGNORECASE)
CAPACITY = re.compile(r"not available in this region|currently unavailable", re.IGNORECASE)


class Refusal(CodedRefusal):
    """An error answer with one of DigitalOcean's own codes."""

    NOT_FOUND = "not_found"

    @property
    def meaning(self) -> type[CloudError]:
        if self.status == 422 and QUOTA.search(self.message):
            return QuotaExceeded
        if self.status == 422 and CAPACITY.search(self.message):
            return CapacityUnavailable
        return super().meaning
