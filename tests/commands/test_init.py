"""`nodemanager init`: what it asks, what it writes, and what it never overwrites."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nodemanager import cli
from nodemanager.adapters import accepted_keys
from nodemanager.commands import init
from nodemanager.config import load
from nodemanager.config.providers import PROVIDERS

READY = ("--provider", "ec2", "--yes", "--no-check")
CLOUDS = """clouds:
  mine:
    auth: {auth_url: 'https://keystone', username: a, password: hush-hush, project_name: lab}
"""
IMAGE = ("--set", "image_id=ami-0123456789abcdef0")


@pytest.fixture(autouse=True)
def _in_its_own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))


def invoke(*arguments: str, said: str = "") -> Result:
    return CliRunner().invoke(cli.group, ["init", *arguments], input=said, prog_name="nodemanager")


def test_the_file_has_safe_caps_and_the_answers() -> None:
    done = invoke(*READY, *IMAGE, "--set", "Size=m5.large,c5.large", "mine.cfg")
    assert done.exit_code == 0, done.output
    config = load("mine.cfg")
    assert (config.daemon.pool, config.daemon.min_nodes, config.daemon.max_nodes) == ("mine", 0, 2)
    assert config.daemon.max_total_price == 1.0
    assert config.cloud_create["image_id"] == "ami-0123456789abcdef0"
    # The sample describes the first; the second is the cloud's own.
    prices = {one.name: one.price for one in config.sizes}
    assert prices == {"m5.large": 0.096, "c5.large": None}
    assert "check-cloud --boot mine.cfg" in done.output


def test_it_keeps_what_the_sample_explains() -> None:
    invoke(*READY, *IMAGE, "--set", "Size=m5.large, m5.xlarge", "mine.cfg")
    sample = init.samples_found()["ec2"].read_text().splitlines()
    written = Path("mine.cfg").read_text().splitlines()
    assert [line for line in sample if line not in written] == ["#image_id = ami-0123456789abcdef0"]


def test_it_asks_and_takes_defaults() -> None:
    answers = ("ec2", "eu-west-1", "", "", "", "ami-1", "", "", "", "", "5", "", "")
    done = invoke("--no-check", "mine.cfg", said="\n".join(answers) + "\n")
    assert done.exit_code == 0, done.output
    config = load("mine.cfg")
    assert config.cloud_credentials == {"region": "eu-west-1"}
    assert config.cloud_create["image_id"] == "ami-1"
    assert [one.name for one in config.sizes] == ["m5.large"]
    assert config.daemon.max_nodes == 5


def test_a_file_is_never_overwritten_without_being_told() -> None:
    path = Path("mine.cfg")
    path.write_text("mine\n")
    refused = invoke(*READY, *IMAGE, "mine.cfg")
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert path.read_text() == "mine\n"
    assert invoke(*READY, *IMAGE, "--force", "mine.cfg").exit_code == 0
    assert "ami-0123456789abcdef0" in path.read_text()
    assert sorted(os.listdir(".")) == ["mine.cfg"]


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        pytest.param(("--set", "secret=hush-hush"), 0o600, id="a-secret"),
        pytest.param(("--set", "secret_file=/run/secret"), 0o644, id="the-path-of-one"),
        pytest.param((), 0o644, id="none"),
    ],
)
def test_only_the_owner_reads_a_secret(
    more: tuple[str, ...], mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "checked", lambda path, no_check: True)
    before = os.umask(0o022)
    try:
        done = invoke(*READY, *IMAGE, *more, "mine.cfg")
    finally:
        os.umask(before)
    assert done.exit_code == 0, done.output
    assert os.stat("mine.cfg").st_mode & 0o777 == mode
    assert "hush-hush" not in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--yes",), "--yes needs --provider", id="no-provider"),
        pytest.param(("--provider", "ec3", "--yes"), "did you mean 'ec2'", id="a-typo"),
        pytest.param(READY, "--set Cloud Create.image_id=...", id="no-image"),
        pytest.param((*READY, "--set", "imageid=x"), "did you mean 'image_id'", id="no-option"),
        pytest.param((*READY, "--set", "image_id"), "option=value", id="no-value"),
        pytest.param((*READY, "--set", "provider=x"), "which of", id="a-section-is-needed"),
    ],
)
def test_what_is_wrong_with_the_words_is_told_and_nothing_is_written(
    arguments: tuple[str, ...], said: str
) -> None:
    done = invoke(*arguments, "mine.cfg")
    assert done.exit_code == 2
    assert said in done.output
    assert os.listdir(".") == []


VALID = {
    "Cloud Create.image_id": "ami-1",
    "Cloud Credentials.subscription_id": "11111111-2222-4333-8444-555555555555",
    "Cloud Credentials.tenant_id": "example.org",
    "Cloud Create.ssh_key": __file__,
}
"""Answers to what is required and checked before the cloud is asked."""


@pytest.mark.parametrize(
    ("provider", "login"),
    [
        *(
            pytest.param(one, "", marks=pytest.mark.server(one) if one == "libvirt" else ())
            for one in sorted({*init.samples_found()} - {"openstack"})
        ),
        *(("openstack", login) for login in (init.CREDENTIAL, init.PASSWORD, init.CLOUD)),
    ],
)
def test_each_sample_makes_a_file_with_nothing_but_what_is_required(
    provider: str, login: str
) -> None:
    required = [
        word
        for ask in init.QUESTIONS.get(provider, ())
        if ask.required and not ask.default and (login in ask.logins or not ask.logins)
        for word in ("--set", f"{ask.option}={VALID.get(ask.option, 'x-1')}")
    ]
    if login == init.CLOUD:
        Path("clouds.yaml").write_text(CLOUDS.replace("mine", "x-1"), encoding="utf-8")
        required += ["--set", "clouds_yaml=clouds.yaml"]
    done = invoke("--provider", provider, "--yes", "--no-check", *required)
    assert done.exit_code == 0, done.output
    assert load(f"{provider}.cfg").daemon.max_nodes == 2


def test_each_question_is_about_a_sample_that_is_there() -> None:
    assert set(init.QUESTIONS) <= set(init.samples_found())


def test_each_cloud_with_an_adapter_is_asked_about() -> None:
    assert set(PROVIDERS) - {"dummy"} == set(init.QUESTIONS)


@pytest.mark.parametrize(
    ("provider", "answers", "expected"),
    [
        pytest.param(
            "gce",
            ("my-project", "", "europe-west1-b", "", "", "ping.example.org", "", *[""] * 3),
            {
                "project": "my-project",
                "zone": "europe-west1-b",
                "image": "ubuntu-2404-lts-amd64",
                "ping_host": "ping.example.org",
                "sizes": {"e2-standard-2": (2, None, 0.067)},
            },
            id="gce",
        ),
        pytest.param(
            "azure",
            (
                *("11111111-2222-4333-8444-555555555555", "example.org", "West Europe", "me"),
                *("hush-hush", "pool", "", "inner", __file__, "ping.example.org", "", *[""] * 3),
            ),
            {
                "region": "West Europe",
                "secret": "hush-hush",
                "image": "Canonical:ubuntu-24_04-lts:server:latest",
                "network": "inner",
                "ssh_key": __file__,
                "sizes": {"Standard_D2s_v4": (2, None, 0.096)},
            },
            id="azure",
        ),
        pytest.param(
            "openstack",
            (
                *("", "https://keystone.example.org:5000", "an-id", "hush-hush", "", "node-1", ""),
                *("", "m1.small, c2.big cores=8 ram=16000 price=0.2", *[""] * 3),
            ),
            {
                "auth_url": "https://keystone.example.org:5000",
                "application_credential_id": "an-id",
                "application_credential_secret": "hush-hush",
                "image": "node-1",
                "sizes": {"m1.small": (1, 2048, 0.02), "c2.big": (8, 16000, 0.2)},
            },
            id="openstack",
        ),
        pytest.param(
            "openstack",
            (
                *("password", "https://keystone.example.org:5000", "alice", "hush-hush", "lab", ""),
                *("RegionOne", "node-1", "", "", "", *[""] * 3),
            ),
            {
                "auth_url": "https://keystone.example.org:5000",
                "username": "alice",
                "password": "hush-hush",
                "project": "lab",
                "domain": "Default",
                "region": "RegionOne",
                "image": "node-1",
                "sizes": {"m1.small": (1, 2048, 0.02)},
            },
            id="openstack-by-password",
        ),
        pytest.param(
            "openstack",
            ("clouds.yaml", "mine", "clouds.yaml", "", "node-1", *[""] * 6),
            {
                "cloud": "mine",
                "clouds_yaml": "clouds.yaml",
                "image": "node-1",
                "sizes": {"m1.small": (1, 2048, 0.02)},
            },
            id="openstack-by-clouds-yaml",
        ),
        pytest.param(
            "libvirt",
            ("", "", "node.qcow2", "", "", "small ram=4096, huge cores=9 ram=1 price=2", *[""] * 3),
            {
                "uri": "qemu:///system",
                "storage_pool": "default",
                "network": "default",
                "image": "node.qcow2",
                "sizes": {"small": (1, 4096, 0.01), "huge": (9, 1, 2.0)},
            },
            marks=pytest.mark.server("libvirt"),
            id="libvirt",
        ),
    ],
)
def test_each_cloud_s_questions_make_a_file_that_its_adapter_takes(
    provider: str, answers: tuple[str, ...], expected: dict[str, object]
) -> None:
    Path("clouds.yaml").write_text(CLOUDS, encoding="utf-8")
    done = invoke("--no-check", "mine.cfg", said="\n".join((provider, *answers)) + "\n")
    assert done.exit_code == 0, done.output
    assert "hush-hush" not in done.output
    config = load("mine.cfg", accepts=accepted_keys)
    given = {**config.cloud_credentials, **config.cloud_create}
    sizes = {one.name: (one.cores, one.ram_mb, one.price) for one in config.sizes}
    assert {**given, "sizes": sizes}.items() >= expected.items()


def test_two_ways_to_log_in_at_once_are_refused() -> None:
    given = {"application_credential_id": "x", "username": "alice", "image": "node-1"}
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    done = invoke("--provider", "openstack", "--yes", "--no-check", *words)
    assert done.exit_code == 2
    assert "log in by one of credential, password" in done.output
    assert os.listdir(".") == []


def test_a_secret_s_file_takes_the_place_of_the_sample_s_secret() -> None:
    Path("secret").write_text("hush-hush\n")
    given = {
        "auth_url": "https://keystone.example.org",
        "application_credential_id": "x",
        "application_credential_secret_file": str(Path("secret").resolve()),
        "image": "node-1",
    }
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    done = invoke("--provider", "openstack", "--yes", "--no-check", *words, "mine.cfg")
    assert done.exit_code == 0, done.output
    told = load("mine.cfg", accepts=accepted_keys).cloud_credentials
    assert told["application_credential_secret"] == "hush-hush"
    assert "hush-hush" not in Path("mine.cfg").read_text()
