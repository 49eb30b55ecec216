"""Features and resources: what jobs ask for, and what a size has (U12)."""

from __future__ import annotations

import contextlib
from time import process_time

import pytest

from nodemanager.core.model.features import (
    MAX_BRACKETS,
    MAX_CONSTRAINT,
    constraint_of,
    gres_of,
    has_features,
    has_gres,
    shown,
    shown_gres,
)
from tests.cases import cases


@cases(
    ("constraint", "sets"),
    {
        "one": ("gpu", (("gpu",),)),
        "both": ("gpu&rack1", (("gpu", "rack1"),)),
        "a-comma-is-both": ("gpu,rack1", (("gpu", "rack1"),)),
        "either": ("gpu|rack1", (("gpu",), ("rack1",))),
        "one-of-them-for-all-nodes": ("[rack1|rack2]", (("rack1",), ("rack2",))),
        "with-alternatives": ("gpu&(rack1|rack2)", (("gpu", "rack1"), ("gpu", "rack2"))),
        "a-size": ("(a)&instancetype=m5.large", (("a", "instancetype=m5.large"),)),
        "twice": ("a|a", (("a",),)),
        "from-left-to-right": ("a|b&c", (("a", "c"), ("b", "c"))),
        "or-behind-and": ("a&b|c", (("a", "b"), ("c",))),
        "counted": ("graphics*4", (("graphics",),)),
        "a-bracket-counted": ("(a&b)*2", (("a", "b"),)),
        "several-counts": ("[(a|b)*1&(c)*2]", (("a", "c"), ("b", "c"))),
    },
)
def test_a_constraint_is_read_as_its_alternatives(
    constraint: str, sets: tuple[tuple[str, ...], ...]
) -> None:
    assert constraint_of(constraint).sets == sets


@pytest.mark.parametrize(
    "constraint",
    [
        "",
        "a&",
        "a*",
        "a*b",
        "*2",
        "a&*2",
        "a|",
        "(a",
        "a)",
        "&a",
        "a b",
        "()",
        "&".join(["(a|b|c)"] * 9),
    ],
)
def test_what_no_one_size_can_meet_is_no_constraint(constraint: str) -> None:
    if "c)&" in constraint:
        constraint = "&".join(f"(a{n}|b{n}|c{n})" for n in range(9))
    with pytest.raises(ValueError, match="constraint"):
        constraint_of(constraint)


def test_counts_of_several_kinds_ask_for_different_nodes() -> None:
    assert constraint_of("[rack1*2&rack2*4]").counted
    assert not constraint_of("graphics*4").counted
    assert not constraint_of("rack1&rack2").counted


@cases(
    ("text", "gres"),
    {
        "none": ("", ()),
        "one": ("gpu", (("gpu", 1),)),
        "a-count": ("gpu:2", (("gpu", 2),)),
        "a-type": ("gpu:tesla", (("gpu", 1), ("gpu:tesla", 1))),
        "as-22.05": ("gres:gpu:tesla:2", (("gpu", 2), ("gpu:tesla", 2))),
        "as-23.11": ("gres/gpu=3", (("gpu", 3),)),
        "two-types": ("gpu:a:1,gpu:b:2", (("gpu", 3), ("gpu:a", 1), ("gpu:b", 2))),
        "thousands": ("shard:2K(S:0-1)", (("shard", 2048),)),
        "a-dash": ("nv-link:2", (("nv-link", 2),)),
        "terabytes": ("lustre:4T", (("lustre", 4 << 40),)),
        "small-letters": ("lustre:4t", (("lustre", 4 << 40),)),
        "no-consume": (
            "bandwidth:lustre:no_consume:4G",
            (("bandwidth", 4 << 30), ("bandwidth:lustre", 4 << 30)),
        ),
        "a-type-with-a-dash": ("gpu:a100-sxm", (("gpu", 1), ("gpu:a100-sxm", 1))),
        "a-share-of-a-card": ("gpu:1g.5gb:2", (("gpu", 2), ("gpu:1g.5gb", 2))),
        "notes-with-commas": ("gpu:2(IDX:0,2),tape:1", (("gpu", 2), ("tape", 1))),
        "beside-cpus": ("cpu=2,gres/gpu:t4=1", (("gpu", 1), ("gpu:t4", 1))),
        "no-generic-ones": ("license/matlab:1,cpu:2", ()),
    },
)
def test_resources_are_read_with_their_types(text: str, gres: tuple[tuple[str, int], ...]) -> None:
    assert gres_of(text) == gres
    assert gres_of(shown_gres(gres)) == gres


@pytest.mark.parametrize(
    "text", ["2", "gpu:-1", "gpu:2:3", "gpu:a:b:1", "gpu::", "gres/", "gpu 2", "gpu:2;id"]
)
def test_other_text_is_no_resource(text: str) -> None:
    with pytest.raises(ValueError, match="no resource"):
        gres_of(text)


def test_a_node_needs_all_of_one_alternative_and_enough_of_each_resource() -> None:
    asked = constraint_of("gpu&(rack1|rack2)").sets
    assert shown(asked) == "gpu&rack1|gpu&rack2"
    assert has_features(("rack2", "gpu", "ssd"), asked)
    assert not has_features(("rack2", "rack1"), asked)
    assert has_features((), ())
    there = gres_of("gpu:tesla:4")
    assert has_gres(there, gres_of("gpu:4"))
    assert has_gres(there, gres_of("gpu:tesla:2"))
    assert not has_gres(there, gres_of("gpu:5"))
    assert not has_gres(there, gres_of("gpu:a100:1"))


@pytest.mark.parametrize(
    "text",
    ["|".join(["a&b"] * 20_000), "(" * 5000 + "a" + ")" * 5000, "&".join(map(str, range(20_000)))],
    ids=["alternatives", "brackets", "names"],
)
def test_a_constraint_without_an_end_costs_nobody_anything(text: str) -> None:
    """Any user may submit one: the next poll would wait for it, or end with the daemon."""
    begun = process_time()
    with pytest.raises(ValueError, match="too long"):
        constraint_of(text)
    assert process_time() - begun < 0.5
    nearly = text[: MAX_BRACKETS if text.startswith("(") else MAX_CONSTRAINT]
    with contextlib.suppress(ValueError):
        constraint_of(nearly)
    assert process_time() - begun < 1
