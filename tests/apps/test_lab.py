"""The ray lab without a browser: its answers, its naive tests, and its text fields."""

from __future__ import annotations

import math
import xml.dom.minidom
from dataclasses import replace

import numpy as np
import pytest

from bvh.apps.lab.answers import chart, exact_answer, exact_reason, naive_answers, percent, scale_of
from bvh.apps.lab.naive import NAIVES, WRONG, claims, verdict
from bvh.apps.lab.state import (
    PRESETS,
    LabState,
    Vector,
    crossings,
    edited,
    interval,
    nearest,
    slabs,
    text_of,
)
from tests.oracles import lab as oracle_lab

STATES = {preset.name: preset.state for preset in PRESETS}
ALL_NAIVES = {naive.name for naive in NAIVES}

# Which naive tests each preset refutes, and a flaw that is named there.
REFUTED = {
    "Straight through": (set(), ""),
    "Ray in a face plane": (ALL_NAIVES - {"reciprocal"}, "0 / 0 = NaN"),
    "Negative zero": ({"reciprocal"}, "1 / -0.0 = -inf"),
    "Through an edge": ({"reciprocal"}, "rounding"),
    "Hit lost to rounding": (ALL_NAIVES - {"float32"}, "rounding"),
    "False hit by rounding": (ALL_NAIVES, "rounding"),
    "Origin inside the box": ({"leaving", "unchecked"}, "returns t_far, not the entry"),
    "Box behind the origin": ({"unchecked"}, "behind the origin"),
    "Segment ends before the box": (ALL_NAIVES, "ignores t_max"),
    "First hit is not the closest": ({"first"}, "stops at box 1; box 2 is closer"),
    "Large coordinates": ({"float32"}, "float32 rounds the coordinates"),
    "Origin one ulp outside": ({"unchecked", "float32"}, "behind the origin"),
    "Subnormal direction": ({"reciprocal", "float32"}, "1 / d overflows"),
    "Zero direction": (ALL_NAIVES, "accepts an invalid ray"),
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


@pytest.mark.parametrize("name", STATES)
def test_presets_are_answered_exactly(name: str) -> None:
    check(STATES[name])


@pytest.mark.parametrize("name", STATES)
def test_presets_refute_what_they_say(name: str) -> None:
    wrong, text = REFUTED[name]
    state = STATES[name]
    said = {claim.naive.name: verdict(state, claim) for claim in claims(state)}
    assert {naive for naive, judged in said.items() if judged[0] == WRONG} == wrong
    assert text in " | ".join(judged[1] for judged in said.values())
    # The page has it, too, and is well formed.
    page = xml.dom.minidom.parseString(f"<div>{exact_answer(state)}{naive_answers(state)}</div>")
    kinds = {
        node.getAttribute("id").removeprefix("bvh-"): node.getAttribute("data-kind")
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

    (low, high), (low_2, high_2) = (
        map(tuple, np.sort([vector(2), vector(2)], axis=0).tolist()) for _ in range(2)
    )
    t_min, t_max = sorted(rng.integers(-2, 6, 2).tolist()) if rng.random() < 0.3 else (0, math.inf)
    second, t_range = bool(rng.random() < 0.5), (float(t_min), float(t_max))
    return LabState(vector(3), vector(1), t_range, low, high, low_2, high_2, second)


@pytest.mark.parametrize("chaos", [False, True], ids=["lattice", "chaos"])
def test_random_states_are_answered_exactly(rng: np.random.Generator, chaos: bool) -> None:
    for _ in range(120):
        state = random_state(rng, chaos)
        check(state)
        # Reason and chart cope with any of them.
        assert exact_reason(state)
        xml.dom.minidom.parseString(f"<div>{chart(state)}</div>")
        for claim in claims(state):
            judged = verdict(state, claim)
            assert bool(judged[1]) == (judged[0] != "same")


def test_crossings_are_the_six_planes() -> None:
    found = crossings(STATES["Straight through"])
    told = [("xyz"[axis], not leaving, t) for t, leaving, axis in found]
    assert told == [
        ("y", True, 0.5), ("z", True, 0.8), ("x", True, 1.5),
        ("x", False, 3.0), ("z", False, 3.2), ("y", False, 3.5),
    ]  # fmt: skip
    assert len(crossings(STATES["Ray in a face plane"])) == 2


def test_reasons_name_the_planes() -> None:
    said = {name: exact_reason(state) for name, state in STATES.items()}
    assert said["Straight through"] == "enters at x = 0.5; leaves at x = 2"
    assert said["Through an edge"] == "touches the box at x = 0.5, y = 2"
    assert said["Origin inside the box"].startswith("starts inside; leaves at x")
    assert "before t_min" in said["Box behind the origin"]
    assert "after t_max" in said["Segment ends before the box"]
    late = "leaves y at 3.9999999999999996, before it enters x at 4"
    assert said["False hit by rounding"] == late
    assert said["Zero direction"] == "no ray: the direction is zero"
    beside = replace(STATES["Ray in a face plane"], origin=(-1.0, math.nextafter(0.5, 0.0), 1.0))
    assert exact_reason(beside) == "parallel to the y slab and outside it"
    # A miss whose entry and exit are equal as doubles.
    hair = LabState((-5.5, math.nextafter(-4.0, 0.0), 1.0), (1.0, 1.0, 0.0))
    assert nearest(hair) is None and "less than a rounding error" in exact_reason(hair)


@pytest.mark.parametrize("name", STATES)
def test_charts_show_the_exact_ends(name: str) -> None:
    state = STATES[name]
    index = nearest(state) or 0
    page = xml.dom.minidom.parseString(f"<div>{chart(state)}</div>")
    children = [node.firstChild for node in page.getElementsByTagName("div")]
    text = [child.data for child in children if isinstance(child, xml.dom.minidom.Text)]
    for slab in slabs(state, index):
        if slab.kind == "crossed":
            assert f"{text_of([slab.near])} to {text_of([slab.far])}" in text
    stay = interval(state, index)
    assert (f"{text_of([stay.near])} to {text_of([stay.far])}" in text) == stay.hit
    scale = scale_of(state, index)
    if stay.hit:
        assert scale[0] <= stay.near <= stay.far <= scale[1]
        assert 0.0 <= percent(stay.near, scale) <= percent(stay.far, scale) <= 100.0


def test_numbers_go_in_and_out_to_the_last_digit(rng: np.random.Generator) -> None:
    values = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    hard = [-0.0, 0.0, 5e-324, -math.inf, 1e22, 0.1]
    state = STATES["Straight through"]
    for x in (*values[np.isfinite(values)].tolist(), *hard):
        back, *_ = edited(state, "t_range", text_of([x, 0.0])).t_range
        assert back == x and math.copysign(1.0, back) == math.copysign(1.0, x)


def test_fields_take_numbers_and_say_what_is_wrong() -> None:
    state = STATES["Straight through"]
    assert edited(state, "direction", "1, -0.0, 2").direction == (1.0, 0.0, 2.0)
    assert edited(state, "t_range", "-inf 3").t_range == (-math.inf, 3.0)
    assert edited(state, "upper_2", "3, 3, 3") == replace(state, upper_2=(3.0, 3.0, 3.0))
    with pytest.raises(ValueError, match="origin must be 3 numbers, got 2"):
        edited(state, "origin", "1, 2")
    with pytest.raises(ValueError, match="lower 2 must be numbers, got 'one, 0, 0'"):
        edited(state, "lower_2", "one, 0, 0")


@pytest.mark.parametrize(
    "text", ["nan, 0, 0", "inf, 0, 0", "1e308, -1e308, 5e-324", "0, 0, 0", "-0.0, 0, 0"]
)
@pytest.mark.parametrize("name", ["origin", "direction", "lower", "upper"])
@pytest.mark.filterwarnings("error")
def test_no_numbers_break_the_lab(name: str, text: str) -> None:
    """Whatever is typed, there is an answer, and a page for it."""
    state = edited(STATES["Straight through"], name, text)
    assert exact_answer(state) and naive_answers(state)
    xml.dom.minidom.parseString(f"<div>{chart(state)}</div>")
