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


@pytest.mark.parametrize(
    ("constraint", "sets"),
    [
        pytest.param("gpu", (("gpu",),), id="one"),
        pytest.param("gpu&rack1", (("gpu", "rack1"),), id="both"),
        pytest.param("gpu,rack1", (("gpu", "rack1"),), id="a-comma-is-both"),
        pytest.param("gpu|rack1", (("gpu",), ("rack1",)), id="either"),
        pytest.param("[rack1|rack2]", (("rack1",), ("rack2",)), id="one-of-them-for-all-nodes"),
        pytest.param(
            "gpu&(rack1|rack2)", (("gpu", "rack1"), ("gpu", "rack2")), id="with-alternatives"
        ),
        pytest.param("(a)&instancetype=m5.large", (("a", "instancetype=m5.large"),), id="a-size"),
        pytest.param("a|a", (("a",),), id="twice"),
        pytest.param("a|b&c", (("a", "c"), ("b", "c")), id="from-left-to-right"),
        pytest.param("a&b|c", (("a", "b"), ("c",)), id="or-behind-and"),
        pytest.param("graphics*4", (("graphics",),), id="counted"),
        pytest.param("(a&b)*2", (("a", "b"),), id="a-bracket-counted"),
        pytest.param("[(a|b)*1&(c)*2]", (("a", "c"), ("b", "c")), id="several-counts"),
    ],
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


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        pytest.param("", (), id="none"),
        pytest.param("gpu", (("gpu", 1),), id="one"),
        pytest.param("gpu:2", (("gpu", 2),), id="a-count"),
        pytest.param("gpu:tesla", (("gpu", 1), ("gpu:tesla", 1)), id="a-type"),
        pytest.param("gres:gpu:tesla:2", (("gpu", 2), ("gpu:tesla", 2)), id="as-22.05"),
        pytest.param("gres/gpu=3", (("gpu", 3),), id="as-23.11"),
        pytest.param("gpu:a:1,gpu:b:2", (("gpu", 3), ("gpu:a", 1), ("gpu:b", 2)), id="two-types"),
        pytest.param("shard:2K(S:0-1)", (("shard", 2048),), id="thousands"),
        pytest.param("nv-link:2", (("nv-link", 2),), id="a-dash"),
        pytest.param("lustre:4T", (("lustre", 4 << 40),), id="terabytes"),
        pytest.param("lustre:4t", (("lustre", 4 << 40),), id="small-letters"),
        pytest.param(
            "bandwidth:lustre:no_consume:4G",
            (("bandwidth", 4 << 30), ("bandwidth:lustre", 4 << 30)),
            id="no-consume",
        ),
        pytest.param("gpu:a100-sxm", (("gpu", 1), ("gpu:a100-sxm", 1)), id="a-type-with-a-dash"),
        pytest.param("gpu:1g.5gb:2", (("gpu", 2), ("gpu:1g.5gb", 2)), id="a-share-of-a-card"),
        pytest.param("gpu:2(IDX:0,2),tape:1", (("gpu", 2), ("tape", 1)), id="notes-with-commas"),
        pytest.param("cpu=2,gres/gpu:t4=1", (("gpu", 1), ("gpu:t4", 1)), id="beside-cpus"),
        pytest.param("license/matlab:1,cpu:2", (), id="no-generic-ones"),
    ],
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
