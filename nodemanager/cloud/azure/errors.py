"""What Azure's error codes mean to us (SAFETY.md D6, U6).

A request is refused with a code, such as `SkuNotAvailable`; an operation that a request began fails
with a code, such as `AllocationFailed`. The code decides, but for 429: compute throttles with
`OperationNotAllowed`, which is also its word for a quota that is used up and for a disk in use.
The codes come from Microsoft's "Resolve errors for Azure resource deployments", "Troubleshoot
allocation failures", "Troubleshooting API throttling errors" and "Error codes for Spot VMs".
"""

from __future__ import annotations

import re

from nodemanager import errors
from nodemanager.cloud.refusal import CodedRefusal, words

QUOTA = words("QuotaExceeded ResourceQuotaExceeded SubnetIsFull")
"""The subscription can have no more nodes of any size. A subnet without free addresses counts as
such a limit, because the remedy is the same. So does a code that ends in CountLimitReached."""

CAPACITY = words(
    """
    AllocationFailed OverconstrainedAllocationRequest OverconstrainedZonalAllocationRequest
    SkuNotAvailable SpotPriceGreaterThanProvidedMaxPrice ZonalAllocationFailed
    """
)
"""The region or zone has no capacity for this size now, or none at that price; it may have some for
another size."""

THROTTLED = words("ResourceRequestsThrottled SubscriptionRequestsThrottled TooManyRequests")

UNAUTHORIZED = words(
    """
    AuthenticationFailed AuthenticationFailedMissingToken AuthorizationFailed
    ExpiredAuthenticationToken InvalidAuthenticationToken InvalidAuthenticationTokenTenant
    InvalidSubscriptionId LinkedAuthorizationFailed ReadOnlyDisabledSubscription
    SubscriptionDisabled SubscriptionNotFound
    """
)

REFUSED = words(
    """
    MissingSubscriptionRegistration OperationNotAllowed PropertyChangeNotAllowed
    RequestDisallowedByPolicy ScopeLocked VMMarketplaceInvalidInput
    """
)
"""Definite, whatever the status: Azure sends them with 403 or 409."""

IN_USE = words(
    """
    AnotherOperationInProgress InUsePublicIpAddressCannotBeDeleted NicInUse NicReservedForAnotherVm
    OperationNotAllowed PublicIPAddressCannotBeDeleted
    """
)
"""A thing that came into use after we checked it. Azure keeps an interface for a machine whose
create failed for three minutes."""

_QUOTA_IN_TEXT = re.compile(r"\bquota\b", re.IGNORECASE)


_FAMILY = re.compile(r"approved \w*Family ")
_SPOT = re.compile(r"approved (LowPriorityCores|Spot) ", re.IGNORECASE)


def _quota(message: str) -> type[errors.CloudError]:
    """Azure names the quota in the text alone: a family's cores, spot cores, or all of a region."""
    if _SPOT.search(message):
        return errors.SpotQuotaExceeded
    return errors.FamilyQuotaExceeded if _FAMILY.search(message) else errors.QuotaExceeded


class Refusal(CodedRefusal):
    """An error answer, or an operation's error, with one of Azure's own codes."""

    MEANINGS = (
        (QUOTA, errors.QuotaExceeded),
        (CAPACITY, errors.CapacityUnavailable),
        (THROTTLED, errors.Throttled),
        (UNAUTHORIZED, errors.Unauthorized),
        (REFUSED, errors.BadRequest),
    )
    NOT_FOUND = "ResourceNotFound"
    """The thing itself does not exist, in a resource group that does: a group that does not exist
    is `ResourceGroupNotFound`, and no evidence about a node."""

    @property
    def meaning(self) -> type[errors.CloudError]:
        if self.status == 429:
            return errors.Throttled
        of_quota = self.code == "OperationNotAllowed" and _QUOTA_IN_TEXT.search(self.message)
        if of_quota or self.code.endswith("CountLimitReached"):
            return _quota(self.message)
        return _quota(self.message) if self.code in QUOTA else super().meaning

    @property
    def is_taken(self) -> bool:
        """Azure's answer to `If-None-Match: *` for a name that is in use, whatever its code."""
        return self.status == 412
