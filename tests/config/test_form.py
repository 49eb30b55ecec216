"""The form of a file: every mistake of it is told at once, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.config import load
from nodemanager.errors import ConfigError
from tests.cases import cases
from tests.config.conftest import Read, Refused


def test_every_problem_of_a_file_is_told_at_once_in_the_order_of_its_lines(
    refused: Refused,
) -> None:
    problems = refused(
        """\
        stray = 1
        [Daemon]
        nonsense
        max_node = 3
        poll_time = soon
        max_nodes = 3
        max_nodes = 4
        [Cleanin]
        settle = 60
        [Daemon]
        watchdog = 0
        """
    )
    assert problems == [
        "1: stray: an option before the first [Section]",
        "3: neither a [Section], nor NAME = VALUE, nor a comment",
        "4: [Daemon] max_node = 3: no such option; did you mean 'max_nodes'?",
        "5: [Daemon] poll_time = soon: not a duration; write seconds, or 30m, 2h, 1d",
        "7: [Daemon] max_nodes = 4: already set at line 6",
        "8: [Cleanin]: no such section; did you mean 'Cleaning'?",
        "10: [Daemon]: this section is already at line 2",
        "11: [Daemon] watchdog = 0: a duration must be above zero",
    ]


def test_an_option_in_the_wrong_section_is_told_where_it_belongs(refused: Refused) -> None:
    assert refused("[Daemon]\nsettle = 60\n") == [
        "2: [Daemon] settle = 60: no such option; it belongs in [Cleaning]"
    ]


def test_an_indented_option_is_not_swallowed_by_the_one_above(refused: Refused) -> None:
    assert refused("[Daemon]\nmin_nodes = 0\n  max_nodes = 8\n") == [
        "2: [Daemon] min_nodes = 0 max_nodes = 8: spans more than one line; "
        "an option must not be indented"
    ]


def test_an_indented_key_is_not_swallowed_and_a_long_value_may_have_lines(
    read: Read, refused: Refused
) -> None:
    assert refused("[Cloud Create]\nimage_id = a\n  subnet_id = b\n") == [
        "2: [Cloud Create] image_id = a subnet_id = b: includes the line below; "
        "an option must not be indented"
    ]
    config = read("[Cloud Create]\naccounts = [{'a': 1},\n  {'b': 2}]\n")
    assert config.cloud_create == {"accounts": "[{'a': 1},\n{'b': 2}]"}


def test_text_behind_a_header_is_told(refused: Refused) -> None:
    assert refused("[Daemon] max_nodes = 8\n") == ["1: text after [Daemon]"]


GOOD = "[Daemon]\nmax_nodes = 3\n[Cloud]\nprovider = dummy\n"
OTHER_CODE = "1: is UTF-16 or UTF-32 text; save it as UTF-8"


@cases(
    ("content", "problems"),
    {
        "not-utf-8": (
            b"[Daemon]\nmax_nodes = 2\n# caf\xe9\n[Cloud]\nprovider = \xff\n",
            ["3: byte 0xe9 is not UTF-8", "5: byte 0xff is not UTF-8"],
        ),
        **{
            code: (GOOD.encode(code), [OTHER_CODE])
            for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
        },
        # The mark alone tells it: there are few NULs in it.
        "utf-16-of-japanese": ((100 * "設定" + GOOD).encode("utf-16"), [OTHER_CODE]),
        "carriage-returns-alone": (
            GOOD.replace("\n", "\r").encode(),
            [
                "1: its lines end in carriage returns alone, so it is all one line; "
                "save it with line feeds"
            ],
        ),
        "a-carriage-return-inside": (
            b"[Cloud]\nprovider = dummy\n# note\r[Daemon]\r\n",
            ["3: a carriage return inside the line"],
        ),
    },
)
def test_bytes_that_are_no_lines_of_text_are_told(
    tmp_path: Path, content: bytes, problems: list[str]
) -> None:
    path = tmp_path / "pool.cfg"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert caught.value.problems == [f"{path}:{one}" for one in problems]


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pool.cfg"
    if kind == "directory":
        path.mkdir()
    with pytest.raises(ConfigError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}: can't be read: ")


def test_a_byte_order_mark_and_carriage_returns_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "pool.cfg"
    path.write_bytes(b"\xef\xbb\xbf[Daemon]\r\nmax_nodes = 3\r\n[Cloud]\r\nprovider = dummy\r\n")
    assert load(path, environ={}).daemon.max_nodes == 3


@cases(
    ("line", "value"),
    {
        "hash-after-space": ("key = a # b", "a"),
        "semicolon-after-space": ("key = a ; b", "a"),
        "inside-a-value": ("key = a#b;c", "a#b;c"),
        "percent": ("key = 100%", "100%"),
        "no-interpolation": ("key = %(home)s", "%(home)s"),
        "colon": ("key: a", "a"),
        "equals-in-a-value": ("key = a = b", "a = b"),
    },
)
def test_what_ends_a_value_and_what_does_not(read: Read, line: str, value: str) -> None:
    assert read(f"[Cloud Credentials]\n{line}\n").cloud_credentials == {"key": value}


def test_a_colon_inside_a_name_is_part_of_it(read: Read) -> None:
    assert read("[Cloud List]\ntag:Name = x\n").cloud_list == {"tag:Name": "x"}


@pytest.mark.parametrize("section", ["Cloud Credentials", "Arvados"])
def test_a_secret_that_reads_as_a_comment_is_told_instead_of_lost(
    refused: Refused, section: str
) -> None:
    assert refused(f"[{section}]\ntoken = #abc\n") == [
        f"2: [{section}] token =: '#' and ';' begin a comment; "
        "put such a value in a file: token_file"
    ]


def cut(option: str, sign: str, file: str = "") -> str:
    """The warning of a secret with a comment behind it, which a file can hold."""
    put = f"; put a secret that holds it into a file: {file}" if file else ""
    lost = "so what follows it is not part of the secret"
    return f"2: {option} = ***: '{sign}' begins a comment, {lost}{put}"


@cases(
    ("text", "warning"),
    {
        "hash": (
            "[Manage]\nManagementToken = pa55word #2 secret99\n",
            cut("[Manage] ManagementToken", "#", "ManagementToken_file"),
        ),
        "semicolon": (
            "[Arvados]\ntoken = pa55word ;2 secret99\n",
            cut("[Arvados] token", ";", "token_file"),
        ),
        "credentials": (
            "[Cloud Credentials]\nsecret = pa55word\t# secret99\n",
            cut("[Cloud Credentials] secret", "#", "secret_file"),
        ),
        "in-a-later-line": (
            "[Cloud Credentials]\nkey = pa55word\n  more #2 secret99\n",
            cut("[Cloud Credentials] key", "#", "key_file"),
        ),
        "where-no-file-can-be-named": (
            "[Cloud Create]\njoin_token = pa55word #2 secret99\n",
            cut("[Cloud Create] join_token", "#"),
        ),
        "a-value-that-is-all-comment": (
            "[Cloud Create]\nimage = #secret99\n",
            "2: [Cloud Create] image =: '#' begins a comment, so this is blank",
        ),
        "an-option-that-is-all-comment": (
            "[Registry]\ndomain = ;secret99\n",
            "2: [Registry] domain =: ';' begins a comment, so this is blank",
        ),
        "quotes": (
            '[Manage]\nManagementToken = "secret99"\n',
            "2: [Manage] ManagementToken = ***: the quotes are part of the value; leave them out",
        ),
        "quotes-for-the-driver": (
            "[Cloud Create]\nimage = 'node'\n",
            "2: [Cloud Create] image = 'node': the quotes are part of the value; leave them out",
        ),
        "invisible": (
            "[Cloud Credentials]\nsecret = secret99\u200b\n",
            "2: [Cloud Credentials] secret = ***: holds a character that can't be seen",
        ),
        "a-soft-hyphen": (
            "[Cloud Create]\nimage = no\u00adde\n",
            "2: [Cloud Create] image = no\u00adde: holds a character that can't be seen (U+00AD)",
        ),
    },
)
def test_a_value_that_is_read_otherwise_than_it_looks_is_warned_of_without_its_secret(
    read: Read, text: str, warning: str
) -> None:
    warnings = read(text).warnings
    assert [each.partition("pool.cfg:")[2] for each in warnings] == [warning]
    assert "pa55word" not in str(warnings)
    assert "secret99" not in str(warnings)


@cases(
    "text",
    {
        "a-comment": "[Daemon]\nmax_nodes = 3 # nodes\n",
        "no-secret": "[Cloud Credentials]\nregion = us-east-1 # home\n",
        "blank-with-a-comment": "[Manage]\nManagementToken =   # none yet\n",
        "quotes-of-a-command-line": "[Daemon]\nwishlist_command = 'a b'\n",
        "inside-a-value": "[Manage]\nManagementToken = a#b;c\n",
        "letters-and-blanks": "[Cloud Create]\nimage = caf\u00e9\u00a0au lait\n",
    },
)
def test_a_value_that_is_read_as_it_looks_is_not_warned_of(read: Read, text: str) -> None:
    assert read(text).warnings == ()


@cases(
    ("text", "problem"),
    {
        "option": (
            "[Manage]\nManagementToken:secret99==\n",
            "2: [Manage] ManagementToken = ***: write white space behind the colon, or = instead",
        ),
        "credentials": (
            "[Cloud Credentials]\nsecret:secret99==\n",
            "2: [Cloud Credentials] secret = ***: write white space behind the colon, or = instead",
        ),
        "no-section": ("token:secret99==\n", "1: token: an option before the first [Section]"),
    },
)
def test_a_secret_behind_a_colon_is_not_taken_for_part_of_a_name(
    refused: Refused, text: str, problem: str
) -> None:
    assert refused(text) == [problem]


def test_option_names_are_known_in_any_case_and_pass_through_keys_kept_as_written(
    read: Read,
) -> None:
    config = read("[Manage]\nmanagementtoken = abc\n[Cloud List]\ntag_Name = x\n")
    assert config.manage.management_token is not None
    assert config.cloud_list == {"tag_Name": "x"}


def test_the_provider_must_be_given_except_for_a_registry_on_its_own(
    read: Read, refused: Refused
) -> None:
    (problem,) = refused("\n\n[Cloud]\n", cloud=False)
    assert problem.startswith("3: [Cloud] provider =: must be given")
    assert read("", cloud=False, require_cloud=False).cloud.provider == ""


def test_a_repeated_size_and_one_without_a_name_are_told(refused: Refused) -> None:
    assert refused("[Size a]\n[Size  a]\n[Size]\n[size b]\n") == [
        "2: [Size  a]: this size has a section already",
        "3: [Size]: must name a size, like [Size m4.large]",
        "4: [size b]: no such section; did you mean 'Size NAME'?",
    ]


WORDS = """[Daemon] [Cloud] [Registry] [Cloud Create] [Size] max_nodes token token_file listen
    ping_host database hostname %(slot_number)d 0 -1 :// [Logging] file price"""
PIECES = st.sampled_from([*WORDS.split(), *"[]=: \t\n\r\0#;%.é\x85\u2028"])


@pytest.mark.slow
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_whatever_stands_in_a_file_it_loads_or_has_problems_with_lines(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "pool.cfg"
    path.write_bytes(text.encode())
    try:
        load(path, environ={}, require_cloud=False)
    except ConfigError as error:
        for problem in error.problems:
            line = int(problem.removeprefix(f"{path}:").split(":")[0])
            assert 1 <= line <= text.count("\n") + 1
            assert "\n" not in problem
