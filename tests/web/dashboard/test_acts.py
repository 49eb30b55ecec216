"""Orders by button: what the page says before, and what reaches the daemon."""

from __future__ import annotations

import re

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import WorkerState
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import CommandTarget, Verb
from tests.web.dashboard.console import Console, small
from tests.web.dashboard.test_pages import text_of


@pytest.fixture
def signed_in(console: Console) -> Console:
    console.sign_in(name="Ann")
    return console


@pytest.mark.parametrize("verb", sorted(Verb))
def test_the_daemon_hears_who_what_and_why(signed_in: Console, verb: Verb) -> None:
    id = None if verb.row.subject is CommandTarget.POOL else "r7" if verb is Verb.CLEAN else "i-1"
    asked = signed_in.get(f"/act/{verb.value}?id={id or ''}")
    assert asked.status_code == 200
    assert "What it does" in asked.text
    assert 'name="reason" required' in asked.text
    fields = {"reason": " a new image ", "form_token": signed_in.form_token}
    fields |= {} if id is None else {"id": id}
    told = signed_in.post(f"/act/{verb.value}", fields)
    assert told.status_code == 200
    assert "it is so" in told.text
    assert signed_in.daemon.heard == [Command(verb, "Ann", "a new image", id)]


def test_a_drain_says_what_it_will_do(signed_in: Console) -> None:
    told = text_of(signed_in.get("/act/drain?id=compute1").text)
    assert "i-1 is shut down as soon as it is idle" in told
    assert "Its slot 1 is freed once the cloud says that the node is gone." in told
    assert "worker_unknown" in told


def test_without_a_reason_nothing_is_ordered(signed_in: Console) -> None:
    fields = {"id": "i-1", "reason": "  ", "form_token": signed_in.form_token}
    assert signed_in.post("/act/hold", fields).status_code == 400
    assert signed_in.daemon.heard == []


def test_a_clean_breaks_only_the_rule_that_was_ticked(signed_in: Console) -> None:
    assert 'name="force" value="C3"' in signed_in.get("/act/clean?id=r7").text
    fields = {"id": "r7", "reason": "x", "form_token": signed_in.form_token}
    signed_in.post("/act/clean", fields)
    signed_in.post("/act/clean", {**fields, "force": "C3"})
    signed_in.post("/act/clean", {**fields, "force": "C12"})
    assert [one.forced for one in signed_in.daemon.heard] == [(), ("C3",), ()]


def test_every_rule_that_would_refuse_a_clean_can_be_ticked_at_once(console: Console) -> None:
    """Its node was busy when it was lost: with C3 alone the clean is refused by C2."""
    lost = small()
    lost.add_record("r8", slot=8, quiet=20.0, worker_state=WorkerState.BUSY)
    console.decides(lost)
    console.sign_in()
    told = console.get("/act/clean?id=r8").text
    assert {"C2", "C3"} <= set(re.findall(r'name="force" value="([^"]+)"', told))


@pytest.mark.parametrize(
    ("result", "status"),
    [(Result.REFUSED, 409), (Result.UNKNOWN, 404), (Result.FAILED, 503), (Result.UNDER_WAY, 202)],
)
def test_a_refusal_is_shown_as_the_daemon_says_it(
    signed_in: Console, result: Result, status: int
) -> None:
    signed_in.daemon.reply = Reply(result, "C2: <b>busy</b>", reason=Reason.BUSY)
    fields = {"id": "i-1", "reason": "x", "form_token": signed_in.form_token}
    told = signed_in.post("/act/kill", fields)
    assert told.status_code == status
    assert "C2: &lt;b&gt;busy&lt;/b&gt;" in told.text


def test_an_unknown_order_or_id_is_not_found(signed_in: Console) -> None:
    assert signed_in.get("/act/explode?id=i-1").status_code == 404
    assert signed_in.get("/act/drain?id=nothing").status_code == 404
