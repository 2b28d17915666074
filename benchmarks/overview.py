"""A chart of all tasks: how many times as long as ours each peer takes, on a logarithmic axis."""

from __future__ import annotations

import argparse
import itertools
import json
import math
from pathlib import Path
from typing import Any

from . import peers
from .chart import FAINT, LINE, TEXT, machine_lines, spaced, words
from .processes import Row
from .report import AGREEMENT, disturbed, duration, kind_of, rate, times

OURS = "#d9622b"
COLOURS = {
    "Open3D": "#33495d",
    "embreex": "#7d94a8",
    "Warp": "#5b8c2a",
    "trueform": "#b0418e",
    "libigl": "#2a7f9e",
    "PyVista": "#c9a227",
    "r-tree": "#8d6e63",
}
WIDTH, LEFT, RIGHT, TOP, STEP, GAP = 820, 300, 30, 92, 20, 9
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1_000, 10_000, 100_000)


def draw(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> str:
    """Return the chart of one mesh as SVG: a line for each task, a dot for each peer.

    A hollow dot is a peer of whose answers fewer than 99.9 % are ours, too; a task with ``!`` was
    disturbed by other processes.

    Parameters
    ----------
    figures : dict
        What a run has written.
    mesh : str, optional
        By default the first one.
    threads : int, optional
        By default the fewest that were measured.

    Raises
    ------
    SystemExit
        If there are no figures of it.
    """
    timed = [row for row in figures["rows"] if "seconds" in row]
    mesh = mesh or (timed[0]["mesh"] if timed else None)
    threads = threads or min((row["threads"] for row in timed), default=1)
    # The scene is a mesh of its own, which every chart shows.
    rows = [
        row
        for row in timed
        if row["threads"] == threads and (row["mesh"] == mesh or "instances" in row)
    ]
    if not rows:
        raise SystemExit(f"no figures of {mesh} on {threads} threads")
    found = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    ratios = [[times(row)[n] / times(row)["bvh"] for n in found if n in row["seconds"]]
              for row in rows]  # fmt: skip
    every = [value for line in ratios for value in line] or [1.0]
    low, high = math.log10(min(0.5, *every) / 1.1), math.log10(max(2.0, *every) * 1.25)

    def across(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    # A gap parts what is of different kinds.
    kinds = [kind_of(row["what"]) for row in rows]
    gaps = [sum(a != b for a, b in itertools.pairwise(kinds[: i + 1])) for i in range(len(rows))]
    bottom = TOP + len(rows) * STEP + gaps[-1] * GAP
    foot = [*_notes(figures, rows), *machine_lines(figures, 132)]
    height = bottom + 44 + 14 * len(foot)
    plural = "s" if threads > 1 else ""
    told = f"{mesh}, {spaced(rows[0]['triangles'])} triangles, {threads} thread{plural}"
    one = across(1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        words(
            16,
            24,
            "How many times as long as bvh each peer takes",
            TEXT,
            'font-weight="600" font-size="14"',
        ),
        words(WIDTH - 16, 24, told, FAINT, 'text-anchor="end"'),
        f'<rect x="{LEFT}" y="{TOP - 10}" width="{one - LEFT:.1f}" height="{bottom - TOP + 10}" '
        'fill="#f6f1ea"/>',
        words(LEFT - 12, TOP - 18, "bvh", OURS, 'text-anchor="end" font-weight="600"'),
        words(one - 6, TOP - 18, "peer faster", FAINT, 'text-anchor="end" font-size="10"'),
        words(one + 6, TOP - 18, "peer slower", FAINT, 'font-size="10"'),
    ]
    x = 16.0
    for name in found:
        lines.append(f'<circle cx="{x + 5:.0f}" cy="46" r="5" fill="{COLOURS[name]}"/>')
        lines.append(words(x + 15, 50, name, TEXT))
        x += 34 + 7 * len(name)
    for tick in TICKS:
        if low <= math.log10(tick) <= high:
            colour = OURS if tick == 1 else LINE
            lines.append(f'<path d="M{across(tick):.1f} {TOP - 10}V{bottom}" stroke="{colour}"/>')
            name = spaced(tick) if tick >= 1 else f"{tick:g}"
            lines.append(
                words(across(tick), bottom + 15, name, FAINT, 'text-anchor="middle" font-size="10"')
            )
    for i, row in enumerate(rows):
        lines += _line(row, TOP + i * STEP + gaps[i] * GAP + 6, found, across)
    for i, text in enumerate(foot):
        lines.append(words(16, bottom + 40 + 14 * i, text, FAINT, 'font-size="10"'))
    return "\n".join([*lines, "</svg>", ""])


def _notes(figures: dict[str, Any], rows: list[Row]) -> list[str]:
    """Return what has to be said below."""
    notes = []
    for row in figures["rows"]:
        if row["what"] == "leaks":
            lost = ", ".join(f"{name} {spaced(count)}" for name, count in row["lost"].items())
            notes.append(f"Lost of {spaced(row['count'])} rays aimed at vertices and edges: {lost}")
    if any(disturbed(row) for row in rows):
        notes.append("! other processes were busy meanwhile: these figures are in doubt")
    return notes


def _line(row: Row, y: float, found: list[str], across: Any) -> list[str]:
    """Return a task's name, our time and the dots of the peers."""
    each = times(row)
    mark = " !" if disturbed(row) else ""
    alone = row.get("unit") == "build" or row["what"].startswith("single")
    ours = duration(each["bvh"]) if alone else f"{rate(row, each['bvh'])}/s"
    lines = [
        words(16, y + 4, f"{row['what']}{mark}", TEXT),
        words(LEFT - 12, y + 4, ours, OURS, 'text-anchor="end"'),
    ]
    for name in reversed(found):
        if name in each:
            value = each[name] / each["bvh"]
            same = row.get("agreement", {}).get(name, 1.0) >= AGREEMENT
            fill = f'fill="{COLOURS[name]}" fill-opacity="0.85"' if same else 'fill="white"'
            lines.append(
                f'<circle cx="{across(value):.1f}" cy="{y}" r="5" {fill} '
                f'stroke="{COLOURS[name]}"><title>{name}: {value:.3g}</title></circle>'
            )
    return lines


def main() -> None:
    """Draw the figures of a file."""
    program = f"python -m {__package__}.overview"
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("figures", type=Path, help="what a run with --json wrote")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--mesh", help="default: the first one")
    parser.add_argument("--threads", type=int, help="default: the fewest")
    options = parser.parse_args()
    figures = json.loads(options.figures.read_text())
    options.picture.write_text(draw(figures, options.mesh, options.threads), encoding="utf-8")


if __name__ == "__main__":
    main()
