"""The docs and the samples say what the declarations say, and every sample loads."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from doc.generate import options as generate
from doc.generate.samples import SAMPLES
from nodemanager.cloud.declared import accepted
from nodemanager.config import load
from nodemanager.config.sections import PASS_THROUGH, SECTIONS
from tests.cases import cases

ETC = generate.ROOT / "etc"
NAMES = [sample.name for sample in SAMPLES]


@pytest.mark.parametrize("path", sorted(generate.generated()))
def test_a_generated_file_is_what_the_declarations_make(path: str) -> None:
    assert (generate.ROOT / path).read_text(encoding="utf-8") == generate.generated()[path]


def test_the_check_tells_a_file_that_has_drifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (tmp_path / "etc/local.cfg").write_text("[Daemon]\n")
    capsys.readouterr()
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out == "etc/local.cfg: out of date\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_loads(name: str) -> None:
    config = load(ETC / f"{name}.cfg", environ={}, require_cloud=name != "registry")
    assert config.daemon.pool == name


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_loads_with_all_that_it_only_shows(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.cfg"
    lines = (ETC / path.name).read_text().splitlines()
    shown = [line[1:] if line.startswith("#") and line[1:2] != " " else line for line in lines]
    blank = [line for line in shown if not line.endswith(" =")]
    path.write_text("\n".join(line.replace("...", "xyz") for line in blank))
    load(path, environ={}, require_cloud=name != "registry")


@pytest.mark.parametrize("name", ["local", "dummy"])
def test_a_sample_that_needs_nothing_filled_in_loads_without_a_warning(name: str) -> None:
    assert load(ETC / f"{name}.cfg", environ={"STATE_DIRECTORY": "/tmp/state"}).warnings == ()


def test_each_sample_that_has_servers_has_ports_of_its_own() -> None:
    ports: Counter[int] = Counter()
    for name in NAMES:
        config = load(ETC / f"{name}.cfg", environ={}, require_cloud=name != "registry")
        if name != "registry":
            assert config.manage.port is not None
            ports[config.manage.port] += 1
    assert set(ports.values()) == {1}


def test_the_local_sample_is_short_enough_to_watch() -> None:
    config = load(ETC / "local.cfg", environ={})
    assert config.cloud.provider == "local"
    assert config.slots == config.daemon.min_nodes == config.daemon.max_nodes == 4
    assert config.daemon.node_stale_after == 60
    assert config.daemon.poll_stale_after == 20
    assert config.daemon.max_poll_time == 5
    assert config.cleaning.settle == 10
    assert {"boot_delay", "work_for", "vanish_after"} <= config.cloud_create.keys()
    assert str(config.registry.listen) == "127.0.0.1:8990"


def test_the_ec2_sample_cannot_run_up_a_bill() -> None:
    config = load(ETC / "ec2.cfg", environ={})
    assert config.daemon.max_nodes == 2
    assert config.daemon.max_total_price > 0
    assert all(size.price for size in config.sizes)
    assert config.manage.management_token is None


def _explained(path: Path, option: str) -> str:
    """The comment above `option` in a sample, on one line; fails where the sample lacks either."""
    above: list[str] = []
    for line in path.read_text().splitlines():
        if line.removeprefix("#").startswith(f"{option} ="):
            return " ".join(above)
        above = [*above, line.removeprefix("# ")] if line.startswith("# ") else []
    raise AssertionError(f"{path.name} does not show {option}")


WINDOW = next(s for s in SECTIONS if s.name == "Daemon").option("node_stale_after")


@pytest.mark.parametrize("name", [sample for sample in NAMES if sample != "registry"])
def test_each_sample_of_a_daemon_explains_the_stale_window_in_the_words_of_its_declaration(
    name: str,
) -> None:
    assert WINDOW is not None
    assert _explained(ETC / f"{name}.cfg", WINDOW.name).startswith(WINDOW.help)


@cases(
    "effect",
    {
        "C3": "slot is freed only when its node is gone",
        "T6": "worker state",
        "C21": "claim_expiry",
        "D8": "silent for longer",
        "D9": "collapse_fraction",
        "P6": "denies",
        "U2": "can't compare (Arvados)",
    },
)
def test_the_stale_windows_declaration_names_each_of_its_effects(effect: str) -> None:
    assert WINDOW is not None
    assert effect in WINDOW.help
    assert effect in " ".join(generate.entries().split())


def test_every_option_says_what_it_is_for() -> None:
    entries = generate.entries()
    for option in (option for section in SECTIONS for option in section.options):
        assert option.help.endswith("."), option.name
        assert f"``{option.name}``" in entries


@pytest.mark.parametrize(
    ("module", "sample"),
    [
        ("nodemanager.cloud.ec2.options", "ec2"),
        ("nodemanager.cloud.gce.options", "gce"),
        ("nodemanager.cloud.azure.options", "azure"),
        ("nodemanager.cloud.openstack.options", "openstack"),
        ("nodemanager.cloud.libvirt.options", "libvirt"),
        ("nodemanager.cloud.local.options", "local"),
    ],
)
def test_the_adapter_takes_every_key_that_its_sample_shows(module: str, sample: str) -> None:
    adapter = pytest.importorskip(module)
    parts = next(each for each in SAMPLES if each.name == sample).parts
    for part in parts:
        if part.section in PASS_THROUGH:
            for key in part.values:
                taken = accepted(adapter.SECTIONS)[part.section]
                assert any(fnmatchcase(key, name) for name in taken), key
