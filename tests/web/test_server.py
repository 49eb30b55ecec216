"""The management server over real sockets: who may see what, and what it says."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from nodemanager import __version__
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import Outcome
from nodemanager.core.plan.slots import Leak, Slots
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.errors import QuotaExceeded, StartError
from nodemanager.lib import log
from nodemanager.lib.log import INFO
from nodemanager.web.status import NodeCounts, PollStatus, Status
from tests.cases import cases
from tests.web.manager import HEALTHY_FOR, TOKEN, WITH_TOKEN, Manager

NODES = ("booting", "unpaired", "busy", "idle", "fail", "down", "shutdown", "wish")
FORERUNNERS_KEYS = {
    *(f"nodes_{state}" for state in NODES),
    *("node_quota", "config_max_nodes", "actor_exceptions", "boot_failures", "list_nodes_errors"),
    *("cloud_errors", "create_node_errors", "destroy_node_errors", "idle_times", "Version"),
}


FAILURES: tuple[tuple[Event, dict[str, Any]], ...] = (
    (Event.LIST_FAILED, {"source": "cloud"}),
    (Event.LIST_FAILED, {"source": "records"}),
    (Event.NODE_GONE, {"reason": Reason.BOOT_FAILED, "size": "small"}),
    (Event.NODE_SETUP_FAILED, {"size": "small", "error": QuotaExceeded("full")}),
    (Event.NODE_SHUTDOWN_FAILED, {"outcome": Outcome.FAILED}),
    (Event.ACTOR_DIED, {"actor": "NodeSetupActor"}),
)


def refusals(manager: Manager, server: str, reason: str) -> float | None:
    """How many requests its metrics say that it refused."""
    manager.get("/metrics")
    return manager.metrics.registry.get_sample_value(
        "nodemanager_requests_refused_total", {"server": server, "reason": reason}
    )


@pytest.fixture
def tokenless() -> Iterator[Manager]:
    manager = Manager(token=None)
    manager.server.start()
    yield manager
    manager.server.stop()


def test_status_has_the_forerunners_keys_and_ours(manager: Manager) -> None:
    for event, fields in FAILURES:
        manager.metrics.heard(event, INFO, fields)
    manager.cycle(
        nodes=NodeCounts(booting=1, unpaired=2, busy=3, idle=4, fail=5, down=6, shutdown=7, wish=8),
        errors=manager.metrics.error_counts(),
        max_nodes=16,
        idle_times={"compute-3": 12.34567},
        polls={"cloud": PollStatus(started_at=manager.clock.boottime() - 5, items=9)},
        poll_stale_after=10.0,
        slots=Slots(
            total=64,
            free=61,
            held_by={"no_node": 3},
            earliest_free_s=1200.0,
            leaks=(
                Leak(Reason.WITHIN_WINDOW, 2, 6000.0, 1200.0, in_window=2),
                Leak(Reason.HELD, 1, None, None),
            ),
        ),
        records={"in_use": 3},
        plan="4f1c",
        reasons={Reason.WITHIN_WINDOW: 3},
        deferred=2,
        refused={("small", Reason.AT_QUOTA): 4},
        unsatisfiable=(("j7", "no_fitting_size"), ("j8", "no_fitting_size")),
        under_way={"setup": 1},
    )
    manager.clock.advance(2)
    shown = manager.ask("/status.json").json()
    assert shown.keys() >= FORERUNNERS_KEYS
    assert [shown[f"nodes_{state}"] for state in NODES] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (shown["node_quota"], shown["config_max_nodes"]) == (16, 16)
    errors = ("actor_exceptions", "boot_failures", "list_nodes_errors")
    assert [shown[name] for name in errors] == [1, 1, 1]
    assert (shown["create_node_errors"], shown["destroy_node_errors"]) == (1, 1)
    assert shown["cloud_errors"] == 3
    assert shown["Version"] == __version__
    assert shown["idle_times"] == {"compute-3": 12.346}
    assert shown["pool"] == "prod"
    assert shown["cycle_age_s"] == 2
    assert shown["polls"] == {
        "cloud": {"age_s": 7, "stale": False, "items": 9, "failures_in_a_row": 0, "error": None}
    }
    assert shown["poll_stale_after_s"] == 10
    assert shown["slots"] == {
        "used": 3,
        "free": 61,
        "total": 64,
        "free_in_s": None,
        "held_by": {"no_node": 3},
        "leaked": {
            "count": 1,
            "causes": [
                {
                    "cause": "within_window",
                    "count": 2,
                    "leaked": 0,
                    "oldest_s": 6000,
                    "free_in_s": 1200,
                },
                {"cause": "held", "count": 1, "leaked": 1, "oldest_s": None, "free_in_s": None},
            ],
            "ends": {},
        },
    }
    assert shown["records"] == {"in_use": 3}
    assert shown["plan"] == {
        "id": "4f1c",
        "reasons": {"within_window": 3},
        "deferred": 2,
        "aborted": None,
    }
    assert shown["boots_refused"] == [{"size": "small", "reason": "at_quota", "count": 4}]
    counted = {"count": 2, "reasons": {"no_fitting_size": 2}}
    named = [{"id": id, "reason": "no_fitting_size"} for id in ("j7", "j8")]
    assert shown["jobs_unsatisfiable"] == counted | {"jobs": named}
    assert manager.get("/status.json").json()["jobs_unsatisfiable"] == counted
    assert shown["under_way"] == {"setup": 1}


def test_a_poll_is_stale_once_it_is_older_than_the_window_or_never_answered(
    manager: Manager,
) -> None:
    now = manager.clock.boottime()
    manager.cycle(
        polls={"cloud": PollStatus(now, 9), "demand": PollStatus()}, poll_stale_after=10.0
    )

    def stale() -> dict[str, bool]:
        polls = manager.get("/status.json").json()["polls"]
        return {source: poll["stale"] for source, poll in polls.items()}

    manager.clock.advance(10.0)
    assert stale() == {"cloud": False, "demand": True}
    manager.clock.advance(0.01)
    assert stale() == {"cloud": True, "demand": True}


def test_the_gauge_of_leaked_slots_forgets_a_cause_that_is_gone(manager: Manager) -> None:
    def leaked(cause: str) -> float | None:
        manager.get("/metrics")
        return manager.metrics.registry.get_sample_value(
            "nodemanager_slots_without_node", {"cause": cause}
        )

    manager.cycle(slots=Slots(None, None, {}, 1.0, (Leak(Reason.WITHIN_WINDOW, 2, 1.0, 1.0),)))
    assert leaked("within_window") == 2
    manager.cycle(slots=Slots(None, None, {}, None, (Leak(Reason.HELD, 1, 1.0, None),)))
    assert (leaked("within_window"), leaked("held")) == (0, 1)


def test_leaked_slots_are_told_by_the_way_in_which_their_nodes_went(manager: Manager) -> None:
    def leaked() -> dict[str, int]:
        leak = Leak(Reason.HELD, 3, 1.0, None, ("r1", "r2", "r3"))
        ends = manager.metrics.leaked_by_end((leak,))
        manager.cycle(slots=Slots(None, None, {}, None, (leak,)), leaked_by_end=ends)
        shown = manager.get("/status.json").json()["slots"]["leaked"]["ends"]
        metrics = manager.get("/metrics").text
        for end, count in shown.items():
            assert f'nodemanager_slots_without_node_by_end{{end="{end}"}} {float(count)}' in metrics
        return dict(shown)

    assert leaked() == {"unseen": 3}
    gone = {"node": "i-1", "reason": Reason.OTHER_IMAGE}
    manager.metrics.heard(Event.NODE_SHUTDOWN_STARTED, INFO, {**gone, "record": "r1"})
    manager.metrics.heard(Event.NODE_GONE, INFO, {**gone, "record": "r1"})
    killed = {"node": "i-2", "reason": Reason.KILLED, "record": "r2"}
    manager.metrics.heard(Event.NODE_SHUTDOWN_STARTED, INFO, killed)
    assert leaked() == {"killed": 1, "other_image": 1, "unseen": 1}
    manager.metrics.heard(
        Event.RECORD_CLEANED, INFO, {"record": "r1", "reason": Reason.AFTER_SHUTDOWN}
    )
    manager.metrics.heard(Event.NODE_CREATED, INFO, {"record": "r2", "node": "i-3", "size": "s"})
    assert leaked() == {"unseen": 3}


def test_without_the_token_status_is_counts_and_names_nothing(manager: Manager) -> None:
    manager.board.lease = lambda: LeaseView(LeaseRole.ACTIVE, "name-of-host", 7, 100.0)
    manager.cycle(
        idle_times={"name-of-node": 1.0},
        account="name-of-account",
        store="name-of-store",
        marks=Marks({"name-of-hold": Mark("name-of-who", 1.0)}),
        read_only="name-of-trouble",
        breaker=Breaker(
            Cause.CLOUD_COLLAPSED,
            opened_at=0.0,
            detail={"name-of-cause": 1},
            others=(Breaker(Cause.WRITES_FAIL, opened_at=1.0, detail={"name-of-other": 1}),),
        ),
    )
    answer = manager.get("/status.json")
    assert answer.status_code == 200
    assert "name-of" not in answer.text
    assert answer.json()["breaker"] == {
        "open": True,
        "reason": "cloud_collapsed",
        "open_s": manager.clock.boottime(),
        "others": [{"reason": "writes_fail", "open_s": manager.clock.boottime() - 1.0}],
    }
    assert answer.json()["orders"]["hold"] == 1
    told = manager.ask("/status.json").json()
    assert (told["account"], told["store"]) == ("name-of-account", "name-of-store")
    lease = {"role": "active", "token": 7, "until": "1970-01-01T00:01:40.000Z"}
    assert answer.json()["lease"] == lease
    assert told["lease"] == {**lease, "holder": "name-of-host", "error": None}
    assert told["breaker"]["cause"] == "cloud collapsed: name-of-cause 1"
    assert told["breaker"]["clear"].startswith("closes when the lost nodes are listed again")
    assert told["breaker"]["others"][0]["cause"] == "writes fail: name-of-other 1"
    assert [one["id"] for one in told["marks"]] == ["name-of-hold"]
    assert told["read_only"] == "name-of-trouble"


def test_before_the_first_cycle_status_says_that_it_is_starting(manager: Manager) -> None:
    answer = manager.get("/status.json")
    assert answer.status_code == 503
    assert answer.json()["title"] == "starting"


@cases(
    ("headers", "expected"),
    {
        "right": (WITH_TOKEN, 200),
        "none": ({}, 401),
        "wrong": ({"Authorization": "Bearer wrong"}, 403),
        "no-scheme": ({"Authorization": TOKEN}, 403),
        "empty": ({"Authorization": "Bearer "}, 403),
        "longer": ({"Authorization": f"Bearer {TOKEN}x"}, 403),
        "not-ascii": ({"Authorization": "Bearer \xe4"}, 403),
    },
)
def test_health_wants_the_token(headers: dict[str, str], expected: int, manager: Manager) -> None:
    answer = manager.get("/_health/ping", headers)
    assert answer.status_code == expected
    assert (answer.json() == {"health": "OK"}) == (expected == 200)


def test_a_wrong_token_is_refused_where_none_is_needed(manager: Manager) -> None:
    manager.cycle()
    assert manager.get("/status.json", {"Authorization": "Bearer wrong"}).status_code == 403


@cases(
    ("age", "expected"), {"at-the-bound": (HEALTHY_FOR, 200), "just-past": (HEALTHY_FOR + 1, 503)}
)
@pytest.mark.parametrize("cycled", [True, False], ids=["after-a-cycle", "never-a-cycle"])
def test_health_ends_when_cycles_do(
    cycled: bool, age: float, expected: int, manager: Manager
) -> None:
    if cycled:
        manager.clock.advance(10_000)
        manager.cycle()
    manager.clock.advance(age)
    for path, headers in (("/_health/ping", WITH_TOKEN), ("/healthz", None)):
        answer = manager.get(path, headers)
        assert answer.status_code == expected
        assert answer.json()["health"] == ("OK" if expected == 200 else "ERROR")


def test_it_is_ready_once_a_cycle_rests_on_fresh_answers_of_every_source(manager: Manager) -> None:
    def ready() -> tuple[int, list[str]]:
        answer = manager.get("/readyz")
        body = answer.json()
        assert body["ready"] == (answer.status_code == 200)
        return answer.status_code, body["lacking"]

    assert ready() == (503, ["the first cycle has not ended yet"])
    now = manager.clock.boottime()
    polls = {"cloud": PollStatus(now), "demand": PollStatus(failures_in_a_row=1)}
    manager.cycle(polls=polls, poll_stale_after=10.0)
    lacking = ["demand: no complete answer yet", "records: no complete answer yet"]
    assert ready() == (503, lacking)
    manager.cycle(
        polls={"cloud": PollStatus(now), "records": PollStatus(now)}, poll_stale_after=10.0
    )
    assert ready() == (200, [])
    manager.clock.advance(10.0)
    assert ready() == (200, [])
    manager.clock.advance(1.0)
    assert ready()[1] == [
        "cloud: the last complete answer is 11 s old",
        "records: the last complete answer is 11 s old",
    ]
    assert manager.get("/readyz", {"Authorization": "Bearer wrong"}).status_code == 403


def test_an_open_breaker_and_a_standby_are_healthy_and_ready(manager: Manager) -> None:
    """No restart mends them."""
    now = manager.clock.boottime()
    polls = {"cloud": PollStatus(now), "records": PollStatus(now)}
    breaker = Breaker(Cause.CLOUD_COLLAPSED, opened_at=0.0)
    manager.board.lease = lambda: LeaseView(LeaseRole.STANDBY)
    manager.cycle(polls=polls, poll_stale_after=10.0, breaker=breaker)
    assert manager.get("/healthz").status_code == 200
    assert manager.get("/readyz").status_code == 200


@pytest.mark.parametrize("role", LeaseRole)
def test_a_load_balancer_finds_the_one_manager_that_acts(manager: Manager, role: LeaseRole) -> None:
    """L6; before the first decision, too, and without a token."""
    manager.board.lease = lambda: LeaseView(role, "name-of-host")
    answer = manager.get("/_health/active")
    is_active = role is LeaseRole.ACTIVE
    assert answer.status_code == (200 if is_active else 503)
    assert answer.json() == {"active": is_active, "role": role.value}
    wrong = {"Authorization": "Bearer wrong"}
    assert manager.get("/_health/active", wrong).status_code == 403


def test_a_browser_gets_an_error_as_a_page_and_a_program_as_json(manager: Manager) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    page = manager.get("/<nosuch>", browser)
    assert (page.status_code, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>404 Not Found</h1>" in page.text
    assert "<nosuch>" not in page.text
    for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        told = manager.get("/nosuch", accept)
        assert (told.status_code, told.json()["title"]) == (404, "404 Not Found")


def test_without_any_token_health_is_disabled_and_nothing_opens_the_door(
    tokenless: Manager,
) -> None:
    tokenless.cycle(idle_times={"name-of-node": 1.0})
    assert tokenless.get("/_health/ping").status_code == 404
    for headers in ({}, {"Authorization": "Bearer None"}, {"Authorization": "Bearer "}):
        assert "name-of" not in tokenless.get("/status.json", headers).text


@pytest.mark.parametrize("path", ["/status.json", "/metrics", "/healthz", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_every_answer_is_guarded_and_only_get_is_served(
    method: str, path: str, manager: Manager
) -> None:
    answer = requests.request(method, manager.server.url + path, timeout=5)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "html" not in answer.headers["Content-Type"]
    if method != "GET":
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    if not answer.ok:
        assert answer.json()["title"]


@pytest.mark.parametrize("path", ["/status.json", "/metrics", "/_health/ping", "/nothing"])
def test_head_is_answered_as_get_is_without_the_body(path: str, manager: Manager) -> None:
    """X11: a body behind it would be taken for the next request's answer."""
    manager.cycle()
    with socket.create_connection(
        (manager.server.address, manager.server.port), timeout=5
    ) as client:
        client.sendall(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        client.sendall(b"GET /next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        heads = client.makefile("rb").read().split(b"HTTP/1.1 ")[1:]
    expected = manager.get(path)
    assert heads[0].startswith(str(expected.status_code).encode())
    assert heads[0].partition(b"\r\n\r\n")[2] == b""
    assert heads[1].startswith(b"404")
    assert len(heads) == 2


@cases(
    ("host", "headers", "expected"),
    {
        "address": ("127.0.0.1:80", {}, 200),
        "address-6": ("[::1]:80", {}, 200),
        "localhost": ("LOCALHOST", {}, 200),
        "this-machine": (socket.gethostname(), {}, 200),
        "a-name-somebody-made-up": ("evil.example", {}, 421),
        "that-begins-like-ours": ("127.0.0.1.evil.example", {}, 421),
        "empty": ("", {}, 421),
        "no-port": ("localhost:abc", {}, 400),
        "no-address": ("[", WITH_TOKEN, 400),
        "wrong-token": ("evil.example", {"Authorization": "Bearer wrong"}, 421),
        "any-with-the-token": ("head.example", WITH_TOKEN, 200),
    },
)
def test_counts_are_told_under_our_own_names_only(
    host: str, headers: dict[str, str], expected: int, manager: Manager
) -> None:
    """X15: a page whose name was made to lead to our address reads nothing."""
    manager.cycle()
    answer = manager.get("/status.json", {**headers, "Host": host})
    assert answer.status_code == expected
    if expected == 421:
        assert answer.json()["title"] == "wrong host"
        assert refusals(manager, "management", "wrong_host") == 1


def test_what_was_refused_is_counted_and_logged_once_a_minute(
    manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    """X14: who tries tokens leaves a trace, and does not fill the log."""
    caplog.set_level(logging.INFO)
    for _ in range(20):
        manager.get("/_health/ping", {"Authorization": "Bearer guessed"})
    manager.get("/_health/ping")
    assert refusals(manager, "management", "wrong_token") == 20
    assert refusals(manager, "management", "no_token") == 1
    assert refusals(manager, "management", "wrong_host") == 0
    said = [line for line in map(log.fields_of, caplog.records) if line]
    refused = [line for line in said if line["event"] == Event.REQUEST_REFUSED]
    assert [(line["reason"], line["address"]) for line in refused] == [
        (Reason.WRONG_TOKEN, "127.0.0.1"),
        (Reason.NO_TOKEN, "127.0.0.1"),
    ]
    assert "guessed" not in caplog.text


def test_a_taken_port_names_the_address_and_the_option(manager: Manager) -> None:
    taken = (manager.server.address, manager.server.port)
    with pytest.raises(StartError) as caught:
        Manager(listen=taken).server.start()
    assert f"127.0.0.1 port {manager.server.port}" in str(caught.value)
    assert "[Manage] port" in str(caught.value)


def test_an_error_of_ours_is_a_json_500_and_one_line_without_the_query(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def broken() -> Status:
        raise RuntimeError("inside")

    monkeypatch.setattr(manager.board, "read", broken)
    answer = manager.get("/status.json?token=hunter2")
    assert answer.status_code == 500
    assert answer.json()["title"] == "internal error"
    assert "inside" not in answer.text
    (said,) = [line for line in map(log.fields_of, caplog.records) if "error" in line]
    assert (said["event"], said["url"]) == (Event.SERVER_FAILED, "/status.json")
    assert said["error"] == "RuntimeError: inside"


def test_its_start_is_logged_with_the_real_port(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    manager = Manager()
    manager.server.start()
    manager.server.stop()
    (said,) = [line for line in map(log.fields_of, caplog.records) if line]
    assert said == {"event": Event.SERVER_STARTED, "name": "management", "url": manager.server.url}


def test_metrics_show_the_picture_and_the_counts(manager: Manager) -> None:
    manager.metrics.heard(Event.LIST_OK, INFO, {"source": "cloud", "took_s": 0.25, "items": 40})
    manager.metrics.heard(Event.RECORD_CLEANED, INFO, {"reason": Reason.STALE_SLOT})
    manager.metrics.heard(Event.RECORD_CLEANED, INFO, {"reason": Reason.STALE_SLOT})
    manager.cycle(
        nodes=NodeCounts(busy=3, wish=5),
        slots=Slots(64, 61, {"listed_node": 3}, None),
        records={"in_use": 3, "stale": 1},
        breaker=Breaker(Cause.CLOUD_COLLAPSED),
    )
    manager.get("/metrics")
    manager.cycle(nodes=NodeCounts(busy=2), records={"in_use": 4})
    answer = manager.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert found["nodemanager_info", __version__, "prod"] == 1
    assert found["nodemanager_lists_total", "cloud", "ok"] == 1
    assert found["nodemanager_lists_total", "cloud", "failed"] == 0
    assert found["nodemanager_list_items", "cloud"] == 40
    assert found["nodemanager_list_last_ok_timestamp_seconds", "cloud"] == manager.clock.wall()
    assert found["nodemanager_cleans_total", "stale_slot"] == 2
    assert found["nodemanager_nodes", "busy"] == 2
    assert found["nodemanager_nodes_wanted",] == 0
    assert found["nodemanager_records", "in_use"] == 4
    assert found["nodemanager_records", "stale"] == 0
    assert found["nodemanager_breaker_open",] == 0
    assert found["process_open_fds",] > 0


def test_two_managers_in_one_process_share_no_metric(manager: Manager, tokenless: Manager) -> None:
    manager.metrics.heard(Event.NODE_CREATED, INFO, {"size": "small"})
    assert 'nodemanager_boots_total{size="small"} 1.0' in manager.get("/metrics").text
    assert "small" not in tokenless.get("/metrics").text


def test_readers_never_see_half_a_picture(manager: Manager) -> None:
    done = threading.Event()

    def turn() -> None:
        number = 0
        while not done.is_set():
            number += 1
            manager.cycle(nodes=NodeCounts(busy=number, idle=number), deferred=number)

    manager.cycle()
    turner = threading.Thread(target=turn)
    turner.start()
    try:
        for _ in range(50):
            shown = manager.get("/status.json").json()
            assert shown["nodes_busy"] == shown["nodes_idle"] == shown["plan"]["deferred"]
    finally:
        done.set()
        turner.join()


def test_a_client_that_says_nothing_keeps_nobody_from_the_health_answer(manager: Manager) -> None:
    with socket.create_connection((manager.server.address, manager.server.port)) as silent:
        assert manager.ask("/_health/ping").status_code == 200
        assert silent.fileno() > 0


@pytest.mark.parametrize("accept", ["version=abc", "version=1.x.0;escaping=zzz", "q=abc"])
def test_metrics_in_a_form_that_nobody_knows_are_a_bad_request_at_most(
    accept: str, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    manager.cycle()
    asked = {"Accept": f"application/openmetrics-text;{accept}"}
    assert manager.get("/metrics", asked).status_code in (200, 400)
    assert "traceback" not in caplog.text
