"""Tables of figures, and the notes below them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from bvh.runtime.arguments import grouped

from .. import peers
from ..processes import Row
from ..timing import LEAST
from ..workloads import BATCHES
from .rows import (
    agrees,
    beside_peers,
    disturbed,
    duration,
    lost_line,
    lowest_ratio,
    mean_ratio,
    means_of_workloads,
    rate,
    times,
)


def print_rows(rows: list[Row], file: Any = None) -> None:
    """Print tables: of times beside peers for each mesh, or of the parts of each figure."""
    console = _console(file)
    shown = [row for row in rows if "seconds" in row or "parts" in row]
    keys = itertools.groupby(shown, lambda row: (row.get("table", ""), row["mesh"], row["threads"]))
    for (table, mesh, threads), group in keys:
        here = list(group)
        size = f"{grouped(here[0]['triangles'])} triangles" if "triangles" in here[0] else ""
        title = filter(None, (table, mesh, size, f"{threads} thread{'s' * (threads > 1)}"))
        console.print(f"[bold]{', '.join(title)}[/bold]")
        console.print(_parts(here) if table else _times(here))
        for note in () if table else notes(here):
            console.print(note, style="dim", markup=False)
        console.print()


def _grid(*heads: str) -> Any:
    """Return an empty table; if its first head is empty, the other columns are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i and heads[0] == "" else "left")
    return table


def _parts(rows: list[Row]) -> Any:
    """Return the table of figures that have a column for each part."""
    columns = list(dict.fromkeys(part for row in rows for part in row["parts"]))
    table = _grid("", *columns)
    for row in rows:
        cells = [row["parts"].get(column, "-") for column in columns]
        texts = [
            f"{c:.4g}" if isinstance(c, float) else c if c == "-" else grouped(c) for c in cells
        ]
        table.add_row(row["what"] + "!" * disturbed(row), *texts)
    return table


def _times(rows: list[Row]) -> Any:
    """Return the table of times: a row for each task, a column for each peer."""
    from rich.text import Text

    names = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    table, all_in_doubt = _grid("", "bvh", "a second", *names), all(map(disturbed, rows))
    before = None
    for row in rows:
        if before not in (None, row.get("unit")):
            table.add_section()
        before = row.get("unit")
        each = times(row)
        cells = []
        for name in names:
            relative, text = each.get(name, math.inf) / each["bvh"], "-"
            if name in each:
                text = f"{relative:.2f}" if relative < 100 else grouped(round(relative))
                text += "" if agrees(row, name) else "~"
            cells.append(Text(text, style="yellow" if relative < 1.0 else ""))
        mark = "!" if disturbed(row) and not all_in_doubt else ""
        table.add_row(
            row["what"] + mark, Text(duration(each["bvh"]), style="bold"),
            rate(row, each["bvh"]), *cells, style="dim" if mark else "",
        )  # fmt: skip
    return table


def notes(rows: list[Row]) -> Iterator[str]:
    """Yield the notes of a table of times."""
    names = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    if names:
        yield "peers: bvh is so many times as fast; below 1 the peer is faster"
    alone = [name for name in names if peers.PEERS[name].one_thread]
    if alone and rows[0]["threads"] > 1:
        yield f"on one thread all the same: {', '.join(alone)}"
    mean = mean_ratio(rows, rows[0]["threads"])
    if mean == mean:
        what = "the geometric mean of batches"
        yield f"rays: bvh is {mean:.2f} times as fast as the fastest peer, {what}"
    for row in rows:
        others = {n: s for n, s in times(row).items() if n.startswith("bvh, ")}
        if others:
            text = ", ".join(f"{n.removeprefix('bvh, ')} {duration(s)}" for n, s in others.items())
            yield f"{row['what']}, other ways to ask bvh: {text}"
    scenes = [row for row in rows if "bytes" in row]
    if scenes:
        row = scenes[0]
        own, flat = (f"{row[key] / 2**20:.1f} MiB" for key in ("bytes", "bytes as one mesh"))
        yield f"{row['instances']} instances in {own}; as one mesh, as peers have it, {flat}"
    yield from _agreements(rows, names)
    asked = [(name, n, row["count"]) for row in rows for name, n in row.get("counts", {}).items()]
    fewer = sorted({name for name, n, count in asked if n < count}, key=names.index)
    if fewer:
        yield f"asked about fewer in some rows, picked at random: {', '.join(fewer)}"
    failed = [{**row.get("failed", {}), **row.get("unmade", {})} for row in rows]
    failures = {f"{name} failed: {error}" for each in failed for name, error in each.items()}
    yield from sorted(failures)
    worst = max((row["foreign"] for row in rows if disturbed(row)), default=0.0)
    if worst:
        which = "all are" if all(map(disturbed, rows)) else "!"
        used = f"other processes used up to {100 * worst:.0f} % of the CPUs"
        yield f"{which} unreliable, and left out of the mean: {used}"


def _agreements(rows: list[Row], names: list[str]) -> Iterator[str]:
    """Yield the share of each peer's answers that equal ours, where not all do."""
    least: dict[str, float] = {}
    for row in rows:
        for name, share in row.get("agreement", {}).items():
            if not agrees(row, name):
                yield f"~ {row['what']}: {share:.2%} of the answers of {name} are ours, too"
            elif share < least.get(name, 1.0):
                least[name] = share
    if least:
        shares = ", ".join(f"{name} {least[name]:.4%}" for name in names if name in least)
        yield f"answers equal to ours, at least: {shares}; all of the others'"


def print_machine(figures: dict[str, Any]) -> None:
    """Print the machine and the versions of a run."""
    console = _console()
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    console.print(f"[bold]{figures['processor']}[/bold], {figures['cpus']} CPUs; {versions}")
    rounds, least = figures["rounds"], f"at least {LEAST:g} s"
    if rounds > 1:
        least = f"at least {rounds} rounds and {LEAST:g} s"
    console.print(f"medians of {least}, in which all take turns\n")


def print_peers() -> None:
    """Print all peers, and which are installed."""
    table = _grid("peer", "installed", "pip install", "what is measured")
    for name, peer in peers.PEERS.items():
        version = (peers.version(peer.distribution) or "yes") if peers.available([name]) else "-"
        table.add_row(name, version, peer.distribution, peer.note)
    _console().print(table)


def print_summary(figures: dict[str, Any]) -> None:
    """Print figures that concern all meshes of a run."""
    rows, console = figures["rows"], _console()
    for threads in sorted({row["threads"] for row in rows}):
        mean = mean_ratio(rows, threads)
        meshes = {row["mesh"] for row in rows if row["what"] in BATCHES}
        if mean == mean and len(meshes) > 1:
            plural = "s" * (threads > 1)
            console.print(f"all meshes and batches of rays, {threads} thread{plural}: {mean:.2f}")
            each = means_of_workloads(rows, threads)
            least, where = lowest_ratio(rows, threads)
            console.print(", ".join(f"{what} {value:.2f}" for what, value in each.items()))
            console.print(f"least: {least:.2f} ({where})")
    for row in rows:
        if "lost" in row:
            console.print(lost_line(row))
    timed = [row for row in rows if "seconds" in row]
    text = verdict(timed) if timed else ""
    if text:
        console.print(text, markup=False)
    console.print(f"{len(rows)} rows in {figures.get('duration', 0.0):.0f} s", style="dim")


def verdict(rows: list[Row]) -> str:
    """Return what a run says of rays by bvh, in a sentence; nothing if it cast no batches."""
    if all(map(disturbed, rows)):
        return "No verdict: other processes used the CPUs meanwhile. Measure again."
    mean = mean_ratio(rows, rows[0]["threads"])
    if mean == mean:
        return f"bvh casts rays {mean:.1f} times as fast as the fastest peer."
    calm = [row for row in rows if row.get("unit") == "ray" and not disturbed(row)]
    each = [f"{rate(r, times(r)['bvh'])} {r['what']}" for r in calm if r["what"] in BATCHES]
    plural = "s" * (rows[0]["threads"] > 1)
    text = f"Rays a second on {rows[0]['threads']} thread{plural}: " + ", ".join(each) + "."
    if not each:
        return ""
    if beside_peers(rows):
        return text
    return f'{text} No peer was measured; pip install "raybvh[bench]" installs some.'


def status(text: str) -> Any:
    """Return a context that shows, on a terminal, what is being measured; it can be updated."""
    from rich.console import Console

    return Console(stderr=True, highlight=False).status(text)


def _console(file: Any = None) -> Any:
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError('tables need rich: pip install "raybvh[cli]"') from error
    # A terminal's width breaks no row in two.
    narrow = Console(file=file, highlight=False)
    return Console(file=file, highlight=False, width=max(narrow.width, 132), soft_wrap=False)
