"""Secrets: read from files where wanted, and shown nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodemanager.config import diff, load, show
from nodemanager.config.values import Secret
from nodemanager.errors import ConfigError
from tests.cases import cases
from tests.config.conftest import Read, Refused

HIDDEN = "hunter2"


def test_no_secret_is_in_a_repr_a_row_a_change_or_a_warning(read: Read) -> None:
    text = f"""\
        [Manage]
        ManagementToken = {HIDDEN}-m
        [Arvados]
        token = {HIDDEN}-a
        host = a.example
        [Registry]
        token = {HIDDEN}-r
        database = postgresql://me:{HIDDEN}-d@db/records
        [Cloud Credentials]
        key = {HIDDEN}-k
        [Cloud Create]
        join_token = {HIDDEN}-j
        """
    config = read(text)
    # The records stand alone in the other one, so that each secret differs.
    other = read("")
    seen = [repr(show(config)), repr(diff(other, config)), repr(config.warnings)]
    seen += [repr(config.cloud_credentials), str(config.cloud_credentials), repr(config.registry)]
    seen += [repr(config.manage), repr(config.arvados), repr(config.places)]
    assert not [text for text in seen if HIDDEN in text]
    assert config.registry.database.shown == "postgresql://me:***@db/records"


@cases(
    "text",
    {
        "repeated": f"[Arvados]\ntoken = {HIDDEN}\ntoken = {HIDDEN}\n",
        "misspelt": f"[Arvados]\ntokne = {HIDDEN}\n",
        "unknown-section": f"[Arvado]\ntoken = {HIDDEN}\n",
        "before-the-first-section": f"token = {HIDDEN}\n",
        "no-equals": f"[Arvados]\ntoken\n {HIDDEN}\n{HIDDEN}\n",
        "over-two-lines": f"[Arvados]\ntoken = a\n  {HIDDEN}\n",
        "in-a-url": f"[Arvados]\nhost = https://me:{HIDDEN}@a.example\n",
        "in-a-database-url": f"[Registry]\ndatabase = mysql://me:{HIDDEN}@db/x\n",
        "beside-another": f"[Manage]\nport = 99999\nManagementTokn = {HIDDEN}\n",
        "credentials": f"[Cloud Credentials]\nk = {HIDDEN}\nk = {HIDDEN}\n",
    },
)
def test_no_secret_is_in_a_complaint(refused: Refused, text: str) -> None:
    assert HIDDEN not in "\n".join(refused(text))


def test_a_secret_and_any_credential_may_be_in_a_file_of_its_own(
    file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{HIDDEN}\n")
    (tmp_path / "secret").write_text("a # b ; c\n\n")
    path = file(
        f"[Manage]\nManagementToken_file = token\n"
        f"[Cloud Credentials]\nsecret_file = {tmp_path}/secret\n"
    )
    config = load(path, environ={})
    assert config.manage.management_token == Secret(HIDDEN)
    assert config.cloud_credentials == {"secret": "a # b ; c"}
    assert config.origin("Manage", "ManagementToken") == f"{path}:2"


def test_a_relative_file_is_looked_for_among_systemds_credentials_first(
    file: Callable[..., Path], tmp_path: Path
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "token").write_text("from-systemd")
    (tmp_path / "token").write_text("from-beside-the-file")
    path = file("[Registry]\ntoken_file = token\n")
    given = load(path, environ={"CREDENTIALS_DIRECTORY": str(credentials)})
    beside = load(path, environ={})
    assert given.registry.token == Secret("from-systemd")
    assert beside.registry.token == Secret("from-beside-the-file")


@cases(
    ("content", "wrong"),
    {
        "missing": (None, "can't be read: No such file or directory"),
        "empty": (b"\n", "is empty"),
        "not-utf-8": (b"\xff", "is not UTF-8 text"),
        "utf-16": ("a".encode("utf-16-le"), "is not UTF-8 text"),
    },
)
@pytest.mark.parametrize("section", ["Arvados", "Cloud Credentials"])
def test_a_file_without_a_secret_is_told_with_the_line_that_names_it(
    file: Callable[..., Path], tmp_path: Path, section: str, content: bytes | None, wrong: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    path = file(f"[{section}]\ntoken_file = token\n")
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert caught.value.problems == [f"{path}:2: [{section}] token_file = token: {wrong}"]


def test_a_secrets_file_may_begin_with_a_byte_order_mark(
    file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "token").write_bytes(b"\xef\xbb\xbfabc\r\n")
    config = load(file("[Registry]\ntoken_file = token\n"), environ={})
    assert config.registry.token == Secret("abc")


@cases(
    ("content", "doubt"),
    {
        "a-blank-at-its-end": ("abc \n", "begins or ends with white space"),
        "a-tab-at-its-start": ("\tabc", "begins or ends with white space"),
        "quotes": ("'abc'\n", "the quotes are part of the value; leave them out"),
        "invisible": ("a\u200bc\n", "holds a character that can't be seen"),
    },
)
@pytest.mark.parametrize("section", ["Arvados", "Cloud Credentials"])
def test_a_secrets_file_that_is_read_otherwise_than_it_looks_is_warned_of(
    file: Callable[..., Path], tmp_path: Path, section: str, content: str, doubt: str
) -> None:
    (tmp_path / "token").write_text(content)
    path = file(f"[{section}]\ntoken_file = token\n")
    config = load(path, environ={})
    assert config.warnings == (f"{path}:2: [{section}] token_file = token: {doubt}",)


@pytest.mark.parametrize("content", ["abc \n", "\tabc", "a b", "a\u200bc\n", "caf\u00e9"])
def test_a_token_of_the_registry_that_no_header_carries_is_refused(
    file: Callable[..., Path], tmp_path: Path, content: str
) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match="write printable ASCII without spaces"):
        load(file("[Registry]\ntoken_file = token\n"), environ={})


def test_an_option_that_is_one_line_takes_no_file_of_two(
    file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{HIDDEN}\n# rotated in May\n")
    (tmp_path / "key").write_text("-----BEGIN-----\nabc\n")
    path = file("[Registry]\ntoken_file = token\n[Cloud Credentials]\nkey_file = key\n")
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert caught.value.problems == [
        f"{path}:2: [Registry] token_file = token: has more than one line"
    ]


@pytest.mark.parametrize("section", ["Registry", "Cloud Credentials"])
def test_a_secret_in_the_file_and_beside_it_is_a_contradiction(
    refused: Refused, tmp_path: Path, section: str
) -> None:
    (tmp_path / "token").write_text("x")
    assert refused(f"[{section}]\ntoken = {HIDDEN}\ntoken_file = token\n") == [
        f"3: [{section}] token_file = token: [{section}] token is set, too, at line 2"
    ]


def test_an_option_that_is_no_secret_has_no_file(refused: Refused) -> None:
    assert refused("[Daemon]\nmax_nodes_file = /x\n") == [
        "2: [Daemon] max_nodes_file = /x: no such option; did you mean 'max_nodes'?"
    ]


def test_secrets_are_equal_by_value_and_hidden_in_every_format() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("ä") != "ä"
    assert {f"{Secret(HIDDEN)}", str(Secret(HIDDEN)), f"{Secret(HIDDEN)!r}"} == {
        "***",
        "Secret('***')",
    }
