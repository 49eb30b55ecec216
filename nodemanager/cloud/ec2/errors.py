"""What EC2's error codes mean to us (SAFETY.md D6, U6).

The code decides, not the HTTP status: EC2 sends `InsufficientInstanceCapacity` with status 500
and `RequestLimitExceeded` with 503, although neither request took effect. The codes come from
Amazon's "Error codes for the Amazon EC2 API" and, where shared, from its "Common errors".
"""

from __future__ import annotations

from nodemanager import errors
from nodemanager.cloud.refusal import CodedRefusal, words

QUOTA = words(
    """
    AddressLimitExceeded InstanceLimitExceeded InsufficientFreeAddressesInSubnet
    MaxIOPSLimitExceeded NetworkInterfaceLimitExceeded
    PendingVerification PrivateIpAddressLimitExceeded ResourceCountExceeded ResourceLimitExceeded
    VolumeLimitExceeded
    """
)
"""The account can have no more nodes of any size. A subnet without free addresses counts as
such a limit, because the remedy is the same."""

FAMILY_QUOTA = frozenset({"VcpuLimitExceeded"})
"""Amazon counts vCPUs by family of types, and apart for spot nodes."""

SPOT_QUOTA = frozenset({"MaxSpotInstanceCountExceeded"})

CAPACITY = words(
    """
    InsufficientAddressCapacity InsufficientCapacity InsufficientCapacityOnHost
    InsufficientHostCapacity InsufficientInstanceCapacity InsufficientReservedInstanceCapacity
    InsufficientReservedInstancesCapacity InsufficientVolumeCapacity ReservationCapacityExceeded
    SpotMaxPriceTooLow UnfulfillableCapacity Unsupported
    """
)
"""EC2 has no capacity for this size now, or not in this zone (`Unsupported`); it may have some
for another size."""

FULL_SUBNET = frozenset({"InsufficientFreeAddressesInSubnet"})
"""A limit like any other where all nodes are in one subnet."""

THROTTLED = words(
    """
    EC2ThrottledException RequestLimitExceeded RequestThrottled RequestThrottledException SlowDown
    ThrottledException Throttling ThrottlingException TooManyRequestsException
    """
)

UNAUTHORIZED = words(
    """
    AccessDenied AccessDeniedException AuthFailure Blocked ExpiredToken ExpiredTokenException
    IncompleteSignature InvalidAccessKeyId InvalidClientTokenId InvalidSecurity InvalidSecurityToken
    MissingAuthenticationToken NotAuthorized OptInRequired RequestExpired SignatureDoesNotMatch
    UnauthorizedOperation UnrecognizedClientException ValidationError.SignatureExpired
    """
)

UNDECIDED = words(
    """
    IdempotentParameterMismatch InternalError InternalFailure InternalServerError RequestTimeout
    RequestTimeoutException ServerInternal ServiceUnavailable ServiceUnavailableException
    Unavailable
    """
)
"""The request may have taken effect. `IdempotentParameterMismatch` is among these because the
earlier call with the same client token may have made a node."""

NO_SUCH_IMAGE = frozenset(
    {"InvalidAMIID.Malformed", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable"}
)

NO_INSTANCE_ID = "InvalidInstanceID.Malformed"

NO_SUCH_ACTION = frozenset({"InvalidAction", "UnknownOperationException", "UnsupportedOperation"})


class Refusal(CodedRefusal):
    """An error answer with one of EC2's own codes."""

    MEANINGS = (
        ((NO_INSTANCE_ID,), errors.MalformedId),
        (QUOTA, errors.QuotaExceeded),
        (FAMILY_QUOTA, errors.FamilyQuotaExceeded),
        (SPOT_QUOTA, errors.SpotQuotaExceeded),
        (CAPACITY, errors.CapacityUnavailable),
        (THROTTLED, errors.Throttled),
        (UNAUTHORIZED, errors.Unauthorized),
        (UNDECIDED, errors.CloudError),
    )

    FULL_THERE = FULL_SUBNET
    NOT_FOUND = "InvalidInstanceID.NotFound"

    def __init__(self, code: str, message: str, status: int, retry_after: float | None) -> None:
        own = code.removeprefix("Client.").removeprefix("Server.")
        super().__init__(own, message, status, retry_after)
