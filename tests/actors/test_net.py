"""Whatever comes out of a port, no actor ends of it; an error in a decision still ends all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mock
import pytest

from nodemanager.actors.daemon import decisions
from nodemanager.actors.net import READS, netted
from nodemanager.cloud.api import CloudDriver
from nodemanager.errors import CloudError, NotSent, Throttled
from nodemanager.records.api import RecordStore
from nodemanager.schedulers.api import Scheduler
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.fakes.clock import ManualClock
from tests.fakes.cloud import FakeCloud
from tests.fakes.script import fail

MINUTE = 60.0
ERRORS: list[Exception] = [
    TypeError("'<' not supported between instances of 'str' and 'int'"),
    RecursionError("maximum recursion depth exceeded"),
    OverflowError("int too large to convert to float"),
    UnicodeEncodeError("utf-8", "\udce9", 0, 1, "surrogates not allowed"),
    KeyError("state"),
    OSError("Too many open files"),
]
CLOUD = ["list_nodes", "account", "image", "create", "destroy", "ask", "find_by_record", "pins"]
STORE = ["list_records", "store_time", "store_id", "create", "claim", "clean", "read", "late_pings"]


def busy(make_rig: MakeRig) -> Rig:
    """A pool that boots, and destroys what it boots no more, all the time."""
    limits = {"min_nodes": 2, "max_nodes": 6, "node_stale_after": 600, "boot_fail_after": 300}
    rig = make_rig(poll_time=60, **limits)
    rig.fleet.add_node(age=3600.0)
    rig.store.add(slot_number=40, hostname="compute40", first_ping_at=1.0, last_ping_at=1.0)
    return rig


CALLS = [*(("cloud", one) for one in CLOUD), *(("store", one) for one in STORE)]


@pytest.mark.slow
@pytest.mark.parametrize(("port", "call"), CALLS)
def test_no_answer_that_an_adapter_can_not_digest_ends_an_actor(
    make_rig: MakeRig, port: str, call: str
) -> None:
    error = ERRORS[CALLS.index((port, call)) % len(ERRORS)]
    rig = busy(make_rig)
    rig.start()
    rig.turn(3 * MINUTE)
    getattr(rig, port).always(call, fail(error))
    rig.turn(15 * MINUTE)
    assert rig.deaths == []
    assert len(rig.lines("adapter.failed")) <= 20
    getattr(rig, port).always(call, None)
    rig.turn(30 * MINUTE)
    assert rig.deaths == []
    assert len([one for one in rig.nodes if not one.is_absent]) >= 2


@pytest.mark.slow
def test_an_error_in_a_decision_ends_the_process(make_rig: MakeRig) -> None:
    rig = busy(make_rig)
    rig.start()
    boom = mock.Mock(spec=decisions.plan, side_effect=TypeError("a bug of ours"))
    with mock.patch("nodemanager.actors.daemon.decisions.plan", boom):
        rig.turn(3 * MINUTE)
    assert [type(error) for _, error in rig.deaths] == [TypeError]
    rig.deaths.clear()


class Port:
    """A port whose calls raise what they are given."""

    provider = "fake"

    def call(self, error: BaseException) -> None:
        raise error


def test_an_order_is_sent_only_while_the_lease_is_held_and_a_question_always() -> None:
    """L6: it is asked at the very moment of sending, not when the order was made."""
    holds = [True]
    net: Any = netted(FakeCloud(ManualClock()), CloudError, "cloud", lambda: holds[-1])
    order = net.create
    holds.append(False)
    with pytest.raises(NotSent) as caught:
        order(mock.Mock())
    assert caught.value.definite
    assert caught.value.unsent
    assert net.list_nodes().items == ()
    for name in ("adopt", "destroy", "release"):
        with pytest.raises(NotSent):
            getattr(net, name)("i-1")


@pytest.mark.parametrize("port", [CloudDriver, RecordStore, Scheduler])
def test_every_call_that_may_change_something_needs_the_lease(port: type) -> None:
    """L6: a call that is not known to be a question is an order."""
    calls = {name for name in vars(port) if not name.startswith("_")} - set(
        getattr(port, "__annotations__", {})
    )
    orders = {
        CloudDriver: {"create", "finish", "adopt", "destroy", "release"},
        RecordStore: {
            *("create", "claim", "clean", "delete", "fence", "unfence", "drain", "restore"),
        },
        Scheduler: {
            *("drain", "resume", "mark_down", "power_up", "describe", "comment", "cancel"),
        },
    }[port]
    assert calls - READS == orders


@pytest.mark.parametrize("error", [Throttled("later"), AssertionError("ours"), MemoryError()])
def test_what_an_adapter_says_itself_comes_through(error: Exception) -> None:
    net = netted(Port(), CloudError, "cloud", lambda: True)
    assert net.provider == "fake"
    with pytest.raises(type(error)) as caught:
        net.call(error)
    assert caught.value is error


def test_what_is_told_of_a_flood_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    net: Callable[..., object] = netted(Port(), CloudError, "cloud", lambda: True).call
    for _ in range(100):
        with pytest.raises(CloudError, match="can't be digested: KeyError"):
            net(KeyError("x"))
    assert len(caplog.records) == 1
