"""What explain says is what was decided, in any small world (SAFETY.md C, D), and when it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, note, settings
from hypothesis import strategies as st

from nodemanager.core.explain.explain import Explanation, explain
from nodemanager.core.judge.nodes import ALONE, AT_ALL, PAIRED, NodeFacts
from nodemanager.core.judge.records import BY_ITSELF, RecordJudge
from nodemanager.core.model.annotations import FORCIBLE, PAUSE, HandClean, Mark
from nodemanager.core.model.reasons import Kind
from nodemanager.core.observe.nodes_by_record import node_of
from nodemanager.core.operate.commands import refused
from nodemanager.core.operate.naming import Named
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import judged
from nodemanager.core.plan.slots import Holder, holder_of
from tests.core.build import World
from tests.core.worlds import IDS, UUIDS, Spec, run, specs


def explanations(made: World) -> list[Explanation]:
    if made.last.aborted is not None:
        return []
    history = made.last.history
    assert history.records is not None
    assert history.cloud is not None
    ids = {one.uuid for one in history.records.items} | {one.id for one in history.cloud.items}
    ids -= history.twice
    return [explain(made.decided, made.last, made.settings, one) for one in sorted(ids)]


@st.composite
def ordered(draw: st.DrawFn) -> Spec:
    """A small world in which an operator has ordered something."""
    spec, mark = draw(specs()), Mark("alice", 0.0, "looked")
    few = st.lists(st.sampled_from(IDS), max_size=1)
    forced = draw(st.sets(st.sampled_from([*FORCIBLE])))
    hand = HandClean("alice", 0.0, "looked", tuple(sorted(forced)))
    orders: dict[str, object] = {
        "kills": dict.fromkeys(draw(few), mark),
        "drains": dict.fromkeys(draw(few), mark),
        "by_hand": dict.fromkeys(draw(st.lists(st.sampled_from(UUIDS), max_size=3)), hand),
        "pool_marks": draw(st.sampled_from([{}, {}, {}, {PAUSE: mark}])),
    }
    return replace(spec, flags=(*spec.flags, *orders.items()))


@pytest.mark.slow
@settings(max_examples=150)
@given(spec=specs() | ordered())
def test_the_first_rule_that_blocks_is_the_reason_that_was_decided_by_c_d(spec: Spec) -> None:
    for told in explanations(run(spec)):
        note(f"{told.id}: {told.verdict}")
        if told.verdict.kind in (Kind.CLEAN, Kind.SHUTDOWN):
            assert told.blocks == []
        else:
            verdict, first = told.verdict, told.blocks[0]
            assert first.reason is verdict.reason
            # A refused command names the rule that `explain` does.
            assert first.rule == refused(Verb.CLEAN, verdict, Named(told.id, None, None)).rule


def named(made: World) -> list[Explanation]:
    """Those whose moment is named, and lies far enough ahead for polls to fit in before it."""
    return [
        one
        for one in explanations(made)
        if one.earliest.in_s is not None and one.earliest.in_s > 30.0
    ]


@pytest.mark.slow
@settings(max_examples=150)
@given(spec=specs())
def test_nothing_blocks_from_the_earliest_moment_on_and_something_does_before_it_c_d(
    spec: Spec,
) -> None:
    spec = replace(spec, glimpse=None, later=None)
    for told in named(run(spec)):
        note(f"{told.id}: {told.verdict} {told.earliest}")
        assert told.earliest.in_s is not None
        assert kind_at(spec, told.id, told.earliest.in_s - 5.0) is Kind.KEEP
        assert kind_at(spec, told.id, told.earliest.in_s + 5.0) is not Kind.KEEP


@pytest.mark.parametrize("subject", ["record", "node"])
def test_worlds_come_with_moments_to_name(subject: str) -> None:
    """Else the property above would hold of nothing."""
    unshrunk = settings(phases=[Phase.generate], max_examples=2000)

    def has_one(spec: Spec) -> bool:
        return any(one.subject == subject for one in named(run(spec)))

    assert has_one(find(specs(), has_one, settings=unshrunk))


def kind_at(spec: Spec, id: str, ahead: float) -> Kind:
    """What is decided `ahead` seconds on, were every poll to answer the same until then."""
    made = run(spec)
    flags = made.last_fields
    end = made.now + ahead
    pace = made.settings.poll_stale_after / 2
    made.poll()
    made.plan(**flags)
    while made.now + pace < end:
        made.advance(pace - 2.5)
        made.poll()
        made.plan(**flags)
    for left in (12.0, 9.0, 6.0, 3.0):
        made.advance(max(0.0, end - left - made.now))
        made.poll()
        made.plan(**flags)
    made.advance(max(0.0, end - made.now))
    plan = made.plan(**flags)
    verdicts = [*plan.records, *(view.verdict for view in plan.views)]
    return next(one.kind for one in verdicts if one.id == id)


@pytest.mark.slow
@settings(max_examples=100)
@given(spec=specs())
def test_a_question_that_is_moot_would_have_nothing_against_anything(spec: Spec) -> None:
    made = run(spec)
    plan = made.last
    assert plan is not None
    if plan.aborted is not None:
        return
    snapshot = judged(plan, made.decided)
    record_judge = RecordJudge(snapshot, made.settings, plan.pairs, plan.unlisted)
    facts = NodeFacts(snapshot, made.settings, plan.pairs)
    history = snapshot.history
    assert history.records is not None
    paired = [one for one in history.records.items if one.uuid in plan.pairs.node_of]
    # What demand and the count of slots take from the pairs they need not look for again.
    for one in paired:
        assert node_of(one, history.nodes_by_record, history.present) is not None
        assert holder_of(one, snapshot, made.settings) is Holder.LISTED_NODE
    for check in BY_ITSELF:
        if check.of_pairs:
            assert not any(check.ask(record_judge, one) for one in paired)
        if check.moot is not None and check.moot(record_judge):
            assert not any(check.ask(record_judge, one) for one in history.records.items)
    for view in plan.views:
        subject = facts.subject(view.node)
        for of_node in (*AT_ALL, *(PAIRED if subject.record else ALONE)):
            if of_node.moot is not None and of_node.moot(facts):
                assert of_node.ask(facts, subject) is None
