"""Taking, renewing and losing the lease, by hand: two managers on two machines (L6, T2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from nodemanager.core.model.reasons import Event
from nodemanager.core.safety.lease import LeaseRole
from nodemanager.lease.keeper import Keeper, Term
from nodemanager.lib import log
from tests.fakes.clock import ManualClock
from tests.fakes.leases import FakeLeases

LEASE_S = 30.0


@dataclass
class Host:
    """One manager with its own machine's clocks."""

    name: str
    clock: ManualClock
    keeper: Keeper
    terms: list[Term | None] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.keeper.term is not None and self.keeper.term.holds()


@dataclass
class Hosts:
    """The machines, and the database's; their clocks run equally fast, and start anywhere."""

    database: ManualClock = field(default_factory=lambda: ManualClock(wall=1_000.0))
    hosts: list[Host] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leases = FakeLeases(self.database)
        self.said: list[tuple[Event, Mapping[str, Any]]] = []
        self.log = log.get("nodemanager.test")
        self.log.listeners.append(lambda event, level, fields: self.said.append((event, fields)))

    def host(self, name: str, *, boottime: float = 50.0, wall: float = 0.0) -> Host:
        clock = ManualClock(boottime=boottime, wall=wall)
        terms: list[Term | None] = []
        keeper = Keeper(
            self.leases.of(name, clock),
            pool="main",
            holder=name,
            duration=LEASE_S,
            clock=clock,
            log=self.log,
            changed=terms.append,
        )
        made = Host(name, clock, keeper, terms)
        self.hosts.append(made)
        return made

    def pass_by(self, seconds: float) -> None:
        for clock in (self.database, *(host.clock for host in self.hosts)):
            clock.advance(seconds)

    def run(self, seconds: float, *awake: Host, step_s: float = 0.5) -> None:
        """Let time pass; each of `awake` does its steps as they are due. Never do two hold it."""
        due = dict.fromkeys((one.name for one in awake), 0.0)
        passed = 0.0
        while passed < seconds:
            for host in awake:
                if due[host.name] <= passed:
                    due[host.name] = passed + host.keeper.step()
                assert sum(one.holds for one in self.hosts) <= 1, "two managers may act"
            self.pass_by(step_s)
            passed += step_s


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


def test_one_acts_and_the_other_stands_by_for_as_long_as_it_renews(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two", boottime=9e6, wall=5e8)
    hosts.run(300.0, one, two)
    assert one.holds
    assert not two.holds
    assert [term.token for term in one.terms if term] == [1]
    assert two.terms == []
    assert two.keeper.view().role is LeaseRole.STANDBY
    assert two.keeper.view().holder == "one"


def test_the_other_takes_over_from_one_that_died_within_two_looks_of_the_end(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two")
    hosts.run(100.0, one, two)
    hosts.hosts.remove(one)
    hosts.run(LEASE_S - 10.0, two)
    assert not two.holds
    hosts.run(10.0 + 2 * 1.0 + 0.5, two)
    assert two.holds
    (term,) = two.terms
    assert term is not None
    assert (term.token, term.after_another) == (2, True)


def test_what_is_given_back_is_taken_at_the_next_look(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two")
    hosts.run(10.0, one, two)
    one.keeper.stop(gives_back=True)
    assert not one.holds
    hosts.run(1.5, two)
    (term,) = two.terms
    assert term is not None
    assert not term.after_another


def test_who_may_have_calls_under_way_gives_nothing_back(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two")
    hosts.run(10.0, one, two)
    one.keeper.stop(gives_back=False)
    assert not one.holds
    hosts.run(LEASE_S / 2, two)
    assert two.terms == []


def test_a_renewal_that_was_late_is_told_as_the_loss_and_the_return_that_it_was(
    hosts: Hosts,
) -> None:
    """The daemon tells the loss as it decides meanwhile, and nothing else would tell the end."""
    one = hosts.host("one")
    hosts.run(5.0, one)
    hosts.said.clear()
    hosts.leases.takes_s = LEASE_S
    one.keeper.step()
    hosts.leases.takes_s = 0.0
    one.keeper.step()
    assert one.holds
    assert [event for event, _ in hosts.said] == [Event.LEASE_LOST, Event.LEASE_ACQUIRED]
    one.keeper.step()
    assert len(hosts.said) == 2


def test_out_of_the_database_s_reach_it_acts_to_the_end_of_its_lease_and_then_fences_itself(
    hosts: Hosts,
) -> None:
    one = hosts.host("one")
    hosts.run(100.0, one)
    hosts.leases.out_of_reach.add("one")
    hosts.run(LEASE_S / 2, one)
    assert one.holds, "a database that restarts stops nobody"
    hosts.run(LEASE_S, one)
    assert not one.holds
    assert one.keeper.view().role is LeaseRole.NONE
    assert one.keeper.view().error, "whoever looks at the status learns why"
    assert [event for event, _ in hosts.said] == [Event.LEASE_ACQUIRED, Event.LEASE_LOST]
    hosts.leases.out_of_reach.clear()
    hosts.run(3.5, one)
    assert one.holds, "nobody had taken it: the term goes on"
    assert one.keeper.view().error is None
    assert [term.token for term in one.terms if term] == [1]


def test_one_that_is_cut_off_and_one_that_takes_over_never_act_both(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two", boottime=7.0)
    hosts.run(100.0, one, two)
    hosts.leases.out_of_reach.add("one")
    hosts.run(3 * LEASE_S, one, two)
    assert two.holds
    hosts.leases.out_of_reach.clear()
    hosts.run(10.0, one, two)
    assert two.holds
    assert one.terms[-1] is None, "it is told that its term is over"
    assert one.keeper.view().role is LeaseRole.STANDBY


def test_a_stopped_process_finds_its_lease_over_before_it_asks_anybody(hosts: Hosts) -> None:
    """SIGSTOP past the lease, SIGCONT: its workers wake before its keeper does."""
    one = hosts.host("one")
    hosts.run(20.0, one)
    (term,) = one.terms
    assert term is not None
    assert term.holds()
    hosts.pass_by(LEASE_S)
    assert not term.holds()


def test_a_term_that_another_manager_has_ended_is_over_though_its_time_runs_on(
    hosts: Hosts,
) -> None:
    """A database that fails over may give the lease away too early."""
    one = hosts.host("one")
    hosts.run(20.0, one)
    (term,) = one.terms
    assert term is not None
    hosts.leases.holder, hosts.leases.token = "two", 2
    one.keeper.step()
    assert term.ends_at > one.clock.boottime()
    assert not term.holds()
    assert one.terms == [term, None]


def test_an_answer_that_comes_late_counts_from_the_question(hosts: Hosts) -> None:
    one = hosts.host("one")
    hosts.leases.takes_s = 0.8 * LEASE_S
    one.keeper.step()
    (term,) = one.terms
    assert term is not None
    assert term.ends_at - one.clock.boottime() == pytest.approx(0.9 * LEASE_S - 0.8 * LEASE_S)
    hosts.leases.takes_s = LEASE_S
    assert one.keeper.step() == 0.0, "the next renewal is due at once"
    assert not term.holds()


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_database_whose_clock_is_set_changes_nothing(hosts: Hosts, jump_s: float) -> None:
    """It gives the lease of a holder that acts to nobody, and keeps that of a dead one from
    nobody."""
    one, two = hosts.host("one"), hosts.host("two")
    hosts.run(100.0, one, two)
    hosts.database.step_wall(jump_s)
    hosts.leases.out_of_reach.add("one")
    (term,) = one.terms
    assert term is not None
    hosts.run(term.ends_at - one.clock.boottime() - 0.5, one, two)
    assert one.holds
    assert not two.holds
    hosts.run(0.1 * LEASE_S + 3.0, one, two)
    assert two.holds


def test_who_comes_new_watches_a_whole_lease_first(hosts: Hosts) -> None:
    """The row may have ended by a clock that was set; the holder may live."""
    one = hosts.host("one")
    hosts.run(10.0, one)
    hosts.database.step_wall(3600.0)
    two = hosts.host("two")
    hosts.run(3.0, two)
    assert two.terms == []
    hosts.run(LEASE_S, two)
    assert len(two.terms) == 1


def test_a_database_that_comes_back_is_watched_anew(hosts: Hosts) -> None:
    """After a failover it may lack the newest renewals, of a holder that lives."""
    one, two = hosts.host("one"), hosts.host("two")
    hosts.run(4.0, one, two)
    seen = hosts.leases.renewals, hosts.leases.expires_at
    hosts.leases.out_of_reach.add("two")
    hosts.run(12.0, one, two)
    assert hosts.leases.renewals > seen[0]
    hosts.leases.renewals, hosts.leases.expires_at = seen
    hosts.leases.out_of_reach = {"one"}
    hosts.run(LEASE_S - 5.0, two)
    assert two.terms == []


def test_of_two_that_take_it_at_one_moment_one_gets_it(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two")
    row = hosts.leases.of("one", one.clock).look()
    assert hosts.leases.of("two", two.clock).take(row, "two", LEASE_S) == 1
    assert hosts.leases.of("one", one.clock).take(row, "one", LEASE_S) is None


def test_the_log_says_who_acts_once(hosts: Hosts) -> None:
    one, two = hosts.host("one"), hosts.host("two")
    hosts.run(60.0, one, two)
    hosts.leases.out_of_reach.add("two")
    hosts.run(10.0, one, two)
    hosts.leases.out_of_reach.clear()
    hosts.run(10.0, one, two)
    assert [event for event, _ in hosts.said] == [Event.LEASE_ACQUIRED, *[Event.LEASE_STANDBY] * 3]
    by_one, by_two, unanswered, again = (fields for _, fields in hosts.said)
    for fields in (by_one, by_two, again):
        assert (fields["holder"], fields["token"]) == ("one", 1)
    assert unanswered["holder"] is None
    assert str(unanswered["error"]) == "connection refused"
