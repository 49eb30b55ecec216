"""`check-cloud` on each cloud that can be had here: every check ends, and says what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus
from nodemanager.preflight.checks import CheckResult
from tests.cases import cases
from tests.cloud.files import asked, of_gce, of_libvirt, of_openstack
from tests.cloud.gce.server import GceServer
from tests.cloud.openstack.server import OpenStackServer, plain

pytestmark = pytest.mark.socket

DESCRIBED = "cores = 1\nram = 2048\nprice = 0.02\n"
FITS = "cores = 1\nram = 512\nprice = 0.02\n"
"""What libvirt's test host has memory for, once."""
NAMES = {"credentials", "listing", "tag filter", "image", "earlier pre-flight"}


def fine(answers: dict[str, CheckResult]) -> None:
    """All that every cloud is asked is there, and all of it is fine."""
    assert answers.keys() >= NAMES
    of_cloud = {name: one.found for name, one in answers.items() if not name.startswith("ping")}
    assert {name for name, found in of_cloud.items() if found.mark is not CheckStatus.FINE} == set()


def test_a_gce_project_is_asked(gce: GceServer, tmp_path: Path) -> None:
    size = "[Size n1-standard-1]\nprice = 0.05\n"
    answers = asked(tmp_path, "gce", of_gce(gce) + size)
    fine(answers)
    assert answers["size n1-standard-1"].found.text == "1 cores, 3840 MB, 0.05 an hour"


def test_an_openstack_project_is_asked(openstack: OpenStackServer, tmp_path: Path) -> None:
    answers = asked(
        tmp_path, "openstack", of_openstack(openstack) + f"[Size m1.small]\n{DESCRIBED}"
    )
    fine(answers)
    assert answers["sizes"].found.text == "the file describes 1"


@cases(
    ("sizes", "said"),
    {
        "none": ("", "boots only sizes that the file has"),
        "half": ("[Size m1.small]\nprice = 1\n", "cores, ram and price must be"),
    },
)
def test_a_size_that_only_openstack_describes_fails(
    openstack: OpenStackServer, tmp_path: Path, sizes: str, said: str
) -> None:
    """The manager would not start on such a file, although the cloud has the size."""
    found = asked(tmp_path, "openstack", of_openstack(openstack) + sizes)["sizes"].found
    assert found.mark is CheckStatus.FAILED
    assert said in found.text


def test_sizes_that_can_t_be_listed_stop_no_other_check(
    openstack: OpenStackServer, tmp_path: Path
) -> None:
    openstack.fault("compute GET /flavors/detail", before=plain(503, "no"), times=99)
    text = of_openstack(openstack) + f"[Size m1.small]\n{DESCRIBED}"
    answers = asked(tmp_path, "openstack", text)
    failed = {name for name, one in answers.items() if one.found.mark is CheckStatus.FAILED}
    assert failed - {"ping address"} == {
        "sizes",
        "offer of m1.small",
    }
    assert answers["image"].found.mark is CheckStatus.FINE
    assert "earlier pre-flight" in answers


@pytest.mark.server("libvirt")
def test_a_hypervisor_is_asked(hypervisor: Any, tmp_path: Path) -> None:
    answers = asked(tmp_path, "libvirt", f"{of_libvirt()}[Size small]\n{FITS}")
    fine(answers)
    assert answers["size small"].found.text == "1 cores, 512 MB, 0.02 an hour"


@pytest.mark.parametrize("provider", ["gce", "openstack"])
def test_credentials_that_do_not_work_end_the_questions(
    gce: GceServer, openstack: OpenStackServer, tmp_path: Path, provider: str
) -> None:
    text = {"gce": of_gce(gce), "openstack": of_openstack(openstack)}[provider]
    nowhere = text.replace(gce.url, "http://127.0.0.1:9").replace(
        openstack.url, "http://127.0.0.1:9"
    )
    answers = asked(tmp_path, provider, nowhere)
    assert answers["credentials"].found.mark is CheckStatus.FAILED
    assert "listing" not in answers
