"""What clouds mean by the words in which they refuse, and whom a quota concerns (D6, CL4, CL5)."""

from __future__ import annotations

import pytest

from nodemanager import errors
from nodemanager.cloud.azure.errors import Refusal as Azure
from nodemanager.cloud.gce.errors import Refusal as Gce
from nodemanager.cloud.refusal import CodedRefusal
from tests.cases import cases


def of_google(metric: str) -> Gce:
    text = f"Quota '{metric}' exceeded.  Limit: 24.0 in region us-central1."
    return Gce("QUOTA_EXCEEDED", text, 403)


def of_azure(name: str, code: str = "OperationNotAllowed") -> Azure:
    text = f"Operation could not be completed as it results in exceeding approved {name} quota."
    return Azure(code, text, 409)


@cases(
    ("refusal", "meaning"),
    {
        "gce": (of_google("CPUS"), errors.QuotaExceeded),
        "gce-everywhere": (of_google("CPUS_ALL_REGIONS"), errors.QuotaExceeded),
        "gce-addresses": (of_google("IN_USE_ADDRESSES"), errors.QuotaExceeded),
        "gce-family": (of_google("C3_CPUS"), errors.FamilyQuotaExceeded),
        "gce-gpus": (of_google("NVIDIA_T4_GPUS"), errors.FamilyQuotaExceeded),
        "gce-spot-gpu": (of_google("PREEMPTIBLE_NVIDIA_L4_GPUS"), errors.FamilyQuotaExceeded),
        "gce-spot": (of_google("PREEMPTIBLE_CPUS"), errors.SpotQuotaExceeded),
        "gce-unnamed": (Gce("quotaExceeded", "no metric", 403), errors.QuotaExceeded),
        "azure": (of_azure("Total Regional Cores"), errors.QuotaExceeded),
        "azure-family": (of_azure("standardNDSFamily Cores"), errors.FamilyQuotaExceeded),
        "azure-code": (
            of_azure("standardDSv3Family Cores", "QuotaExceeded"),
            errors.FamilyQuotaExceeded,
        ),
        "azure-spot": (of_azure("LowPriorityCores"), errors.SpotQuotaExceeded),
    },
)
def test_a_quota_concerns_all_nodes_those_of_a_family_or_spot_nodes(
    refusal: CodedRefusal, meaning: type[errors.CloudError]
) -> None:
    error = refusal.typed("create n1")
    assert type(error) is meaning
    assert error.definite


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("SpotPriceGreaterThanProvidedMaxPrice", errors.CapacityUnavailable),
        ("SubscriptionDisabled", errors.Unauthorized),
        ("VMMarketplaceInvalidInput", errors.BadRequest),
    ],
)
def test_azures_words_for_an_operation_that_failed_are_known(
    code: str, meaning: type[errors.CloudError]
) -> None:
    """CL4: each was an error of which nobody knew whether it had an effect."""
    assert type(Azure(code, "as it says", 409).typed("create n1")) is meaning
