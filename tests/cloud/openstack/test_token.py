"""Tokens, endpoints and the account of the OpenStack adapter (L5)."""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.errors import BadRequest, CloudError, ForeignAnswer, Throttled, Unauthorized
from tests.cases import cases
from tests.cloud.faults import Reply, truncated
from tests.cloud.openstack.helpers import BY_CREDENTIAL, BY_PASSWORD, cloud, order
from tests.cloud.openstack.server import PROJECT_ID, OpenStackServer, changed, plain, refusal

pytestmark = pytest.mark.socket
TOKENS, LIST = "identity POST /auth/tokens", "compute GET /servers/detail"
CREATE = "compute POST /servers"


@cases(
    "credentials",
    {
        "application-credential": BY_CREDENTIAL,
        "password": BY_PASSWORD,
        "project-id": {
            "username": "manager",
            "password": "s3cret-password",
            "project_id": PROJECT_ID,
        },
        "region": {**BY_PASSWORD, "region": "RegionOne", "interface": "internal"},
    },
)
def test_the_credentials_lead_to_the_project(
    openstack: OpenStackServer, credentials: dict[str, str]
) -> None:
    ours = cloud(openstack, credentials=credentials)
    assert ours.account().startswith(f"project={PROJECT_ID} region=")
    assert ours.list_nodes().complete


@pytest.mark.parametrize("tail", ["", "/", "/v3", "/v3/"])
def test_auth_url_may_name_the_version_or_not(openstack: OpenStackServer, tail: str) -> None:
    url = openstack.auth_url.removesuffix("/v3") + tail
    assert cloud(openstack, credentials={**BY_CREDENTIAL, "auth_url": url}).list_nodes().complete


def test_wrong_credentials_are_unauthorized_and_in_no_text(openstack: OpenStackServer) -> None:
    wrong = {**BY_CREDENTIAL, "application_credential_secret": "wrong-secret"}
    ours = cloud(openstack, credentials=wrong)
    with pytest.raises(Unauthorized) as caught:
        ours.account()
    assert "requires authentication" in str(caught.value)
    inside: Any = ours
    shown = repr(vars(inside._provider)) + repr(inside._provider) + str(caught.value)
    assert "wrong-secret" not in shown


def test_a_credential_that_was_withdrawn_is_unauthorized(openstack: OpenStackServer) -> None:
    """Keystone answers that with 404, which elsewhere is a wrong order."""
    gone = {**BY_CREDENTIAL, "application_credential_id": "withdrawn"}
    with pytest.raises(Unauthorized, match="Could not find Application Credential: withdrawn"):
        cloud(openstack, credentials=gone).account()


def test_all_threads_share_one_token(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: ours.list_nodes(), range(8)))
    assert len(openstack.called(TOKENS)) == 1


def test_a_token_is_renewed_before_its_end(
    openstack: OpenStackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    openstack.token_s = 100.0
    ours = cloud(openstack)
    for later_s, asked in ((0.0, 1), (35.0, 1), (45.0, 2)):
        at = time.monotonic() + later_s
        with monkeypatch.context() as patched:
            patched.setattr(
                "nodemanager.cloud.transport.time", SimpleNamespace(monotonic=lambda at=at: at)
            )
            ours.list_nodes()
        assert len(openstack.called(TOKENS)) == asked
    assert all(call.headers["x-auth-token"] for call in openstack.called(LIST))


def test_a_token_that_ended_early_is_renewed_for_a_question(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    made = ours.create(order())
    openstack.revoke_tokens()
    assert [node.id for node in ours.list_nodes().items] == [made.id]
    openstack.token_s, openstack.lies_s = -1.0, 3600.0
    openstack.revoke_tokens()
    with pytest.raises(Unauthorized):
        ours.list_nodes()


def test_a_create_is_not_repeated_for_a_new_token(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    ours.list_sizes()
    ours.check_image()
    openstack.revoke_tokens()
    with pytest.raises(Unauthorized) as caught:
        ours.create(order())
    assert caught.value.definite
    assert len(openstack.called(CREATE)) == 1
    ours.create(order())


def test_a_token_for_another_project_is_not_used_until_the_account_is_told_l5(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(openstack)
    before = ours.account()
    openstack.project_id = 32 * "b"
    openstack.revoke_tokens()
    for _ in range(2):
        with pytest.raises(Unauthorized, match="L5"):
            ours.list_nodes()
    assert ours.account() != before
    assert ours.list_nodes().complete


@cases(
    ("fault", "expected"),
    {
        "a-web-page": ({"before": plain(200, "<h1>Welcome</h1>")}, ForeignAnswer),
        "a-proxy-s-404": ({"before": plain(404, "<h1>nginx</h1>")}, ForeignAnswer),
        "no-json": ({"before": plain(201, "<h1>Welcome</h1>")}, ForeignAnswer),
        "half": ({"after": truncated}, ForeignAnswer),
        "empty": ({"after": changed(lambda body: {"token": {}})}, ForeignAnswer),
        "503": ({"before": refusal(503, retry_after="9")}, CloudError),
        "429": ({"before": refusal(429, retry_after="9")}, Throttled),
        "cut": ({"before": lambda: None}, CloudError),
    },
)
def test_an_odd_answer_of_keystone_is_an_error(
    openstack: OpenStackServer, fault: dict[str, Any], expected: type[CloudError]
) -> None:
    openstack.fault(TOKENS, **fault)
    with pytest.raises(CloudError) as caught:
        cloud(openstack).account()
    assert type(caught.value) is expected
    assert len(openstack.called(TOKENS)) == 1


def test_a_keystone_that_hangs_takes_one_time_out(openstack: OpenStackServer) -> None:
    over = threading.Event()

    def hang() -> Reply:
        over.wait(30.0)
        return Reply(503, b"")

    openstack.fault(TOKENS, times=9, before=hang)
    began = time.monotonic()
    with pytest.raises(CloudError, match="Timeout"):
        cloud(openstack, timeout=0.5).account()
    took = time.monotonic() - began
    over.set()
    assert 0.4 < took < 1.5
    assert len(openstack.called(TOKENS)) == 1


def test_a_sign_in_writes_nothing_into_the_home_folder_and_no_secret_into_the_log(
    openstack: OpenStackServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    caplog.set_level(logging.DEBUG)
    cloud(openstack).account()
    (call,) = openstack.called(TOKENS)
    assert BY_CREDENTIAL["application_credential_secret"] in json.dumps(call.body)
    assert BY_CREDENTIAL["application_credential_secret"] not in caplog.text
    assert not any(token in caplog.text for token in openstack._tokens)
    assert list(tmp_path.iterdir()) == []


def test_of_several_regions_one_must_be_named(openstack: OpenStackServer) -> None:
    openstack.regions = ["RegionOne", "RegionTwo"]
    with pytest.raises(BadRequest, match=r"region: .* RegionOne, RegionTwo; name one"):
        cloud(openstack).account()
    assert cloud(openstack, credentials={**BY_CREDENTIAL, "region": "RegionTwo"}).account()
    with pytest.raises(BadRequest, match="no compute in RegionThree"):
        cloud(openstack, credentials={**BY_CREDENTIAL, "region": "RegionThree"}).account()


def test_an_endpoint_without_tls_gets_no_token(openstack: OpenStackServer) -> None:
    openstack.catalog["network"] = "http://neutron.example.org:9696"
    with pytest.raises(BadRequest, match="plain http"):
        cloud(openstack).account()
    assert cloud(openstack, credentials={**BY_CREDENTIAL, "insecure": "yes"}).account()


def test_a_cloud_without_cinder_has_nodes_without_volumes(openstack: OpenStackServer) -> None:
    del openstack.catalog["block-storage"], openstack.catalog["network"]
    ours = cloud(openstack)
    made = ours.create(order())
    assert ours.pins(made.id) == ()
    assert ours.find_leftovers() == ()


def test_a_service_that_the_catalog_lacks_is_told(openstack: OpenStackServer) -> None:
    del openstack.catalog["image"]
    with pytest.raises(BadRequest, match="no image service"):
        cloud(openstack, create={"image": "node-image"}).check_image()
    cloud(openstack).check_image()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_tls_is_checked_by_the_bundle_that_is_named(certificate: tuple[str, str]) -> None:
    server = OpenStackServer(tls=certificate).start()
    try:
        with pytest.raises(CloudError, match="SSL"):
            cloud(server).account()
        for trust in ({"ca_bundle": certificate[0]}, {"insecure": "yes"}):
            ours = cloud(server, credentials={**BY_CREDENTIAL, **trust})
            ours.create(order())
            assert ours.list_nodes().complete
    finally:
        server.stop()
