"""EC2's own error codes decide what a refusal means, whatever the HTTP status (D6, U6)."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from nodemanager import errors
from nodemanager.cloud.ec2 import errors as ec2_errors
from nodemanager.cloud.transport import wait_asked_for
from tests.cases import cases
from tests.cloud.ec2.helpers import cloud, order
from tests.cloud.ec2.moto_server import MotoServer, plain, refusal


def refused(server: MotoServer) -> errors.CloudError:
    with pytest.raises(errors.CloudError) as caught:
        cloud(server).create(order())
    return caught.value


CODES = (
    ("InstanceLimitExceeded", 400, errors.QuotaExceeded),
    ("VcpuLimitExceeded", 400, errors.FamilyQuotaExceeded),
    ("MaxSpotInstanceCountExceeded", 400, errors.SpotQuotaExceeded),
    ("InsufficientFreeAddressesInSubnet", 400, errors.QuotaExceeded),
    ("VolumeLimitExceeded", 400, errors.QuotaExceeded),
    ("InsufficientInstanceCapacity", 500, errors.CapacityUnavailable),
    ("InsufficientInstanceCapacity", 400, errors.CapacityUnavailable),
    ("Server.InsufficientInstanceCapacity", 500, errors.CapacityUnavailable),
    ("SpotMaxPriceTooLow", 400, errors.CapacityUnavailable),
    ("Unsupported", 400, errors.CapacityUnavailable),
    ("RequestLimitExceeded", 503, errors.Throttled),
    ("Throttling", 400, errors.Throttled),
    ("UnauthorizedOperation", 403, errors.Unauthorized),
    ("AuthFailure", 401, errors.Unauthorized),
    ("ExpiredToken", 400, errors.Unauthorized),
    ("RequestExpired", 400, errors.Unauthorized),
    ("InvalidAMIID.NotFound", 400, errors.BadRequest),
    ("MissingParameter", 400, errors.BadRequest),
    ("IncorrectInstanceState", 400, errors.BadRequest),
    ("OperationNotPermitted", 400, errors.BadRequest),
    ("ACodeOfTomorrow", 400, errors.BadRequest),
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
    assert type(error) is errors.CloudError
    assert not error.definite


@cases(
    ("status", "kind", "definite"),
    {
        "503": (503, errors.CloudError, False),
        "500": (500, errors.CloudError, False),
        "504": (504, errors.CloudError, False),
        "a-proxy-s-403": (403, errors.ForeignAnswer, False),
        "a-proxy-s-413": (413, errors.ForeignAnswer, False),
        "429": (429, errors.Throttled, True),
    },
)
def test_without_a_code_of_ec2_s_only_a_429_is_definite(
    server: MotoServer, status: int, kind: type[errors.CloudError], definite: bool
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
    with pytest.raises(errors.CloudError) as caught:
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
