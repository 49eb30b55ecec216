"""What each cloud answers, and what its adapter makes of it, where the vendors' own words differ
and the meaning does not.

Vendors' codes, states and fields are tables in tests/cloud, a folder for each cloud; cuts and
proxies' answers amid every request are in tests/cloud/test_misbehaving.py.
"""

from __future__ import annotations

import base64
import logging
import traceback
from dataclasses import replace
from typing import Any

import pytest

from nodemanager import errors
from nodemanager.cloud.tags import HOLD_TAG, SIZE_TAG
from nodemanager.core.model.world import CloudNode, CloudState, Outcome
from nodemanager.core.plan.availability import client_token
from tests.cloud.orders import finished
from tests.cloud.site import CloudSite

pytestmark = pytest.mark.socket


def on(*clouds: str) -> Any:
    return pytest.mark.parametrize("site", clouds, indirect=True)


with_operations = on("gce", "azure")
"""Whose create is answered with the name of an operation that goes on."""
with_slow_ends = on("gce", "azure", "openstack")


def made(site: CloudSite) -> CloudNode:
    return site.driver.create(site.order())


# Listings (L1, L2).


def test_pages_that_come_again_are_no_listing(site: CloudSite) -> None:
    for _ in range(3):
        made(site)
    first: list[Any] = []

    def again(reply: Any) -> Any:
        first.append(reply)
        return first[0]

    listing = site.listings[-1]
    site.server.fault(listing, times=99, after=again)
    with pytest.raises(errors.IncompleteListing):
        site.driver.list_nodes()
    assert 2 <= len(first) <= 3
    site.server.heal(listing)
    site.server.fault(listing, after=lambda reply: reply)
    site.server.fault(listing, before=site.failed)
    with pytest.raises(errors.CloudError) as caught:
        site.driver.list_nodes()
    assert not caught.value.definite
    assert len(site.driver.list_nodes().items) == 3


def test_an_operator_s_hold_on_a_node_is_a_tag_of_it(site: CloudSite) -> None:
    made(site)
    site.server.fault(site.listings[-1], after=site.another(SIZE_TAG, HOLD_TAG))
    assert [node.held for node in site.driver.list_nodes().items] == [True]
    assert [node.held for node in site.driver.list_nodes().items] == [False]


NOT_WHOLE = (
    (200, "", (errors.IncompleteListing,)),
    (200, "<html>Welcome</html>", (errors.IncompleteListing, errors.ForeignAnswer)),
    (200, "[]", (errors.IncompleteListing, errors.ForeignAnswer)),
    (200, "{}", (errors.IncompleteListing, errors.ForeignAnswer)),
    (204, "", (errors.IncompleteListing, errors.ForeignAnswer)),
    (302, "", (errors.ForeignAnswer,)),
    (404, "<html>nginx</html>", (errors.ForeignAnswer,)),
    (502, "<html>nginx</html>", (errors.CloudError,)),
    (429, "<html>nginx</html>", (errors.Throttled,)),
)
"""Status and text of what is no cloud's answer, and the errors that it may be."""


def test_what_is_not_wholly_the_cloud_s_answer_is_no_listing(
    site: CloudSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    # libcloud would wait a second, and ask again.
    monkeypatch.setenv("LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS", "1")
    made(site)
    listing = site.listings[-1]
    answers = [(site.plain(status, text), kinds) for status, text, kinds in NOT_WHOLE]
    answers += [(site.failed, (errors.CloudError,)), (site.forbidden, (errors.Unauthorized,))]
    answers += [(site.throttled, (errors.Throttled,))]
    for answer, kinds in answers:
        before = len(site.server.called(listing))
        site.server.fault(listing, before=answer)
        with pytest.raises(errors.CloudError) as caught:
            site.driver.list_nodes()
        assert type(caught.value) in kinds, answer()
        # No request is sent again.
        assert len(site.server.called(listing)) == before + 1
    assert len(site.driver.list_nodes().items) == 1


def test_a_field_that_can_t_be_read_is_a_problem_of_a_node_that_is_listed_p3(
    site: CloudSite,
) -> None:
    node = made(site)
    for spoil, problem in site.odd_fields:
        site.server.fault(site.listings[-1], times=2, after=spoil)
        listing = site.driver.list_nodes()
        site.server.heal(site.listings[-1])
        assert [one.id for one in listing.items] == [node.id], problem
        assert [one.is_absent for one in listing.items] == [False]
        assert [line for line in listing.items[0].problems if line.startswith(problem)], problem


def test_a_node_without_an_id_makes_the_listing_incomplete_and_the_others_stay(
    site: CloudSite,
) -> None:
    for _ in range(2):
        made(site)
    for spoil in site.nameless:
        site.server.fault(site.listings[-1], after=spoil)
        listing = site.driver.list_nodes()
        assert not listing.complete
        assert len(listing.items) == 1


# One node (C11, D3, P1a).


def test_only_the_cloud_s_own_not_found_denies_a_node_d3(site: CloudSite) -> None:
    node = made(site)
    page, nothing = site.plain(404, "<html>nginx</html>"), site.plain(200, "{}")
    refusals = (site.failed, site.forbidden, site.throttled, page)
    cases = [(ask, how) for ask in (site.driver.ask, site.driver.destroy) for how in refusals]
    for ask, how in [*cases, (site.driver.ask, nothing)]:
        for action in (site.show, site.destroy):
            site.server.fault(action, before=how)
        with pytest.raises(errors.CloudError):
            ask(node.id)
        for action in (site.show, site.destroy):
            site.server.heal(action)
    assert site.driver.ask(node.id) is not None


@on("ec2", "gce", "openstack")
def test_an_answer_about_another_node_is_no_answer(site: CloudSite) -> None:
    """Azure is asked by a name, which may be another's by now: then ours is not there."""
    node = made(site)
    other = node.id[:-4] + ("7777" if node.id[-4:] != "7777" else "5555")
    site.server.fault(site.show, after=site.another(node.id, other))
    with pytest.raises(errors.ForeignAnswer):
        site.driver.ask(node.id)


@on("gce", "azure", "openstack")
@pytest.mark.parametrize("odd", ["", "detail", "i-0abc", "0", "-1", "1" * 21, "../1"])
def test_an_id_that_no_node_can_have_is_asked_of_nobody_p1a(site: CloudSite, odd: str) -> None:
    for ask in (site.driver.ask, site.driver.destroy, site.driver.pins):
        with pytest.raises(errors.MalformedId):
            ask(odd)
    assert site.server.called(site.show) == []


# Creates (U5, U6, U13).


@pytest.mark.parametrize("how", ["throttled", "redirect", "cut"])
def test_no_create_is_sent_twice_whatever_libcloud_is_told_to_repeat(
    site: CloudSite, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS", "1")

    def moved() -> Any:
        reply = site.plain(307, "")()
        place = ("Location", f"{site.server.url}/")
        if isinstance(reply.headers, dict):
            reply.headers.update([place])
        else:
            reply.headers.append(place)
        return reply

    answers = {"throttled": site.throttled, "redirect": moved, "cut": lambda: None}
    site.server.fault(site.create, times=9, before=answers[how])
    with pytest.raises(errors.CloudError) as caught:
        site.open(timeout=3.0).create(site.order())
    assert caught.value.definite is (how == "throttled")
    assert len(site.server.called(site.create)) == 1


@pytest.mark.parametrize("data", ["https://x.org/ping?ping_secret=hush", "#!/bin/sh\necho hush\n"])
def test_no_secret_of_a_node_is_in_an_error(
    site: CloudSite, caplog: pytest.LogCaptureFixture, data: str
) -> None:
    caplog.set_level(logging.DEBUG)
    coded = base64.b64encode(data.encode()).decode()
    site.server.fault(site.create, before=site.said(f"bad value '{coded}' or {data.strip()}"))
    with pytest.raises(errors.BadRequest) as caught:
        site.driver.create(replace(site.order(), user_data=data))
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "bad value" in told
    assert "hush" not in told
    assert coded not in told


@with_operations
def test_a_create_is_answered_at_once_with_the_node_as_it_is_ordered(site: CloudSite) -> None:
    """No thread waits for the operation, which may take minutes (U13)."""
    site.slow()
    asked = site.order()
    node = site.driver.create(asked)
    assert (node.state, node.tags, node.problems) == (CloudState.PENDING, asked.tags, ())
    (listed,) = site.driver.list_nodes().items
    assert node.created_at == pytest.approx(listed.created_at, abs=2)
    known = replace(node, created_at=listed.created_at, pending="", addresses=())
    assert replace(listed, addresses=()) == known
    assert site.driver.finish(node.pending, None) == node.pending
    site.due()
    # Another process may ask, too: all that it needs is in `pending`.
    assert site.open().finish(node.pending, None) is None


@with_operations
def test_once_the_create_has_begun_no_error_says_that_nothing_was_made_u6(site: CloudSite) -> None:
    """What fails is the question, so it is no answer to it."""
    page = site.plain(502, "")
    for how in (site.failed, site.throttled, site.forbidden, site.gone, page, lambda: None):
        site.server.fault(site.operation, before=how)
        asked = site.order()
        node = site.driver.create(asked)
        assert (node.tags, node.problems) == (asked.tags, ())
        with pytest.raises(errors.CloudError):
            site.driver.finish(node.pending, None)
        assert site.driver.finish(node.pending, None) is None
        assert site.driver.ask(node.id) is not None


@with_operations
@pytest.mark.parametrize("fails", [False, True], ids=["made", "not-made"])
def test_a_create_that_is_found_by_its_name_is_followed_to_its_end(
    site: CloudSite, fails: bool
) -> None:
    """Its answer was lost, and the cloud no longer knows the request: nobody has its operation."""
    site.slow()
    if fails:
        site.fill(site.places[0])
    asked = site.order()
    site.server.fault(site.create, after=site.cut)
    with pytest.raises(errors.CloudError) as caught:
        site.driver.create(asked)
    assert not caught.value.definite
    site.forget_requests()
    found = site.driver.create(asked)
    assert found.state is CloudState.PENDING
    assert site.open().finish(found.pending, None) == found.pending
    site.due()
    ended = site.open().finish(found.pending, None)
    if fails:
        assert isinstance(ended, errors.CloudError)
        assert not ended.definite
    else:
        assert ended is None


@on("gce", "azure", "openstack")
def test_an_image_that_we_may_not_ask_for_stops_no_boot_and_a_wait_puts_it_off(
    site: CloudSite,
) -> None:
    site.server.fault(site.image, times=2, before=site.throttled)
    with pytest.raises(errors.Throttled):
        site.driver.check_image()
    site.server.heal(site.image)
    site.server.fault(site.image, times=9, before=site.forbidden)
    site.driver.check_image()


def test_a_full_zone_is_told_by_its_name_and_the_next_one_takes_the_node_d6(
    site: CloudSite,
) -> None:
    """Each zone has a client token of its own, or the cloud would take the second order for the
    first (U9); what was begun in the full one is gone (P2)."""
    first, second = site.places
    driver = site.open(places=dict.fromkeys(site.places, "[Cloud] places"))
    site.fill(first)
    asked = replace(site.order(), place=first)
    life = str(asked.tags.incarnation)
    with pytest.raises(errors.PlaceFull) as full:
        finished(driver, replace(asked, client_token=client_token(life, first)))
    assert (full.value.place, full.value.definite) == (first, True)
    assert driver.list_nodes().items == ()
    again = replace(asked, place=second, client_token=client_token(life, second))
    assert second in finished(driver, again).places
    (listed,) = driver.list_nodes().items
    assert second in listed.places
    assert listed.problems == ()


# Ends (D3).


@with_slow_ends
def test_a_node_that_is_being_deleted_is_stopping_and_then_not_there(site: CloudSite) -> None:
    node = made(site)
    site.slow()
    for _ in range(2):
        assert site.driver.destroy(node.id) is Outcome.ACCEPTED
        going = site.driver.ask(node.id)
        assert going is not None
        assert (going.state, going.is_absent) == (CloudState.STOPPING, False)
    site.due()
    assert site.driver.ask(node.id) is None
    assert site.driver.destroy(node.id) is Outcome.UNKNOWN


def test_a_destroy_that_is_refused_is_a_typed_error(site: CloudSite) -> None:
    node = made(site)
    for how, kind in (
        (site.failed, errors.CloudError),
        (site.forbidden, errors.Unauthorized),
        (site.throttled, errors.Throttled),
        (site.said("protected"), errors.BadRequest),
    ):
        site.server.fault(site.destroy, before=how)
        with pytest.raises(errors.CloudError) as caught:
            site.driver.destroy(node.id)
        assert type(caught.value) is kind
    assert site.driver.ask(node.id) is not None
