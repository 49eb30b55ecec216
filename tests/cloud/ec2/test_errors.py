"""EC2's own error codes decide what a refusal means, whatever the HTTP status (D6, U6)."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from nodemanager.cloud.ec2 import errors as ec2_errors
from nodemanager.cloud.transport import wait_asked_for
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    CloudError,
    FamilyQuotaExceeded,
    ForeignAnswer,
    QuotaExceeded,
    SpotQuotaExceeded,
    Throttled,
    Unauthorized,
)
from tests.cases import cases
from tests.cloud.ec2.helpers import cloud, order
from tests.cloud.ec2.moto_server import MotoServer, plain, refusal


def refused(server: MotoServer) -> CloudError:
    with pytest.raises(CloudError) as caught:
        cloud(server).create(order())
    return caught.value


CODES = (
    ("InstanceLimitExceeded", 400, QuotaExceeded),
    ("VcpuLimitExceeded", 400, FamilyQuotaExceeded),
    ("MaxSpotInstanceCountExceeded", 400, SpotQuotaExceeded),
    ("InsufficientFreeAddressesInSubnet", 400, QuotaExceeded),
    ("VolumeLimitExceeded", 400, QuotaExceeded),
    ("InsufficientInstanceCapacity", 500, CapacityUnavailable),
    ("InsufficientInstanceCapacity", 400, CapacityUnavailable),
    ("Server.InsufficientInstanceCapacity", 500, CapacityUnavailable),
    ("SpotMaxPriceTooLow", 400, CapacityUnavailable),
    ("Unsupported", 400, CapacityUnavailable),
    ("RequestLimitExceeded", 503, Throttled),
    ("Throttling", 400, Throttled),
    ("UnauthorizedOperation", 403, Unauthorized),
    ("AuthFailure", 401, Unauthorized),
    ("ExpiredToken", 400, Unauthorized),
    ("RequestExpired", 400, Unauthorized),
    ("InvalidAMIID.NotFound", 400, BadRequest),
    ("MissingParameter", 400, BadRequest),
    ("IncorrectInstanceState", 400, BadRequest),
    ("OperationNotPermitted", 400, BadRequest),
    ("ACodeOfTomorrow", 400, BadRequest),
    # The last is a new code.
)


def test_a_refusal_by_code_is_typed_and_definite(server: MotoServer) -> None:
    for code, status, kind in CODES:
        server.fault("RunInstances", before=refusal(code, status, "because of that"))
        error = refused(server)
        assert (type(error), error.definite) == (kind, True), code
        assert f"{code.removeprefix('Server.')}: because of that" in str(error)
    assert cloud(server).list_nodes().items == ()


@cases(
    ("code", "status"),
    {
        "internal-error": ("InternalError", 500),
        "unavailable": ("Unavailable", 503),
        "service-unavailable": ("ServiceUnavailable", 503),
        "internal-failure-400": ("InternalFailure", 400),
        "token-used-before": ("IdempotentParameterMismatch", 400),
        "a-new-code-500": ("ACodeOfTomorrow", 500),
    },
)
def test_a_code_that_decides_nothing_is_not_definite(
    server: MotoServer, code: str, status: int
) -> None:
    server.fault("RunInstances", before=refusal(code, status))
    error = refused(server)
    assert type(error) is CloudError
    assert not error.definite


@cases(
    ("status", "kind", "definite"),
    {
        "503": (503, CloudError, False),
        "500": (500, CloudError, False),
        "504": (504, CloudError, False),
        "a-proxy-s-403": (403, ForeignAnswer, False),
        "a-proxy-s-413": (413, ForeignAnswer, False),
        "429": (429, Throttled, True),
    },
)
def test_without_a_code_of_ec2_s_only_a_429_is_definite(
    server: MotoServer, status: int, kind: type[CloudError], definite: bool
) -> None:
    server.fault("RunInstances", before=plain(status, "<html>a proxy speaks</html>"))
    error = refused(server)
    assert type(error) is kind
    assert error.definite is definite


@cases(
    "header",
    {
        "no-year": "Mon, 01 Jan 99999999999 00:00:00 GMT",
        "the-first-year": "Mon, 01 Jan 0001 00:00:00 -0000",
        "no-hour": "Mon, 01 Jan 2024 99:00:00 GMT",
        "for-ever": "1e999",
        "no-number": "nan",
        "ago": "-5",
        "a-word": "soon",
    },
)
def test_a_retry_after_that_says_no_time_is_none(header: str) -> None:
    """D6, N10."""
    assert wait_asked_for(header) is None


def test_retry_after_may_be_a_date() -> None:
    wait = wait_asked_for(formatdate(time.time() + 60, usegmt=True))
    assert wait is not None
    assert 50 < wait <= 60


def test_an_outage_without_a_code_tells_when_to_come_back(server: MotoServer) -> None:
    server.fault("DescribeInstances", before=plain(503, "busy", retry_after="30"))
    with pytest.raises(CloudError) as caught:
        cloud(server).list_nodes()
    assert caught.value.retry_after == 30.0


def test_no_code_has_two_meanings() -> None:
    kinds = [
        ec2_errors.QUOTA,
        ec2_errors.CAPACITY,
        ec2_errors.THROTTLED,
        ec2_errors.UNAUTHORIZED,
        ec2_errors.UNDECIDED,
    ]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
