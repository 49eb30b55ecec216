"""Who gets in, what a browser may do with a page, and what no other site can make it do."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from urllib.parse import quote, unquote

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.verbs import Verb
from nodemanager.httpserver.refusals import Refusals
from nodemanager.web.dashboard.sessions import LASTS_S, Sessions
from nodemanager.web.door import Door, Role
from tests.web.dashboard.console import HOST, READ_TOKEN, TOKEN, Console, small

PAGES = [
    "/",
    "/nodes",
    "/records",
    "/jobs",
    "/log",
    "/windows",
    "/nodes/i-1",
    "/records/r7",
    "/act/drain",
]
CHANGES = ["/act/drain", "/act/kill", "/act/pause", "/act/breaker_reset"]
GIVEN = {"id": "i-1", "reason": "why not"}


@pytest.mark.parametrize("path", PAGES)
def test_without_a_sign_in_no_page_is_shown(console: Console, path: str) -> None:
    answer = console.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in?next=%2F")
    assert answer.text == ""


def test_each_page_leads_to_its_own_sign_in(console: Console) -> None:
    """And so does each after it: what one visitor asked for is no other's business."""
    for path in ("/nodes/i-1", "/", "/log"):
        answer = console.get(path)
        assert answer.headers["location"] == f"/sign-in?next={quote(path, safe='')}"
    assert "location" not in console.get("/sign-in").headers
    console.sign_in()
    assert "location" not in console.get("/log").headers
    told = {"form_token": console.form_token}
    assert console.post("/windows", told).headers["location"] == "/windows"


@pytest.mark.parametrize(
    "path",
    ["//[", "//%5B", "http://[", "//a%E2%84%80b", "/%00", "%ED%A0%80"],
)
def test_no_path_to_come_back_to_is_an_error(
    console: Console, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert console.get(f"/sign-in?next={path}").status_code == 200
    assert console.sign_in(next=unquote(path)).status_code == 303
    assert console.get(f"/nodes?at={path}").status_code == 200
    assert "traceback" not in caplog.text


@pytest.mark.parametrize("end", ["9" * 400, "NaN", "Infinity", "1e999", '"x"', "[]", "-1"])
def test_a_cookie_of_any_form_is_no_session_and_no_error(
    console: Console, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = urlsafe_b64encode(f'["a","full","n",{end}]'.encode()).rstrip(b"=").decode()
    console.cookie = f"nodemanager-8989={told}.AAAA"
    assert console.get("/").status_code == 303
    assert "traceback" not in caplog.text


@pytest.mark.parametrize("origin", ["http://[", "null", "", "http://[::1"])
def test_what_is_no_origin_is_another_sites(console: Console, origin: str) -> None:
    form = {"name": "a", "token": TOKEN}
    assert console.post("/sign-in", form, Origin=origin).status_code == 403


def test_without_a_sign_in_there_are_no_changes_to_hear(console: Console) -> None:
    assert console.get("/live?of=/nodes").status_code == 401


@pytest.mark.parametrize("path", PAGES)
def test_a_page_names_no_secret(console: Console, path: str) -> None:
    console.sign_in()
    told = console.get(f"{path}?id=i-1").text
    assert not [one for one in ("s3cr3t", TOKEN, READ_TOKEN) if one in told]


def test_the_cookie_is_for_this_server_and_no_script(console: Console) -> None:
    answer = console.sign_in(next="/nodes?state=busy")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/nodes?state=busy"
    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name.startswith("nodemanager-8989=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
    assert f"Max-Age={LASTS_S}" in flags
    assert console.get("/nodes").status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "é"])
def test_a_wrong_token_gives_no_cookie_and_is_counted(console: Console, token: str) -> None:
    answer = console.sign_in(token)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "not the token" in answer.text
    assert console.server.refusals.counts()[Reason.WRONG_TOKEN] == 1


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 65])
def test_without_a_name_for_the_log_nobody_gets_in(console: Console, name: str) -> None:
    answer = console.sign_in(name=name)
    assert answer.status_code == 400
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil", "x", "/\n/"])
def test_a_sign_in_leads_to_no_other_site(console: Console, path: str) -> None:
    assert console.sign_in(next=path).headers["location"] == "/"


@pytest.mark.parametrize("path", [*PAGES[:-1], "/sign-in", "/act/drain?id=i-1"])
def test_a_page_may_load_nothing_from_elsewhere_and_no_inline_code(
    console: Console, path: str
) -> None:
    console.sign_in()
    answer = console.get(path)
    policy = answer.headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    told = answer.text
    assert not [one for one in (" style=", "<style", " onclick", "javascript:") if one in told]
    assert "//" not in told.replace("http://www.w3.org", "")


def test_only_the_script_and_style_are_shown_to_anybody(console: Console) -> None:
    for name, kind in (("dashboard.js", "text/javascript"), ("dashboard.css", "text/css")):
        answer = console.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
    for name in ("nothing.js", "..%2Fsite.py", "__init__.py"):
        assert console.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8989", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/", "/sign-in"])
def test_another_host_name_gets_nothing(console: Console, host: str, path: str) -> None:
    console.sign_in()
    assert console.get(path, Host=host).status_code == 421


@pytest.mark.parametrize(
    ("public_url", "host", "secure"),
    [
        pytest.param("https://pool.example", "pool.example", True, id="behind-the-proxy"),
        pytest.param("https://pool.example:443", "POOL.example", True, id="the-usual-port"),
        pytest.param("https://pool.example:8443", "pool.example:8443", True, id="a-port"),
        pytest.param("http://pool.example", "pool.example", False, id="without-tls"),
        # Through ssh, past the proxy: a browser may send no Secure cookie there.
        pytest.param("https://pool.example", HOST, False, id="past-the-proxy"),
    ],
)
def test_behind_a_tls_proxy_the_public_name_is_answered_and_its_cookie_is_secure(
    public_url: str, host: str, secure: bool
) -> None:
    console = Console(public_url=public_url)
    console.decides(small())
    scheme = public_url.partition("://")[0]
    ours = {"Host": host, "Origin": f"{scheme}://{host}", "Sec-Fetch-Site": "same-origin"}
    answer = console.post("/sign-in", {"name": "Ann", "token": TOKEN}, **ours)
    assert answer.status_code == 303
    assert ("Secure" in answer.headers["set-cookie"].split("; ")) == secure
    shown = console.get("/act/drain?id=i-1", Host=host)
    found = re.search(r'name="form_token" value="([^"]+)"', shown.text)
    assert found is not None
    fields = {**GIVEN, "form_token": found[1]}
    assert console.post("/act/drain", fields, **ours).status_code == 200
    assert [one.verb for one in console.daemon.heard] == [Verb.DRAIN]
    foreign = {**ours, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert console.post("/act/drain", fields, **foreign).status_code == 403
    assert console.get("/", Host=f"evil.{host}").status_code == 421


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_needs_the_form_token_of_the_session(console: Console, path: str) -> None:
    console.sign_in()
    other = Console()
    other.decides(small())
    other.sign_in()
    for given in ({}, {"form_token": ""}, {"form_token": "x"}, {"form_token": other.form_token}):
        assert console.post(path, {**GIVEN, **given}).status_code == 403
    assert console.daemon.heard == []
    assert console.post(path, {**GIVEN, "form_token": console.form_token}).status_code == 200
    assert len(console.daemon.heard) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_another_sites_form_is_refused(console: Console, headers: dict[str, str]) -> None:
    fields = {"name": "Ann", "token": TOKEN}
    assert console.post("/sign-in", fields, **headers).status_code == 403
    console.sign_in()
    fields = {**GIVEN, "form_token": console.form_token}
    assert console.post("/act/drain", fields, **headers).status_code == 403
    assert console.daemon.heard == []
    ours = {"Origin": f"http://{HOST}", "Sec_Fetch_Site": "same-origin"}
    assert console.post("/act/drain", fields, **ours).status_code == 200


def test_a_change_is_a_small_form_and_nothing_else(console: Console) -> None:
    console.sign_in()
    fields = {**GIVEN, "form_token": console.form_token}
    assert console.post("/act/drain", fields, Content_Type="application/json").status_code == 415
    assert console.post("/act/drain", {**fields, "x": "y" * 20_000}).status_code == 413
    assert console.get("/act/drain?id=i-1&reason=x").status_code == 200
    assert console.daemon.heard == []


def test_the_read_only_token_looks_and_does_not_act(console: Console) -> None:
    assert console.sign_in(READ_TOKEN).status_code == 303
    shown = console.get("/nodes/i-1")
    assert shown.status_code == 200
    assert 'class="looks"' in shown.text
    assert console.get("/act/drain?id=i-1").status_code == 403
    fields = {**GIVEN, "form_token": console.form_token}
    for path in CHANGES:
        assert console.post(path, fields).status_code == 403
    assert console.daemon.heard == []


def test_the_read_only_token_reads_the_api_and_changes_nothing(console: Console) -> None:
    bearer = {"Authorization": f"Bearer {READ_TOKEN}"}
    assert console.get("/api/nodes", **bearer).status_code == 200
    assert "marks" in console.get("/status.json", **bearer).json
    answer = console.post("/api/drain/i-1", {}, **bearer)
    assert answer.status_code == 403
    assert answer.json["title"] == "read-only token"
    assert console.daemon.heard == []


def test_a_cookie_opens_no_api(console: Console) -> None:
    console.sign_in()
    assert console.get("/api/nodes").status_code == 401
    assert console.post("/api/drain/i-1", {}).status_code == 401


def test_signed_out_is_out_whoever_kept_the_cookie(console: Console) -> None:
    console.sign_in()
    kept = console.cookie
    answer = console.post("/sign-out", {"form_token": console.form_token})
    assert answer.status_code == 303
    assert console.cookie is None
    console.cookie = kept
    assert console.get("/").status_code == 303


def test_a_session_outlives_a_restart_but_not_its_time_or_its_token() -> None:
    door, now = Door("a-token", Refusals("x"), "b-token"), [1000.0]
    _, cookie = Sessions(door, lambda: now[0]).begin(Role.FULL, "Ann")
    again = Sessions(door, lambda: now[0])
    session = again.read(cookie)
    assert session is not None
    assert (session.role, session.name) == (Role.FULL, "Ann")
    other = Sessions(Door("another", Refusals("x"), "b-token"), lambda: now[0])
    assert other.read(cookie) is None
    door.renew("another", "b-token")
    assert again.read(cookie) is None
    door.renew("a-token", "b-token")
    assert again.read(cookie) is not None
    now[0] += LASTS_S
    assert again.read(cookie) is None


def test_no_changed_cookie_is_believed() -> None:
    door = Door("a-token", Refusals("x"), "b-token")
    sessions = Sessions(door, lambda: 0.0)
    _, looks = sessions.begin(Role.READ, "Ann")
    _, acts = sessions.begin(Role.FULL, "Ann")
    mixed = f"{acts.partition('.')[0]}.{looks.partition('.')[2]}"
    for cookie in ("", ".", "x.y", "é.é", mixed, looks + "A", looks[:-2], "A" * 2000, None):
        assert sessions.read(cookie) is None
    assert sessions.read(looks) is not None


def test_without_a_token_there_is_no_dashboard() -> None:
    console = Console(token=None)
    console.decides(small())
    for path in ("/", "/sign-in"):
        assert console.get(path).status_code == 404
    assert console.sign_in("").status_code in (403, 404)


def test_a_link_from_another_site_finds_the_session(console: Console) -> None:
    bounced = console.get("/nodes", Sec_Fetch_Site="cross-site")
    assert bounced.status_code == 200
    assert 'http-equiv="refresh"' in bounced.text
    assert console.get("/nodes", Sec_Fetch_Site="same-origin").status_code == 303
