"""The ray lab's answers as HTML: the exact one, and the naive ones beside it."""

from __future__ import annotations

from html import escape

from bvh.lab.chart import chart
from bvh.lab.naive import Claim, claims
from bvh.lab.numbers import text_of
from bvh.lab.state import LabState, at, interval, nearest
from bvh.lab.words import ROUNDED, SAME, WRONG, exact_words, number, verdict

GREEN, GREY, AMBER, RED = "#1f8a4c", "#6b7280", "#b7791f", "#c53030"
MARKS = {SAME: ("\N{CHECK MARK}", GREEN), ROUNDED: ("\N{ALMOST EQUAL TO}", AMBER),
         WRONG: ("\N{MULTIPLICATION SIGN}", RED)}  # fmt: skip
MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"


def shown_box(state: LabState) -> int:
    """Return the box that the chart is about: the nearest that is hit, or else the first."""
    return nearest(state) or 0


def exact_answer(state: LabState) -> str:
    """Return the exact answer, with both ends to the last digit, and why."""
    met = nearest(state)
    word, colour = ("miss", GREY) if met is None else ("hit", GREEN)
    if met is not None and len(state.boxes) > 1:
        word = f"hit, box {met + 1}"
    rows = []
    if met is not None:
        stay = interval(state, met)
        for name, t in (("t_near", stay.near), ("t_far", stay.far)):
            rows.append((name, number(t)))
            rows.append(("at", text_of(at(state, t)[: state.dimensions].tolist())))
    lines = "".join(
        f'<div style="display:flex;gap:8px"><span style="color:{GREY};width:46px">{name}</span>'
        f'<span data-lab="{name}">{escape(text)}</span></div>'
        for name, text in rows
    )
    return (
        f'<div style="padding:8px 12px 0 12px;font-size:13px;line-height:1.45">'
        f'<div style="font-size:12px;color:{GREY}">exact: bvh.{_function(state)}</div>'
        f'<div data-lab="exact" style="font-size:22px;font-weight:700;color:{colour}">{word}</div>'
        f'<div style="{MONO};font-size:12px">{lines}</div>'
        f'<div data-lab="words" style="padding-top:2px">{escape(exact_words(state))}</div></div>'
    )


def intervals(state: LabState) -> str:
    """Return the bar chart under a line that says what it shows."""
    index = shown_box(state)
    which = f", box {index + 1}" if len(state.boxes) > 1 else ""
    return (
        f'<div style="padding:8px 12px 0 12px;font-size:12px;color:{GREY}">'
        f"t between the planes of each axis{which}; gold: of all</div>"
        f'<div data-lab="chart" style="padding:0 10px">{chart(state, index)}</div>'
    )


def naive_answers(state: LabState) -> str:
    """Return a line for each naive test, with a second one for what went wrong."""
    found = claims(state)
    judged = [(claim, verdict(state, claim)) for claim in found]
    wrong = sum(judgement.kind == WRONG for _, judgement in judged)
    verb = "goes" if wrong == 1 else "go"
    told = f"{wrong} of {len(found)} {verb} wrong" if wrong else "none goes wrong"
    rows = []
    for claim, judgement in judged:
        mark, colour = MARKS[judgement.kind]
        said = f'<div style="color:{colour};padding-left:18px">{escape(judgement.words)}</div>'
        rows.append(
            f'<div data-lab="{claim.naive.name}" data-kind="{judgement.kind}" '
            f'style="padding:3px 0;border-top:1px solid rgba(128,128,128,.2)">'
            f'<div style="display:flex;gap:6px;justify-content:space-between">'
            f'<span><b style="color:{colour};display:inline-block;width:12px">{mark}</b> '
            f"{escape(claim.naive.title)}</span>"
            f'<span style="{MONO};font-size:11px;white-space:nowrap;color:{colour}">'
            f"{_claimed(state, claim)}</span></div>{said if judgement.words else ''}</div>"
        )
    return (
        f'<div style="padding:8px 12px 12px 12px;font-size:12px;line-height:1.4">'
        f'<div style="color:{GREY};padding-bottom:3px">as articles do it: '
        f'<span data-lab="count">{told}</span></div>{"".join(rows)}</div>'
    )


def _claimed(state: LabState, claim: Claim) -> str:
    """Return a naive answer in a few characters."""
    if claim.t is None:
        return "miss"
    which = f"box {claim.box + 1}, " if len(state.boxes) > 1 else ""
    return f"{which}t = {number(claim.t)}"


def _function(state: LabState) -> str:
    """Return which of our functions has answered."""
    return "ray_obb" if any(box.turned for box in state.boxes) else "ray_box"
