"""What Google Compute Engine's error codes mean to us (SAFETY.md D6, U6).

A request is refused with a reason, such as `quotaExceeded`; an operation that a request began fails
with a code, such as `ZONE_RESOURCE_POOL_EXHAUSTED`. Both decide, not the HTTP status: Google sends
`rateLimitExceeded` with 403, as it does `forbidden`. The codes come from Google's "Troubleshooting
VM creation", "Resource availability errors" and "Handle API errors".
"""

from __future__ import annotations

import re

from nodemanager import errors
from nodemanager.cloud.refusal import CodedRefusal, words

QUOTA = words(
    """
    IP_SPACE_EXHAUSTED IP_SPACE_EXHAUSTED_WITH_DETAILS QUOTA_EXCEEDED limitExceeded quotaExceeded
    """
)
"""The project can have no more nodes of any size. A subnet without free addresses counts as such a
limit, because the remedy is the same."""

_METRIC = re.compile(r"Quota '(\w+)' exceeded")
_OF_FAMILY = re.compile(r"\w+_CPUS|CPUS_PER_VM_FAMILY|(\w+_)?(NVIDIA|GPUS|LOCAL_SSD)_\w+")
"""The quotas of one family's cores or accelerators; CPUS is that of the oldest families together,
and of those that have none of their own."""

CAPACITY = words(
    """
    RESOURCE_POOL_EXHAUSTED ZONE_RESOURCE_POOL_EXHAUSTED ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS
    resourcePoolExhausted stockout zoneResourcePoolExhausted
    """
)
"""The zone has no capacity for this size now; it may have some for another size."""

THROTTLED = words(
    """
    RATE_LIMIT_EXCEEDED RESOURCE_OPERATION_RATE_EXCEEDED concurrentLimitExceeded dailyLimitExceeded
    operationRateExceeded rateLimitExceeded resourceOperationRateExceeded userRateLimitExceeded
    """
)

UNAUTHORIZED = words(
    """
    PERMISSIONS_ERROR SERVICE_ACCOUNT_ACCESS_DENIED accessNotConfigured accountDisabled authError
    billingNotEnabled expired forbidden insufficientPermissions required
    """
)

UNDECIDED = words(
    """
    INTERNAL_ERROR SERVICE_UNAVAILABLE TIMEOUT backendError internalError internalServerError
    serviceUnavailable timeout
    """
)
"""The request may have taken effect."""

NOT_READY = "resourceNotReady"
EXISTS = frozenset({"alreadyExists", "RESOURCE_ALREADY_EXISTS"})
IN_USE = frozenset({"resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"})


class Refusal(CodedRefusal):
    """An error answer, or an operation's error, with one of Google's own codes."""

    MEANINGS = (
        (QUOTA, errors.QuotaExceeded),
        (CAPACITY, errors.CapacityUnavailable),
        (THROTTLED, errors.Throttled),
        (UNAUTHORIZED, errors.Unauthorized),
        (UNDECIDED, errors.CloudError),
        (EXISTS, errors.BadRequest),
    )
    NOT_FOUND = "notFound"

    @property
    def meaning(self) -> type[errors.CloudError]:
        found = _METRIC.search(self.message) if self.code in QUOTA else None
        if found is None:
            return super().meaning
        if found[1] == "PREEMPTIBLE_CPUS":
            return errors.SpotQuotaExceeded
        return (
            errors.FamilyQuotaExceeded if _OF_FAMILY.fullmatch(found[1]) else errors.QuotaExceeded
        )
