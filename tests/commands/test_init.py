"""`nodemanager init`: what it asks, what it writes, and what it never overwrites."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nodemanager import cli
from nodemanager.app.adapters import accepted_keys
from nodemanager.commands import init
from nodemanager.commands.init_questions import DEMANDS, QUESTIONS
from nodemanager.config import load
from nodemanager.config.providers import PROVIDERS
from tests.cases import cases

REACHED = ("--set", "ping_host=ping.lab.net:8990")
READY = ("--cloud", "ec2", "--demand", "command", *REACHED, "--yes", "--no-check")
CLOUDS = """clouds:
  mine:
    auth: {auth_url: 'https://keystone', username: a, password: hush-hush, project_name: lab}
"""
IMAGE = ("--set", "image_id=ami-0a1b2c3d4e5f60718")


@pytest.fixture(autouse=True)
def _in_its_own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))


def invoke(*arguments: str, said: str = "") -> Result:
    return CliRunner().invoke(cli.group, ["init", *arguments], input=said, prog_name="nodemanager")


def made(*arguments: str, said: str = "") -> str:
    """Make mine.cfg; what is said meanwhile."""
    done = invoke(*arguments, "mine.cfg", said=said)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_file_has_safe_caps_and_the_answers() -> None:
    output = made(*READY, *IMAGE, "--sizes", "m5.large,c5.large", "--nodes", "3")
    config = load("mine.cfg")
    assert (config.daemon.pool, config.daemon.min_nodes, config.daemon.max_nodes) == ("mine", 0, 3)
    assert config.cloud_create["image_id"] == "ami-0a1b2c3d4e5f60718"
    assert config.slots == 6
    # The cloud tells what they cost in the region: three of the dearer one are the cap.
    assert {one.name: one.price for one in config.sizes} == {"m5.large": None, "c5.large": None}
    assert config.daemon.max_total_price == 0.29
    assert "check-cloud --boot mine.cfg" in output


@cases(
    ("region", "size", "cap"),
    {
        "known": ("us-east-1", "m5.large", 0.2),
        "dearer-there": ("eu-central-1", "m5.large", 0.23),
        "unknown": ("xx-nowhere-9", "m5.large", 0),
        "given": ("xx-nowhere-9", "m5.large price=0.3", 0.6),
    },
)
def test_the_cap_is_of_the_region_s_prices_or_there_is_none(
    region: str, size: str, cap: float
) -> None:
    output = made(*READY, *IMAGE, "--set", f"region={region}", "--sizes", size)
    assert load("mine.cfg").daemon.max_total_price == cap
    assert "price" not in output


def test_it_keeps_what_the_sample_explains() -> None:
    invoke(*READY, *IMAGE, "--sizes", "m5.large, m5.xlarge", "mine.cfg")
    head, found, rest = init.samples_found()["ec2"].read_text().partition("[Daemon]")
    sample = rest.splitlines()
    assert found
    written = Path("mine.cfg").read_text().splitlines()
    explained = [
        line for line in sample if line.startswith("# ") and " price per hour; " not in line
    ]
    assert [line for line in explained if line not in written] == []
    assert not set(head.splitlines()[:-1]) & set(written), "it says what is still to be set"
    assert written.index("[Size m5.large]") < written.index("[Records]")


def test_it_asks_four_questions_and_what_only_its_reader_knows() -> None:
    answers = ("ec2", "command", "", "5", "eu-west-1", "ami-1", "", "ping.lab.net:8990")
    output = made("--no-check", said="\n".join(answers) + "\n")
    asked = re.findall(r"^(\d)\. (\w+)", output, re.MULTILINE)
    assert asked == [("1", "Cloud"), ("2", "Demand"), ("3", "Sizes"), ("4", "Nodes")]
    config = load("mine.cfg")
    assert config.cloud_credentials == {"region": "eu-west-1"}
    assert config.cloud_create["image_id"] == "ami-1"
    assert [one.name for one in config.sizes] == ["m5.large"]
    assert config.daemon.max_nodes == 5


def test_a_bad_answer_is_explained_and_asked_for_again() -> None:
    answers = (
        *("aws", "ec2", "slrum", "command", "m5.large cpus=2", "m5.large cores=none"),
        *("m5.large", "many", "2", "", "ubuntu-22.04", "ami-1", "", "ping.lab.net"),
    )
    output = made("--no-check", said="\n".join(answers) + "\n")
    wrong = [line for line in output.splitlines() if line.startswith("Error: ")]
    for line, said in zip(
        wrong,
        (
            "did you mean 'ec2'?",
            "did you mean 'slurm'?",
            "'cpus' is nothing that a size has",
            "m5.large cores=none: ",
            "whole number",
            "ami-0a1b2c3d4e5f60718",
        ),
        strict=True,
    ):
        assert said in line


def test_it_takes_what_the_environment_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("ARVADOS_API_HOST", "arvados.lab.net")
    monkeypatch.setenv("ARVADOS_API_TOKEN", "hush-hush-hush")
    output = made("--cloud", "ec2", *REACHED, *IMAGE, "--yes", "--no-check")
    config = load("mine.cfg")
    assert config.cloud_credentials == {"region": "eu-north-1"}
    assert config.arvados.containers_queue
    assert "hush" not in output


def test_a_file_is_never_overwritten_without_being_told() -> None:
    path = Path("mine.cfg")
    path.write_text("mine\n")
    refused = invoke(*READY, *IMAGE, "mine.cfg")
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert path.read_text() == "mine\n"
    assert invoke(*READY, *IMAGE, "--force", "mine.cfg").exit_code == 0
    assert "ami-0a1b2c3d4e5f60718" in path.read_text()
    assert sorted(os.listdir(".")) == ["mine.cfg"]


@cases(
    ("more", "mode"),
    {
        "a-secret": (("--set", "secret=hush-hush"), 0o600),
        "the-path-of-one": (("--set", "secret_file=/run/secret"), 0o644),
        "none": ((), 0o644),
    },
)
def test_only_the_owner_reads_a_secret(
    more: tuple[str, ...], mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "checked", lambda path, demand, no_check: True)
    monkeypatch.setattr(init, "cap_of", lambda path: None)
    before = os.umask(0o022)
    try:
        output = made(*READY, *IMAGE, *more)
    finally:
        os.umask(before)
    assert os.stat("mine.cfg").st_mode & 0o777 == mode
    assert "hush-hush" not in output


@cases(
    ("arguments", "said"),
    {
        "a-typo": (("--cloud", "ec3", "--yes"), "did you mean 'ec2'"),
        "another-name": (("--cloud", "google", "--yes"), "did you mean 'gce'"),
        "no-number": ((*READY, "--nodes", "x"), "--nodes: "),
        "no-size": ((*READY, "--sizes", ","), "--sizes: at least one"),
        "no-image": (READY, "--set Cloud Create.image_id=..."),
        "no-option": ((*READY, "--set", "imageid=x"), "did you mean 'image_id'"),
        "no-value": ((*READY, "--set", "image_id"), "option=value"),
        "a-section-is-needed": ((*READY, "--set", "provider=x"), "which of"),
    },
)
def test_what_is_wrong_with_the_words_is_told_and_nothing_is_written(
    arguments: tuple[str, ...], said: str
) -> None:
    done = invoke(*arguments, "mine.cfg")
    assert done.exit_code == 2
    assert said in done.output
    assert os.listdir(".") == []


ANSWERS = {
    "ec2": ("image_id=ami-1",),
    "gce": ("Cloud Credentials.project=lab",),
    "azure": (
        "subscription_id=2b7e1516-28ae-42d2-a6ab-f7158809cf4f",
        "tenant_id=lab.net",
        f"ssh_key={__file__}",
    ),
    "openstack": (
        "auth_url=https://keystone.lab.net",
        "application_credential_id=an-id",
        "application_credential_secret=hush-hush",
        "image=node",
    ),
    "libvirt": ("image=node.qcow2",),
    "local": (),
}
"""What each cloud must be told."""
ASKED_FOR = {
    "none": (),
    "slurm": (),
    "arvados": ("Arvados.host=arvados.lab.net", "Arvados.token=hush-hush-hush"),
    "command": (),
}


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize(
    "cloud",
    [
        pytest.param(one, marks=pytest.mark.server(one) if one == "libvirt" else ())
        for one in QUESTIONS
    ],
)
def test_each_cloud_with_each_demand_makes_a_file_without_a_warning(
    cloud: str, demand: str
) -> None:
    words = [word for one in (*ANSWERS[cloud], *ASKED_FOR[demand]) for word in ("--set", one)]
    near = () if cloud == "local" else REACHED
    given = ("--cloud", cloud, "--demand", demand, "--nodes", "3", *near, *words)
    output = made(*given, "--yes", "--no-check")
    assert "hush" not in output
    config = load("mine.cfg", accepts=accepted_keys)
    lacks = [
        one
        for one in config.warnings
        if "No such file or directory: /usr/local/bin/wishlist" not in one
    ]
    assert lacks == [], "only the program is still to be written"
    assert len(config.warnings) == (demand == "command")
    assert config.daemon.max_nodes == 3
    assert config.daemon.min_nodes == (3 if demand == "none" else 0)
    assert (config.daemon.dispatcher, config.arvados.containers_queue) == (
        "slurm" if demand == "slurm" else "ping",
        demand == "arvados",
    )
    assert (config.daemon.wishlist_command is not None) == (demand == "command")
    assert ("nodemanager slurm-config mine.cfg" in output) == (demand == "slurm")


def test_each_cloud_with_an_adapter_is_asked_about() -> None:
    assert set(PROVIDERS) - {"dummy"} == set(QUESTIONS) == set(init.samples_found())


@pytest.fixture
def clouds_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".config/openstack/clouds.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(CLOUDS, encoding="utf-8")


@pytest.mark.usefixtures("clouds_yaml")
def test_openstack_is_logged_in_to_by_clouds_yaml() -> None:
    typed = ("openstack", "none", "", "", "mine", "node-1", "", "ping.lab.net:8990")
    output = made("--no-check", said="\n".join(typed) + "\n")
    assert "hush" not in output
    config = load("mine.cfg", accepts=accepted_keys)
    assert config.warnings == ()
    # The sample logs in by an application credential, of which it has no real one.
    assert config.cloud_credentials == {"cloud": "mine"}
    (size,) = config.sizes
    assert (size.name, size.cores, size.ram_mb, size.price) == ("m1.small", 1, 2048, 0.02)


def test_a_size_that_only_the_file_describes_must_be_described() -> None:
    done = invoke("--cloud", "openstack", "--sizes", "m1.small cores=2", "--yes", "mine.cfg")
    assert done.exit_code == 2
    assert "--sizes: m1.small lacks ram, price, which openstack does not tell" in done.output


def test_a_secret_s_file_takes_the_place_of_the_sample_s_secret() -> None:
    Path("secret").write_text("hush-hush\n")
    given = {
        "auth_url": "https://keystone.example.org",
        "application_credential_id": "x",
        "application_credential_secret_file": str(Path("secret").resolve()),
        "image": "node-1",
    }
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    made("--cloud", "openstack", *REACHED, "--yes", "--no-check", *words)
    told = load("mine.cfg", accepts=accepted_keys).cloud_credentials
    assert told["application_credential_secret"] == "hush-hush"
    assert "hush-hush" not in Path("mine.cfg").read_text()
