"""One question, as it is put to us and to every peer, and how it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .casters import Call, Caster
from .processes import Row
from .timing import Patience, undisturbed

# Rays or points that a peer is asked about first, to learn how slow it is.
PROBES = (64, 512)
# A peer whose turn would take longer (in seconds) is asked about fewer, so that it takes `TURN`.
LONGEST, TURN = 0.4, 0.1
# What cannot be asked about fewer is timed once if it takes longer, and so many times our time.
ONCE, MUCH_SLOWER = 0.5, 10.0


class Entrant(NamedTuple):
    """A peer with a question: what is timed, and which share of its answers is ours as well."""

    call: Call
    agrees: Callable[[Any], float]


class Task(NamedTuple):
    """One question.

    Attributes
    ----------
    name : str
        What rows of figures are called.
    unit : str
        What is counted: "ray", "point", "build".
    count : int
        How many of them a call of ours is asked about.
    ours : dict
        Calls of ours by name; "bvh" is the one that peers are compared with.
    check : callable
        Compares a sample of our answers with brute force; raises SystemExit where they differ.
    entrant : callable
        Returns how a peer is asked about so many, None if it has no answer. Below `count` those
        asked about are picked at random.
    facts : dict
        What else a row tells.
    """

    name: str
    unit: str
    count: int
    ours: dict[str, Call]
    check: Callable[[], None]
    entrant: Callable[[Caster, int], Entrant | None]
    facts: dict[str, Any]


def measured(task: Task, peers: Iterable[Caster], rounds: int, patience: Patience) -> Row:
    """Check all answers, then time everybody in turn; return the row of figures.

    Peers are not refused for answers that differ from ours: the row tells the share that agrees.
    """
    task.check()
    calls = dict(task.ours)
    own = _spent(calls["bvh"])
    counts: dict[str, int] = {}
    agreement: dict[str, float] = {}
    failed: dict[str, str] = {}
    once: dict[str, list[float]] = {}
    for peer in peers:
        try:
            count = affordable(task, peer)
            entrant = task.entrant(peer, count) if count else None
            if entrant is None:
                continue
            began = time.perf_counter()
            result = entrant.call()
            spent = time.perf_counter() - began
            agreement[peer.name] = entrant.agrees(result)
        # Whatever a peer raises, the others are measured.
        except Exception as error:
            failed[peer.name] = f"{type(error).__name__}: {error}"
            continue
        if count < task.count:
            counts[peer.name] = count
        if spent > max(ONCE, MUCH_SLOWER * own):
            once[peer.name] = [spent]
        else:
            calls[peer.name] = entrant.call
    timed, foreign = undisturbed(calls, rounds, patience=patience)
    # No clock has more digits than that.
    seconds = {name: [round(each, 9) for each in turns] for name, turns in (timed | once).items()}
    row: Row = {
        "what": task.name, "unit": task.unit, "count": task.count, "seconds": seconds,
        "foreign": foreign, "agreement": agreement, **task.facts,
    }  # fmt: skip
    if counts:
        row["counts"] = counts
    if failed:
        row["failed"] = failed
    return row


def affordable(task: Task, peer: Caster) -> int:
    """Return how many a peer can be asked about in a bearable time; 0 if it has no answer.

    The time of a call is taken to grow linearly between the probes and beyond. What a peer does at
    every call, however few it is asked about, must not be spread over too few.
    """
    most = min(task.count, peer.most_rays)
    if most <= PROBES[0]:
        return most
    spent: list[float] = []
    first, second = PROBES[0], min(PROBES[1], most)
    for count in (first, second):
        entrant = task.entrant(peer, count)
        if entrant is None:
            return 0
        if not spent:
            # The first call may compile, or make what is kept.
            entrant.call()
        spent.append(min(_spent(entrant.call) for _ in range(2 - len(spent))))
    rate = max(spent[1] - spent[0], 1e-9) / (second - first)
    if rate * most <= LONGEST:
        return most
    fixed = max(0.0, spent[0] - rate * first)
    return max(first, min(most, int(max(TURN, 4.0 * fixed) / rate)))


def _spent(call: Call) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
