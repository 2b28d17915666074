"""Comparison of two runs: what became faster or slower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..processes import Row
from ..timing import geometric_mean
from .rows import disturbed, ratio, times

FLAGGED = 0.03


class Change(NamedTuple):
    """Change of a figure, as new speed over old speed; up to its noise it is not flagged."""

    # Mesh, task, and threads.
    key: tuple[str, str, int]
    # Of our own speed.
    rate: float
    # Of our speed beside the fastest peer's, where both runs had the same peers: a slow moment of
    # the machine is not in it.
    ratio: float | None
    noise: float = FLAGGED

    @property
    def decisive(self) -> float:
        """The ratio if there is one, else the rate."""
        return self.rate if self.ratio is None else self.ratio

    @property
    def flagged(self) -> bool:
        """Whether it exceeds the noise."""
        return abs(self.decisive - 1.0) > self.noise


def changes(old: list[Row], new: list[Row]) -> Iterator[Change]:
    """Yield the change of each figure that is in both runs, undisturbed, of as many rays."""
    before = {_key(row): row for row in old if _usable(row)}
    for row in filter(_usable, new):
        was = before.get(_key(row))
        # Of fewer rays, each takes longer.
        if was is not None and was["count"] == row["count"]:
            rate = times(was)["bvh"] / times(row)["bvh"]
            then, now = ratio(was), ratio(row)
            same = was["seconds"].keys() == row["seconds"].keys()
            relative = now / then if same and then and now else None
            yield Change(_key(row), rate, relative, row.get("noise", FLAGGED))


def _key(row: Row) -> tuple[str, str, int]:
    return row["mesh"], row["what"], row["threads"]


def _usable(row: Row) -> bool:
    # CPU seconds, whose noise is given, do not depend on other processes.
    return "seconds" in row and ("noise" in row or not disturbed(row))


def lines(old: list[Row], new: list[Row]) -> Iterator[str]:
    """Yield the changes as a table."""
    found = list(changes(old, new))
    yield f"{'mesh':<24} {'what':<25} {'threads':>7} {'speed':>8} {'ratio':>8}"
    for change in found:
        mesh, what, threads = change.key
        beside = "-" if change.ratio is None else f"{change.ratio - 1:+.1%}"
        flag = ("  faster" if change.decisive > 1 else "  SLOWER") if change.flagged else ""
        yield f"{mesh:<24} {what:<25} {threads:>7} {change.rate - 1:>+8.1%} {beside:>8}{flag}"
    if not found:
        yield "no figure is in both runs, undisturbed and of as many rays"
    else:
        yield f"geometric mean {geometric_mean(c.decisive for c in found) - 1:+.1%}"
