"""`python -m benchmarks.chart FIGURES.json FILE.svg`: rays per second beside the peers."""

from __future__ import annotations

import argparse
import html
import json
import math
import textwrap
from pathlib import Path
from typing import Any

from .processes import Row
from .report import disturbed, times
from .workloads import BATCHES

TEXT, FAINT, LINE = "#2b2f33", "#6b7280", "#e3e6ea"
BARS = {
    "bvh": ("bvh", "#d9622b"),
    "Open3D": ("Embree via Open3D", "#6f7c8a"),
    "embreex": ("Embree via embreex", "#b4bec8"),
}
WIDTH, LEFT, TOP, BAR, GAP = 760, 130, 72, 13, 14


def draw(figures: dict[str, Any], mesh: str, threads: int) -> str:
    """Return the chart of one mesh as SVG: a group of bars for each workload.

    Raises
    ------
    SystemExit
        If there are no figures of it that can be relied on.
    """
    rows = [r for r in figures["rows"] if r["mesh"] == mesh and r["threads"] == threads]
    found = {r["what"]: r for r in rows if r["what"] in BATCHES}
    groups = [found[what] for what in BATCHES if what in found]
    if not groups:
        raise SystemExit(f"no figures of {mesh} on {threads} threads")
    if any(disturbed(row) for row in groups):
        raise SystemExit(f"other processes disturbed {mesh} on {threads} threads: measure it again")
    casters = [name for name in BARS if any(name in row["seconds"] for row in groups)]
    rates = [{name: 1e-6 / s for name, s in times(row).items()} for row in groups]
    scale = (WIDTH - LEFT - 60) / max(max(rate.values()) for rate in rates)
    step = len(casters) * BAR + GAP
    bottom = TOP + len(groups) * step
    lost = [row for row in figures["rows"] if row["what"] == "leaks"]
    foot = machine_lines(figures, 128)
    height = bottom + (34 if lost else 12) + 14 * len(foot)

    title = "Million rays per second" + (", one thread" if threads == 1 else f", {threads} threads")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        words(LEFT, 24, title, TEXT, 'font-weight="600" font-size="13"'),
        words(WIDTH - 16, 24, f"{mesh}, {spaced(groups[0]['triangles'])} triangles", FAINT,
              'text-anchor="end"'),
    ]  # fmt: skip
    x = LEFT
    for name in casters:
        label, colour = BARS[name]
        lines.append(f'<rect x="{x}" y="41" width="10" height="10" rx="2" fill="{colour}"/>')
        lines.append(words(x + 15, 50, label, TEXT))
        x += 40 + 7 * len(label)
    lines.append(f'<path d="M{LEFT} {TOP - 8}V{bottom - GAP + 8}" stroke="{LINE}"/>')
    for i, (row, rate) in enumerate(zip(groups, rates, strict=True)):
        y = TOP + i * step
        middle = y + len(casters) * BAR / 2 + 4
        lines.append(words(LEFT - 12, middle, row["what"], TEXT, 'text-anchor="end"'))
        for k, name in enumerate(casters):
            if name in rate:
                lines += _bar(y + k * BAR, scale * rate[name], rate[name], name)
    if lost:
        lines.append(words(LEFT, bottom + 20, _lost(lost[0]), FAINT, 'font-size="11"'))
    for i, text in enumerate(foot):
        y = height - 10 - 14 * (len(foot) - 1 - i)
        lines.append(words(16, y, text, FAINT, 'font-size="10"'))
    return "\n".join([*lines, "</svg>", ""])


def _bar(y: float, length: float, rate: float, name: str) -> list[str]:
    weight = 'font-size="10"' + (' font-weight="600"' if name == "bvh" else "")
    return [
        f'<rect x="{LEFT}" y="{y}" width="{max(length, 2):.1f}" height="{BAR - 2}" rx="2" '
        f'fill="{BARS[name][1]}"/>',
        words(LEFT + max(length, 2) + 6, y + BAR - 4, f"{rate:.1f}", TEXT, weight),
    ]


def _lost(row: Row) -> str:
    counts = [f"{BARS[name][0]} {spaced(n)}" for name, n in row["lost"].items() if name in BARS]
    return f"Lost of {spaced(row['count'])} rays aimed at vertices and edges: {', '.join(counts)}"


def machine_lines(figures: dict[str, Any], width: int) -> list[str]:
    """Return the machine, the versions and the date of a run, in lines of so many characters."""
    if "processor" not in figures:
        return []
    versions = [f"{name} {version}" for name, version in figures["versions"].items()]
    told = [f"{figures['processor']} ({figures['cpus']} CPUs)", figures["date"][:10], *versions]
    return textwrap.wrap(", ".join(told), width)


def words(x: float, y: float, text: str, colour: str, more: str = "") -> str:
    """Return a text of SVG."""
    space = " " if more else ""
    held = html.escape(text, quote=False)
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}"{space}{more}>{held}</text>'


def spaced(number: float) -> str:
    """Return a whole number, its thousands apart."""
    return f"{number:,}".replace(",", "\u2009")


def draw_curves(
    curves: dict[str, list[tuple[float, float]]], title: str, across: str, up: str
) -> str:
    """Return curves as SVG: x logarithmic, y linear and from 0, a legend at each curve's end."""
    width, height, left, top, right, low = 760, 380, 64, 56, 170, 48
    points = [point for curve in curves.values() for point in curve]
    x0, x1 = (math.log10(f(x for x, _ in points)) for f in (min, max))
    highest = 1.08 * max(y for _, y in points)
    palette = ["#d9622b", "#f0a988", "#6f7c8a", "#b4bec8", "#3f7f6d", "#9cc7bb"]

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(x) - x0) / max(x1 - x0, 1e-9)
        return left + share * (width - left - right), height - low - y / highest * (
            height - low - top
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        words(left, 24, title, TEXT, 'font-weight="600" font-size="13"'),
        words(left, 42, up, FAINT, 'font-size="11"'),
        words((left + width - right) / 2, height - 10, across, FAINT, 'text-anchor="middle"'),
    ]
    for k in range(5):
        y = place(10**x0, highest * k / 4)[1]
        lines.append(f'<path d="M{left} {y:.1f}H{width - right}" stroke="{LINE}"/>')
        label = f"{highest * k / 4:.2f}"
        lines.append(words(left - 8, y + 4, label, FAINT, 'text-anchor="end" font-size="11"'))
    for power in range(math.ceil(x0 - 0.02), math.floor(x1 + 0.02) + 1):
        x = place(10.0**power, 0)[0]
        label = words(x, height - low + 18, "10^", FAINT, 'text-anchor="middle"')
        power_of = f"10<tspan dy='-5' font-size='8'>{power}</tspan>"
        lines.append(label.replace("10^", power_of))
    taken: list[float] = []
    for i, (name, curve) in enumerate(sorted(curves.items(), key=lambda item: -item[1][-1][1])):
        colour = palette[list(curves).index(name) % len(palette)]
        path = "L".join("{:.1f} {:.1f}".format(*place(x, y)) for x, y in curve)
        lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = place(*curve[-1])
        y = max(y, taken[-1] + 14) if i else y
        taken.append(y)
        lines.append(words(x + 8, y + 4, name, TEXT, 'font-size="11"'))
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Draw the figures of a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("figures", type=Path, help="what `python -m benchmarks --json` wrote")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--mesh", help="default: the first one")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    figures = json.loads(options.figures.read_text())
    mesh = options.mesh or next(r["mesh"] for r in figures["rows"] if r["what"] in BATCHES)
    options.picture.write_text(draw(figures, mesh, options.threads), encoding="utf-8")


if __name__ == "__main__":
    main()
