"""Credentials that a changed file brings are used once they lead to the known account (L5)."""

from __future__ import annotations

import pytest

from nodemanager.actors.messages import TakeCloud, TakeWishlist
from nodemanager.core.model.world import Job
from nodemanager.errors import CloudError, Unauthorized
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.fakes import FakeCloud, fail, first

pytestmark = pytest.mark.slow

REFUSED = Unauthorized("AuthFailure: the key was rotated")


def other_keys(rig: Rig, account: str | None = None) -> FakeCloud:
    """The same machines, reached with other credentials."""
    cloud = FakeCloud(rig.cloud.clock)
    cloud.machines = rig.cloud.machines
    cloud.account_name = account or rig.cloud.account_name
    return cloud


def revoke(cloud: FakeCloud) -> None:
    for call in ("account", "list_nodes", "create", "ask", "find_by_record", "destroy"):
        cloud.always(call, fail(REFUSED))


def give(rig: Rig, cloud: FakeCloud) -> None:
    rig.system.team.cloud_list.tell(TakeCloud(cloud))
    rig.flush()


def test_rotated_keys_of_the_same_account_are_used_at_once(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    rig.start()
    rig.turn(300)
    new = other_keys(rig)
    revoke(rig.cloud)
    give(rig, new)
    assert rig.turn_until("cloud.taken", within=5)["account"] == new.account_name
    rig.turn(60)
    rig.forget_calls()
    rig.cloud.vanish(next(iter(rig.cloud.machines)))
    rig.turn(3 * 3600)
    assert sum(rig.cloud.calls.values()) == 0
    assert new.calls["create"] == 1
    assert not rig.lines("identity.changed")


def test_keys_of_another_account_are_never_used(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    rig.start()
    rig.turn(300)
    other = other_keys(rig, "fake:account-2")
    give(rig, other)
    rig.turn(600)
    (line,) = rig.lines("cloud.refused")
    assert line["level"] == "warning"
    assert "fake:account-1" in line["problem"]
    assert "fake:account-2" in line["problem"]
    assert set(other.calls) == {"account"}
    assert rig.cloud.calls["list_nodes"] > 10
    assert not rig.lines("identity.changed")


def test_keys_that_the_cloud_does_not_know_yet_are_tried_with_each_poll_and_told_once(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    new = other_keys(rig)
    new.always("account", fail(Unauthorized("AuthFailure: not yet")))
    give(rig, new)
    rig.turn(300)
    (line,) = rig.lines("cloud.refused")
    assert "not yet" in line["error"]
    assert set(new.calls) == {"account"}
    new.always("account", None)
    rig.turn_until("cloud.taken", within=60)
    rig.turn(60)
    assert new.calls["list_nodes"] > 0


def test_newer_keys_replace_those_that_wait(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0)
    rig.start()
    wrong, right = other_keys(rig), other_keys(rig)
    wrong.always("account", fail(CloudError("timed out")))
    give(rig, wrong)
    give(rig, right)
    rig.turn(120)
    assert right.calls["list_nodes"] > 0
    asked = wrong.calls["account"]
    rig.turn(120)
    assert wrong.calls["account"] == asked


def test_keys_mend_a_start_with_another_accounts(make_rig: MakeRig) -> None:
    """L5: what the pool knew before counts, not what this process began with."""
    rig = make_rig(min_nodes=1)
    rig.start()
    rig.turn(60)
    rig.kill()
    known, rig.cloud.account_name = rig.cloud.account_name, "fake:account-2"
    rig.start()
    rig.turn(120)
    assert rig.lines("identity.changed")
    give(rig, other_keys(rig, known))
    assert rig.turn_until("identity.seen", within=60)["account"] == known
    assert rig.lines("cloud.taken")


def test_nothing_is_taken_while_the_known_account_cant_be_read(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    facts = rig.directory / "state" / "facts.json"
    kept = facts.read_text()
    facts.write_text("{")
    new = other_keys(rig)
    give(rig, new)
    rig.turn(120)
    assert set(new.calls) == {"account"}
    facts.write_text(kept)
    rig.turn_until("cloud.taken", within=120)


def test_a_rotated_token_reaches_the_demand(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0)
    rig.jobs = ()
    rig.start()
    rig.turn(60)
    asked: list[int] = []

    def renewed() -> tuple[Job, ...]:
        asked.append(1)
        return ()

    demand = rig.system.team.demand
    assert demand is not None
    demand.tell(TakeWishlist(renewed))
    rig.turn(120)
    assert len(asked) > 1


def test_a_poll_in_between_still_uses_the_former_keys(make_rig: MakeRig) -> None:
    """The daemon compares the account first; until it has, nothing is sent with the new ones."""
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    new = other_keys(rig)
    before: list[int] = []
    new.on("account", first(lambda: before.append(new.calls["list_nodes"])))
    give(rig, new)
    rig.turn_until("cloud.taken", within=5)
    assert before == [0]
