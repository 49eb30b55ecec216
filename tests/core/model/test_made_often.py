"""Data that is frozen for the type checker alone is used like any other frozen data."""

from __future__ import annotations

import pickle
from dataclasses import replace

from nodemanager.core.model.world import Claim, CloudNode, CloudState, Record, Tags

CLAIM = Claim("p", "m", 1, 2.0, "n", "i")
ITEMS = (
    Tags("p", "r", "i"),
    CLAIM,
    CloudNode("i-1", "n", CloudState.RUNNING, tags=Tags("p")),
    Record("zzzzz-7ekkf-000000000000001", "1", slot_number=0, claim=CLAIM),
)


def test_what_each_poll_makes_anew_has_slots_equals_its_copy_and_is_replaced() -> None:
    for item in ITEMS:
        assert not hasattr(item, "__dict__")
        assert pickle.loads(pickle.dumps(item)) == item
    assert replace(CLAIM, token=2) != CLAIM
    assert replace(CLAIM, token=1) == CLAIM


def test_tags_and_claims_are_keys() -> None:
    assert {Tags("p"): 1, CLAIM: 2}[Tags("p")] == 1
    assert hash(replace(CLAIM)) == hash(CLAIM)
