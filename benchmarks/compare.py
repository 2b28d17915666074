"""`python -m benchmarks.compare OLD.json NEW.json`: what became faster or slower."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .processes import Row
from .report import disturbed, ratio, times
from .timing import geometric_mean

FLAGGED = 0.03


class Change(NamedTuple):
    """How a figure changed, as new speed over old speed.

    Attributes
    ----------
    key : tuple of (mesh, what, threads)
    rate : float
        Of our own speed.
    ratio : float or None
        Of our speed beside the fastest peer's, where both runs had the same peers: a slow moment
        of the machine is not in it.
    """

    key: tuple[str, str, int]
    rate: float
    ratio: float | None

    @property
    def decisive(self) -> float:
        """The ratio if there is one, else the rate."""
        return self.rate if self.ratio is None else self.ratio

    @property
    def flagged(self) -> bool:
        """Whether it is over 3 %."""
        return abs(self.decisive - 1.0) > FLAGGED


def changes(old: list[Row], new: list[Row]) -> Iterator[Change]:
    """Yield the change of each figure that is in both runs, undisturbed, of as many rays."""
    before = {_key(row): row for row in old if "seconds" in row and not disturbed(row)}
    for row in new:
        was = before.get(_key(row))
        if was is None or "seconds" not in row or disturbed(row):
            continue
        # Of fewer rays, each takes longer.
        if was["count"] != row["count"]:
            continue
        rate = times(was)["bvh"] / times(row)["bvh"]
        then, now = ratio(was), ratio(row)
        same = was["seconds"].keys() == row["seconds"].keys()
        yield Change(_key(row), rate, now / then if same and then and now else None)


def lines(old: list[Row], new: list[Row]) -> Iterator[str]:
    """Yield the changes as a table."""
    found = list(changes(old, new))
    yield f"{'mesh':<24} {'what':<17} {'threads':>7} {'speed':>8} {'ratio':>8}"
    for change in found:
        mesh, what, threads = change.key
        beside = "-" if change.ratio is None else f"{change.ratio - 1:+.1%}"
        flag = ("  faster" if change.decisive > 1 else "  SLOWER") if change.flagged else ""
        yield f"{mesh:<24} {what:<17} {threads:>7} {change.rate - 1:>+8.1%} {beside:>8}{flag}"
    if not found:
        yield "no figure is in both runs, undisturbed and of as many rays"
    else:
        yield f"geometric mean {geometric_mean(c.decisive for c in found) - 1:+.1%}"


def _key(row: Row) -> tuple[str, str, int]:
    return row["mesh"], row["what"], row["threads"]


def read(path: Path) -> list[Row]:
    """Return the rows of a file of figures; raises ValueError where it is none."""
    try:
        figures: dict[str, Any] = json.loads(path.read_text())
        rows: list[Row] = figures["rows"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} holds no figures of benchmarks: {error!r}") from error
    return rows


def main() -> None:
    """Print what changed between two files."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(*lines(*(read(Path(path)) for path in sys.argv[1:])), sep="\n")


if __name__ == "__main__":
    main()
