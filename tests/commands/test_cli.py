"""The command line: what it accepts, what it says, and with what it exits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from nodemanager import __version__, cli
from nodemanager.app import adapters
from nodemanager.commands import common
from nodemanager.config import Config
from nodemanager.config.providers import PROVIDERS
from nodemanager.errors import StartError
from tests.cases import cases
from tests.commands.conftest import Typed

SAMPLE_USER_DATA = (Path(__file__).parents[2] / "etc/node/user-data.yaml").read_text("utf-8")
GOOD = """\
[Daemon]
max_nodes = 3
state_dir = {directory}/state
[Cloud]
provider = dummy
"""
BAD = """\
[Daemon]
max_nodes = many
poll_tme = 5
min_nodes = 4
[Cloud]
provider = dummy
[Clod]
x = 1
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str = GOOD, name: str = "pool.cfg") -> Path:
        path = tmp_path / name
        path.write_text(text.replace("{directory}", str(tmp_path)), encoding="utf-8")
        return path

    return written


@pytest.fixture(autouse=True)
def _no_file_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NODEMANAGER_CONFIG", raising=False)
    monkeypatch.setattr(common, "ETC", tmp_path / "etc")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, bool]]:
    """What would have been run: the pool, dry-run, once."""
    seen: list[tuple[str, bool, bool]] = []

    def run(config: Config, *, dry_run: bool = False, once: bool = False) -> int:
        seen.append((config.daemon.pool, dry_run, once))
        return 0

    monkeypatch.setattr("nodemanager.app.daemon.run", run)
    return seen


def invoke(*arguments: str | Path) -> Result:
    """Run `main`, as the entry point does, in this process."""
    words = [str(word) for word in arguments]

    def entry_point() -> None:
        cli.main(words)

    runner = CliRunner()
    with runner.isolation() as streams:
        code = 0
        try:
            entry_point()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        out, err = streams[0].getvalue(), streams[1].getvalue()
    return Result(runner, out, err, out + err, None, code, None)


@cases(
    ("arguments", "expected"),
    {
        "option": (["run", "--config", "{}"], ("pool", False, False)),
        "short-option": (["run", "-c", "{}"], ("pool", False, False)),
        "argument": (["run", "{}"], ("pool", False, False)),
        "no-command-means-run": (["--config", "{}"], ("pool", False, False)),
        "a-file-means-run": (["{}"], ("pool", False, False)),
        "old-unit": (["--foreground", "--config", "{}"], ("pool", False, False)),
        "old-unit-too": (["--config={}", "--foreground"], ("pool", False, False)),
        "dry-run": (["run", "--dry-run", "{}"], ("pool", True, False)),
        "dry-run-once": (["--dry-run", "--once", "{}"], ("pool", True, True)),
    },
)
def test_every_way_to_say_run(
    write: Write,
    runs: list[tuple[str, bool, bool]],
    arguments: list[str],
    expected: tuple[str, bool, bool],
) -> None:
    path = write()
    result = invoke(*[word.replace("{}", str(path)) for word in arguments])
    assert result.exit_code == 0, result.stderr
    assert runs == [expected]


def test_the_environment_names_the_file_and_what_is_given_goes_before_it(
    write: Write, runs: list[tuple[str, bool, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODEMANAGER_CONFIG", str(write(name="theirs.cfg")))
    assert invoke("run").exit_code == 0
    assert invoke("run", "--config", write(name="mine.cfg")).exit_code == 0
    assert runs == [("theirs", False, False), ("mine", False, False)]


def test_the_only_file_in_etc_is_taken_and_of_several_one_must_be_named(
    write: Write, runs: list[tuple[str, bool, bool]], tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    write(name="etc/a.cfg")
    assert invoke("run").exit_code == 0
    write(name="etc/b.cfg")
    result = invoke("run")
    assert result.exit_code == 2
    assert "a.cfg" in result.stderr
    assert "b.cfg" in result.stderr
    assert runs == [("a", False, False)]


def test_without_a_file_it_says_where_one_would_be_looked_for() -> None:
    result = invoke("check-config")
    assert result.exit_code == 2
    assert "--config FILE" in result.stderr
    assert str(common.ETC) in result.stderr


def test_run_takes_a_file_and_never_the_name_of_a_node(tmp_path: Path) -> None:
    """O10: `run ec2` said that no node is known as ec2."""
    result = invoke("run", "ec2")
    assert result.exit_code == 2
    assert "ec2: can't be read" in result.stderr


def test_no_error_moves_the_cursor_of_a_terminal(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X9: an error may quote what a node or a cloud wrote."""

    def run(config: Config, *, dry_run: bool = False, once: bool = False) -> int:
        raise StartError("near it: compute\x1b[2J\u202e1")

    monkeypatch.setattr("nodemanager.app.daemon.run", run)
    assert invoke("run", write()).stderr == "nodemanager: near it: compute\\x1b[2J\\u202e1\n"
    broken = invoke("check-config", write(GOOD + "[Cl\x1b[2Joud]\n"))
    assert broken.exit_code == 2
    assert "\x1b" not in broken.stderr


def test_an_argument_that_is_not_utf_8_is_a_usage_error(typed: Typed) -> None:
    """As a terminal sends it that is set to Latin-1."""
    code, _, error = typed("hold", "compute1", "--reason", "caf\udce9")
    assert code == 2
    assert "caf\\udce9 is not UTF-8" in error


def test_a_good_file_is_fine(write: Write) -> None:
    path = write()
    result = invoke("check-config", path)
    assert result.exit_code == 0
    assert result.stdout == f"{path}: fine; it serves pool pool\n"


def test_a_registry_s_own_file_is_checked_as_the_registry_takes_it(write: Write) -> None:
    """O13."""
    path = write("[Registry]\nlisten = 127.0.0.1:8995\n")
    result = invoke("check-config", path)
    assert result.exit_code == 0, result.stderr
    assert "fine for `nodemanager registry`, on 127.0.0.1:8995" in result.stdout
    assert invoke("check-config", write("[Registry]\nslots = none\n")).exit_code == 2
    missing = invoke("check-config", write("[Registry]\n[Cloud]\n"))
    assert "[Cloud] provider" in missing.stderr


def test_secrets_that_others_can_read_or_guess_are_warned_of(write: Write) -> None:
    path = write(f"{GOOD}[Registry]\ntoken = {'t0ken' * 4}\n[Manage]\nManagementToken = t\n")
    path.chmod(0o644)
    told = invoke("check-config", path)
    assert told.exit_code == 0
    assert "[Manage] ManagementToken = ***: has fewer than 12 characters" in told.output
    assert "every user of this machine can read the secrets in it (mode 0644)" in told.output
    assert "[Registry] token" not in told.output
    path.chmod(0o640)
    assert "every user" not in invoke("check-config", path).output


@pytest.mark.parametrize("token", ["two words", "gr\u00fc\u00dfe-an-alle"])
def test_a_token_that_no_header_carries_is_refused_before_it_is_served(
    write: Write, token: str
) -> None:
    told = invoke("check-config", write(f"{GOOD}[Registry]\ntoken = {token}\n"))
    assert told.exit_code == 2
    assert "[Registry] token = ***: write printable ASCII without spaces" in told.output
    assert token not in told.output


def test_an_unknown_cloud_is_refused_with_those_that_there_are(write: Write) -> None:
    """O13."""
    said = invoke("check-config", write("[Cloud]\nprovider = ec3\n")).stderr
    assert "there are local, dummy, ec2" in said
    assert "; did you mean 'ec2'?" in said
    for provider in PROVIDERS:
        assert adapters.accepted_keys(provider) is not None


def test_a_key_that_is_missing_is_told_at_its_section(write: Write) -> None:
    """O13."""
    text = "[Cloud]\nprovider = ec2\n[Cloud Credentials]\nregion = us-east-1\n[Cloud Create]\n"
    path = write(text + "subnet_id = subnet-12345678\n")
    said = invoke("check-config", path).stderr
    assert f"{path}:5: [Cloud Create] image_id: is missing" in said


def test_every_problem_of_a_file_is_found_at_once(write: Write) -> None:
    path = write(BAD)
    result = invoke("check-config", path)
    lines = result.stderr.splitlines()
    assert result.exit_code == 2
    assert [line for line in lines if line.startswith(f"{path}:2: [Daemon] max_nodes = many: ")]
    assert [line for line in lines if line.startswith(f"{path}:3: ") and "'poll_time'" in line]
    assert [line for line in lines if line.startswith(f"{path}:7: ") and "[Clod]" in line]
    assert "Traceback" not in result.stderr


EC2 = """
[Daemon]
min_nodes = 1
[Records]
provider = {records}
[Arvados]
host = arvados.example.org
token = t
[Registry]
listen = 127.0.0.1:8443
[Cloud]
provider = ec2
[Cloud Credentials]
region = us-east-1
[Cloud Create]
image_id = ami-1
ping_host = registry.example.org
{create}
[Size m5.large]
price = 0.1
"""
GAP = "a job that begins between a node's last ping and its destroy may be hit"


@cases(
    ("records", "template", "advised"),
    {
        "no-user-data": ("registry", None, True),
        "no-hook-in-the-user-data": ("registry", "{ping_url}\n", True),
        "the-sample-installs-none": ("registry", SAMPLE_USER_DATA, True),
        "a-hook": ("registry", "{ping_url}\n# /etc/nodemanager/drain\n", False),
        "arvados": ("arvados", "{ping_url}\n# /etc/nodemanager/drain\n", True),
    },
)
def test_check_config_advises_a_drain_hook_where_a_job_may_be_hit_d12(
    write: Write, tmp_path: Path, records: str, template: str | None, advised: bool
) -> None:
    """Advice, and no error: the file is fine."""
    create = ""
    if template is not None:
        (tmp_path / "user-data").write_text(template)
        create = f"user_data = {tmp_path / 'user-data'}"
    result = invoke("check-config", write(EC2.format(records=records, create=create)))
    assert result.exit_code == 0, result.stderr
    assert (GAP in result.stderr) is advised


def test_a_file_of_another_kind_does_not_fill_the_screen(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "not.cfg"
    path.write_bytes(b"\xff\x01 a binary\n" * 5000)
    code, _, error = typed("check-config", path)
    said = error.splitlines()
    assert (code, len(said)) == (2, 201)
    assert said[-1].endswith("problems more: is this a configuration file?")


def test_a_local_cloud_has_its_own_drain_hook_and_needs_no_advice_d12(write: Write) -> None:
    assert GAP not in invoke("check-config", write(GOOD)).stderr


@pytest.mark.parametrize("command", ["run", "check-config", "registry"])
def test_a_file_that_can_not_be_read_is_named(command: str, tmp_path: Path) -> None:
    result = invoke(command, tmp_path / "none.cfg")
    assert result.exit_code == 2
    assert str(tmp_path / "none.cfg") in result.stderr
    assert "Traceback" not in result.stderr


def test_what_the_adapter_can_not_use_is_found_with_its_line(write: Write) -> None:
    path = write(GOOD + "[Size huge]\ninstance_type = 99\n")
    result = invoke("check-config", path)
    assert result.exit_code == 2
    assert "[Size huge] instance_type = 99" in result.stderr
    assert result.stderr.startswith(f"{path}:7: ")


def test_show_tells_each_effective_setting_and_where_it_comes_from(write: Write) -> None:
    path = write()
    shown = invoke("check-config", "--show", path).stdout.splitlines()
    assert f"[Daemon] max_nodes = 3  # {path}:2" in shown
    assert "[Daemon] node_stale_after = 7200  # default" in shown


def test_show_tells_no_secret(write: Write) -> None:
    path = write(GOOD + "[Manage]\nport = 0\nManagementToken = hunter2hunter2\n")
    result = invoke("check-config", "--show", path)
    assert result.exit_code == 0
    assert "hunter2" not in result.stdout + result.stderr


def test_a_failure_to_start_is_one_clear_line_and_1(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(config: Config, *, dry_run: bool = False, once: bool = False) -> int:
        raise StartError("another daemon runs on this pool")

    monkeypatch.setattr("nodemanager.app.daemon.run", run)
    result = invoke("run", write())
    assert result.exit_code == 1
    assert result.stderr == "nodemanager: another daemon runs on this pool\n"


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["run", "--frobnicate"], ["check-config", "a.cfg", "b.cfg"], []],
    ids=["command", "option", "argument", "nothing"],
)
def test_what_it_does_not_know_is_a_usage_error(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stdout + result.stderr


def test_its_version_and_help() -> None:
    assert __version__ in invoke("--version").stdout
    assert invoke("--version").exit_code == 0
    for words in (["--help"], ["-h"], ["run", "--help"], ["registry", "-h"]):
        assert "Usage: nodemanager" in invoke(*words).stdout


def every_command(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*names, name)
        if isinstance(command, click.Group):
            yield from every_command(command, *names, name)


@pytest.mark.parametrize("words", list(every_command(cli.group)), ids=" ".join)
def test_help_cuts_no_sentence_and_wraps_no_example(words: tuple[str, ...]) -> None:
    """An example is to be copied: each stands on a line of its own."""
    said = invoke(*words, "--help").stdout
    commands = said.partition("Commands:")[2].splitlines()
    assert not [line for line in commands if line.endswith("...")]
    above, *examples = said.partition("Examples:")[2].splitlines() or [""]
    assert above == ""
    assert all(line.startswith("    ") for line in examples), examples


def test_the_module_runs_as_a_program(write: Write) -> None:
    path = write(BAD)
    done = subprocess.run(
        [sys.executable, "-m", "nodemanager", "check-config", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"{path}:2: " in done.stderr


def test_an_answer_that_the_disk_has_no_room_for_is_one_clear_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nodemanager", "explain", "within_window"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "nodemanager: can't write the answer: No space left on device\n"
