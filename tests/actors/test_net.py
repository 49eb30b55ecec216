"""Whatever comes out of a port, no actor ends of it; an error in a decision still ends all."""

from __future__ import annotations

from collections.abc import Callable

import mock
import pytest

from nodemanager.actors.daemon import decisions
from nodemanager.actors.net import netted
from nodemanager.errors import CloudError, Throttled
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
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
    rig = make_rig(min_nodes=2, max_nodes=6, node_stale_after=600, boot_fail_after=300)
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
    boom = mock.Mock(spec=decisions.decide, side_effect=TypeError("a bug of ours"))
    with mock.patch("nodemanager.actors.daemon.decisions.decide", boom):
        rig.turn(3 * MINUTE)
    assert [type(error) for _, error in rig.deaths] == [TypeError]
    rig.deaths.clear()


class Port:
    """A port whose calls raise what they are given."""

    provider = "fake"

    def call(self, error: BaseException) -> None:
        raise error


@pytest.mark.parametrize("error", [Throttled("later"), AssertionError("ours"), MemoryError()])
def test_what_an_adapter_says_itself_comes_through(error: Exception) -> None:
    net = netted(Port(), CloudError, "cloud")
    assert net.provider == "fake"
    with pytest.raises(type(error)) as caught:
        net.call(error)
    assert caught.value is error


def test_what_is_told_of_a_flood_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    net: Callable[..., object] = netted(Port(), CloudError, "cloud").call
    for _ in range(100):
        with pytest.raises(CloudError, match="can't be digested: KeyError"):
            net(KeyError("x"))
    assert len(caplog.records) == 1
