"""The EC2 adapter's connection, account and sizes, on a real EC2 API server over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from werkzeug.serving import make_ssl_devcert

from nodemanager.errors import CloudError
from tests.cases import cases
from tests.cloud.ec2.helpers import cloud, order
from tests.cloud.ec2.moto_server import MotoServer, plain, refusal


def test_the_account_is_one_stable_line(server: MotoServer) -> None:
    ec2 = cloud(server, credentials={"key": "a", "secret": "b", "region": "eu-west-1"})
    line = ec2.account()
    assert line == f"account=123456789012 region=eu-west-1 endpoint={server.url}"
    assert (
        cloud(server, credentials={"region": "eu-west-1", "key": "c", "secret": "d"}).account()
        == line
    )


def test_an_api_without_sts_is_told_by_region_and_endpoint(server: MotoServer) -> None:
    server.fault("GetCallerIdentity", before=refusal("InvalidAction", 400))
    assert cloud(server).account() == f"account=unknown region=us-east-1 endpoint={server.url}"


def test_a_failing_sts_is_an_error_not_another_account(server: MotoServer) -> None:
    server.fault("GetCallerIdentity", before=plain(503, "busy"))
    with pytest.raises(CloudError):
        cloud(server).account()


def test_the_region_is_signed_for_even_where_libcloud_does_not_know_it(
    server: MotoServer,
) -> None:
    ec2 = cloud(server, credentials={"key": "a", "secret": "b", "region": "ap-southeast-7"})
    assert ec2.list_nodes().items == ()
    (call,) = server.called("DescribeInstances")
    assert "/ap-southeast-7/ec2/aws4_request" in call.headers["authorization"]
    assert len(ec2.list_sizes()) > 100


def test_sizes_tell_an_unknown_price_from_a_price_of_zero(server: MotoServer) -> None:
    sizes = {size.instance_type: size for size in cloud(server).list_sizes()}
    assert len(sizes) == 800
    assert (sizes["m5.large"].cores, sizes["m5.large"].ram_mb) == (2, 8192)
    assert sizes["m5.large"].price == pytest.approx(0.096)
    unknown = [size for size in sizes.values() if size.price is None]
    assert len(unknown) == 118
    assert not [size for size in sizes.values() if size.price == 0]


def test_driver_class_is_used(server: MotoServer) -> None:
    ec2 = cloud(server, driver_class="tests.cloud.ec2.driver.CountingDriver")
    ec2.create(order())
    assert ec2.list_nodes().items
    agents = {call.headers["user-agent"] for call in server.calls}
    assert all("Counting EC2" in agent for agent in agents)


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MotoServer, str]]:
    """A server whose certificate only its own file vouches for, and that file."""
    certificate, key = make_ssl_devcert(str(tmp_path_factory.mktemp("tls") / "own"), "localhost")
    moto = MotoServer(tls=(certificate, key)).start()
    yield moto, certificate
    moto.stop()


@pytest.mark.socket
@cases("option", {"its-own-authority": "ca_bundle", "insecure": "insecure"})
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_server_s_certificate_is_verified_unless_told_otherwise(
    tls_server: tuple[MotoServer, str], option: str
) -> None:
    server, certificate = tls_server
    endpoint = {"key": "a", "secret": "b", "endpoint": f"localhost:{server.port}"}
    with pytest.raises(CloudError) as caught:
        cloud(server, credentials=endpoint).list_nodes()
    assert isinstance(caught.value.__cause__, requests.exceptions.SSLError)
    told = {"ca_bundle": certificate, "insecure": "yes"}[option]
    trusting = cloud(server, credentials={**endpoint, option: told})
    assert trusting.list_nodes().complete
    assert trusting.account().startswith("account=123456789012 ")


def test_a_netrc_file_does_not_replace_the_signature(
    server: MotoServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    cloud(server).list_nodes()
    assert server.calls[-1].key_id == "AKIDEXAMPLE"


def test_an_image_that_is_no_ami_is_not_known_d15(server: MotoServer) -> None:
    assert cloud(server, create={"image_id": "resolve:ssm:/golden"}).image() is None
