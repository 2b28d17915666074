"""The ray lab without a browser: its answers, what the naive tests say, and the words for it."""

from __future__ import annotations

import math
import xml.dom.minidom
from dataclasses import replace

import numpy as np
import pytest

from bvh.lab.answers import exact_answer, naive_answers
from bvh.lab.chart import chart, ruler, ticks
from bvh.lab.naive import NAIVES, claims
from bvh.lab.numbers import numbers_of, text_of
from bvh.lab.panel import edited
from bvh.lab.presets import CUBE, PRESETS
from bvh.lab.state import (
    LabBox,
    LabState,
    Vector,
    crossings,
    interval,
    nearest,
    rotation,
    slabs,
    turn_of,
)
from bvh.lab.words import WRONG, exact_words, headline, verdict
from tests import oracle_lab

STATES = {preset.name: preset.state for preset in PRESETS}
ALL_NAIVES = {naive.name for naive in NAIVES}
BY_DIVISION = {"divide", "leaving", "unchecked", "mixed", "float32"}

# Which naive tests each preset refutes, and what is said of the first of them.
REFUTED = {
    "Straight through": (set(), ""),
    "In a face plane": (BY_DIVISION, "y: (0.5 - 0.5) / 0 is NaN"),
    "Minus zero": ({"reciprocal"}, "y: -0.0 >= 0 is true, yet 1/-0.0 is -inf"),
    "Through an edge": ({"reciprocal"}, "rounding puts the exit from y before the entry"),
    "Through a corner": ({"reciprocal"}, "rounding puts the exit from y before the entry"),
    "Lost by a hair": (ALL_NAIVES - {"float32"}, "before the entry into x; both are at 1.6"),
    "Invented by a hair": (ALL_NAIVES, "rounding makes the exit from y (3.9999999999999996)"),
    "Starting inside": ({"leaving", "unchecked", "one-sided"}, "it calls the exit the hit"),
    "Behind the origin": ({"unchecked"}, "t = -3.5 is behind the origin"),
    "A segment that ends early": (ALL_NAIVES, "it knows no t_max: t = 1.2 is beyond 1"),
    "The first is not the nearest": ({"mixed", "first"}, "it looks from 0 to 1, the box is from"),
    "A million units away": ({"capped", "mixed"}, "the search ends at t = 100000"),
    "Almost parallel": ({"capped", "mixed"}, "y: a slope of 0.0008 is taken for parallel"),
    "Huge coordinates": ({"float32"}, "float32 makes 10000000 of upper.x = 10000000.375"),
    "Outside by one ulp": ({"unchecked", "float32"}, "is behind the origin"),
    "A denormal direction": (
        {"reciprocal", "capped", "one-sided", "float32"},
        "x: 1 / 4e-309 overflows to inf",
    ),
    "A tall box": ({"mixed"}, "y: it looks from 0.5 to 2, the box is from 3 to 4"),
    "A turned box": (set(), ""),
    "No direction": (ALL_NAIVES - {"one-sided"}, "nobody asked whether this is a ray at all"),
}


def check(state: LabState) -> None:
    """Compare everything exact with the oracle."""
    hits = []
    for index in range(len(state.boxes)):
        expected = oracle_lab.stay(state, index)
        found = interval(state, index)
        assert (found.near, found.far) == (expected or (math.inf, -math.inf))
        assert found.hit == (expected is not None)
        if expected is not None:
            hits.append((expected[0], index))
        if not state.is_ray:
            continue
        for slab in slabs(state, index):
            ends = oracle_lab.slab(state, index, slab.axis)
            if ends is None:
                assert slab.kind == "outside"
            elif isinstance(ends[0], float):
                assert slab.kind == "inside"
            else:
                assert slab.kind == "crossed"
                assert (slab.near, slab.far) == tuple(map(oracle_lab.rounded, ends))
    assert nearest(state) == (min(hits)[1] if hits else None)


@pytest.mark.parametrize("flat", [False, True], ids=["space", "plane"])
@pytest.mark.parametrize("name", STATES)
def test_presets_are_answered_exactly(name: str, flat: bool) -> None:
    check(replace(STATES[name], flat=flat))


@pytest.mark.parametrize("name", STATES)
def test_presets_refute_what_they_say(name: str) -> None:
    wrong, words = REFUTED[name]
    state = STATES[name]
    said = {claim.naive.name: verdict(state, claim) for claim in claims(state)}
    assert {naive for naive, judged in said.items() if judged.kind == WRONG} == wrong
    assert words in " | ".join(judged.words for judged in said.values())
    # The page has it, too, and is well formed.
    page = xml.dom.minidom.parseString(f"<div>{exact_answer(state)}{naive_answers(state)}</div>")
    kinds = {
        node.getAttribute("data-lab"): node.getAttribute("data-kind")
        for node in page.getElementsByTagName("div")
    }
    assert {naive for naive, kind in kinds.items() if kind == WRONG} == wrong


def test_every_naive_test_is_refuted_by_some_preset() -> None:
    assert set(REFUTED) == set(STATES)
    assert set.union(*(wrong for wrong, _ in REFUTED.values())) == ALL_NAIVES | {"first"}


def random_state(rng: np.random.Generator, chaos: bool) -> LabState:
    """Return any state; without chaos on a lattice, where rays graze edges and corners."""

    def vector(size: float) -> Vector:
        drawn = rng.uniform(-size, size, 3) if chaos else rng.integers(-3, 4, 3) * 0.5
        x, y, z = (float(x) for x in drawn)
        return x, y, z

    boxes = []
    for _ in range(int(rng.integers(1, 3))):
        low, high = np.sort([vector(2), vector(2)], axis=0).tolist()
        turn = vector(180) if chaos else tuple((rng.integers(0, 4, 3) * 90.0).tolist())
        boxes.append(LabBox(tuple(low), tuple(high), turn if rng.random() < 0.5 else (0, 0, 0)))
    t_min, t_max = sorted(rng.integers(-2, 6, 2).tolist()) if rng.random() < 0.3 else (0, math.inf)
    flat = bool(rng.random() < 0.3)
    return LabState(vector(3), vector(1), tuple(boxes), float(t_min), float(t_max), flat)


@pytest.mark.parametrize("chaos", [False, True], ids=["lattice", "chaos"])
def test_random_states_are_answered_exactly(rng: np.random.Generator, chaos: bool) -> None:
    for _ in range(300):
        state = random_state(rng, chaos)
        check(state)
        # Words and chart cope with any of them.
        assert headline(state) and exact_words(state)
        xml.dom.minidom.parseString(chart(state))
        for claim in claims(state):
            judged = verdict(state, claim)
            assert bool(judged.words) == (judged.kind != "same")


def test_crossings_are_the_six_planes() -> None:
    found = crossings(STATES["Straight through"])
    told = [("xyz"[c.axis], c.entering, c.t) for c in found]
    assert told == [
        ("y", True, 0.5), ("z", True, 0.8), ("x", True, 1.5),
        ("x", False, 3.0), ("z", False, 3.2), ("y", False, 3.5),
    ]  # fmt: skip
    assert len(crossings(STATES["In a face plane"])) == 2


def test_words_tell_why() -> None:
    said = {name: exact_words(state) for name, state in STATES.items()}
    assert said["Straight through"] == "The ray enters where x = 0.5, and leaves where x = 2."
    assert "touches the box at a single t, where x = 0.5, y = 2" in said["Through a corner"]
    assert said["Starting inside"].startswith("The ray is inside from the start")
    assert "before the ray begins" in said["Behind the origin"]
    assert "after the ray ends" in said["A segment that ends early"]
    assert "leaves the x slab at 3, before it enters the y slab at 4" in said["A tall box"]
    assert said["No direction"] == "The direction is zero, so there is no ray."
    beside = replace(STATES["In a face plane"], origin=(-1.0, math.nextafter(0.5, 0.0), 1.0))
    assert exact_words(beside) == "The ray is parallel to the y slab and beside it."
    # One whose ends are equal as doubles, and not in truth.
    hair = replace(STATES["Through an edge"], origin=(0.4375, math.nextafter(-1.0625, 0.0), 1.0))
    assert headline(hair) == "miss"
    assert headline(STATES["Minus zero"]) == "hit: t_near = 1.5, t_far = 3"


@pytest.mark.parametrize("name", STATES)
def test_charts_show_the_exact_ends(name: str) -> None:
    state = STATES[name]
    index = nearest(state) or 0
    svg = xml.dom.minidom.parseString(chart(state, index))
    text = [node.firstChild.data for node in svg.getElementsByTagName("text")]  # type: ignore[union-attr]
    for slab in slabs(state, index):
        if slab.kind == "crossed":
            assert f"{text_of([slab.near])} .. {text_of([slab.far])}" in text
    stay = interval(state, index)
    assert (f"{text_of([stay.near])} .. {text_of([stay.far])}" in text) == stay.hit
    for node in svg.getElementsByTagName("rect"):
        x, width = (float(node.getAttribute(key)) for key in ("x", "width"))
        assert x >= 0 and width >= 0 and x + width <= 376
    scale = ruler(state, slabs(state, index))
    assert all(scale.shows(t) for t in ticks(scale))
    if stay.hit:
        assert scale.shows(stay.near) and scale.shows(stay.far)


def test_numbers_go_in_and_out_to_the_last_digit(rng: np.random.Generator) -> None:
    values = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    hard = [-0.0, 0.0, 5e-324, -math.inf, 1e22, 0.1]
    for x in (*values[np.isfinite(values)].tolist(), *hard):
        (back,) = numbers_of("x", text_of([x]), 1)
        assert back == x and math.copysign(1.0, back) == math.copysign(1.0, x)
    assert numbers_of("origin", "0x1.8p-3  1e-300, inf", 3) == (0.1875, 1e-300, math.inf)


def test_fields_take_numbers_and_say_what_is_wrong() -> None:
    state = STATES["Straight through"]
    assert edited(state, "direction", "1, -0.0, 2").direction == (1.0, 0.0, 2.0)
    assert edited(state, "t range", "-inf, 3").t_min == -math.inf
    assert edited(state, "turn", "0, 0, 30").boxes[0].turned
    assert edited(state, "lower", "0, 0, 0").boxes[0] == replace(CUBE, lower=(0.0, 0.0, 0.0))
    pair = replace(state, boxes=(CUBE, CUBE))
    assert edited(pair, "upper 2", "3, 3, 3").boxes[1].upper == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="origin takes 3 numbers, got 2"):
        edited(state, "origin", "1, 2")
    with pytest.raises(ValueError, match="direction: 'one' is no number"):
        edited(state, "direction", "one, 0, 0")
    with pytest.raises(ValueError, match="finite degrees"):
        edited(state, "turn", "0, nan, 0")


@pytest.mark.parametrize(
    "text", ["nan, 0, 0", "inf, 0, 0", "1e308, -1e308, 5e-324", "0, 0, 0", "-0.0, 0, 0"]
)
@pytest.mark.parametrize("name", ["origin", "direction", "lower", "upper"])
@pytest.mark.parametrize("turn", ["0, 0, 0", "10, 20, 30"])
@pytest.mark.filterwarnings("error")
def test_no_numbers_break_the_lab(name: str, text: str, turn: str) -> None:
    """Whatever is typed, there is an answer, and a page for it."""
    state = edited(edited(STATES["Straight through"], "turn", turn), name, text)
    for seen in (state, replace(state, flat=True)):
        assert exact_answer(seen) and naive_answers(seen)
        xml.dom.minidom.parseString(chart(seen))


def test_turns(rng: np.random.Generator) -> None:
    for quarters in np.ndindex(4, 4, 4):
        x, y, z = (90.0 * k for k in quarters)
        assert set(np.unique(rotation((x, y, z)))) <= {-1.0, 0.0, 1.0}
    for degrees in [*rng.uniform(-180, 180, (100, 3)).tolist(), [10, 90, 20], [30, -90, 50]]:
        matrix = rotation((degrees[0], degrees[1], degrees[2]))
        assert np.allclose(matrix @ matrix.T, np.eye(3)) and np.linalg.det(matrix) > 0
        assert np.allclose(rotation(turn_of(matrix)), matrix, atol=1e-7)
