"""Rows of figures as tables."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import peers
from .processes import Row
from .timing import DISTURBED, geometric_mean, medians
from .workloads import BATCHES

# Where less of its answers is ours as well, a peer is not taken to do the same work.
AGREEMENT = 0.999


def times(row: Row) -> dict[str, float]:
    """Return the median seconds of each caster for one of what a row counts."""
    counts = row.get("counts", {})
    return {name: s / counts.get(name, row["count"]) for name, s in medians(row["seconds"]).items()}


def ratio(row: Row) -> float | None:
    """Return how many times as fast as the fastest peer we are; None if there is no peer."""
    each, agreed = times(row), row.get("agreement", {})
    rivals = [
        seconds
        for name, seconds in each.items()
        if not name.startswith("bvh") and agreed.get(name, 1.0) >= AGREEMENT
    ]
    return min(rivals) / each["bvh"] if rivals else None


def disturbed(row: Row) -> bool:
    """Tell whether other processes had so much of our CPUs that the figures are in doubt."""
    return (row.get("foreign") or 0.0) > DISTURBED


def mean_ratio(rows: list[Row], threads: int) -> float:
    """Return the geometric mean of the ratios over all undisturbed batches; NaN if none is."""
    calm = [r for r in rows if r["what"] in BATCHES and not disturbed(r)]
    found = [ratio(r) for r in calm if r["threads"] == threads]
    return geometric_mean(x for x in found if x is not None)


def lines(rows: list[Row]) -> Iterator[str]:
    """Yield the tables of one mesh as plain text."""
    paper = io.StringIO()
    print_rows(rows, _console(paper))
    yield from paper.getvalue().splitlines()


def print_rows(rows: list[Row], console: Any = None) -> None:
    """Print the tables of one mesh: a row for each task, a column for each peer."""
    console = console or _console()
    for threads in sorted({row["threads"] for row in rows if "seconds" in row}):
        here = [row for row in rows if "seconds" in row and row["threads"] == threads]
        plural = "s" * (threads > 1)
        title = f"{here[0]['mesh']}, {here[0]['triangles']:,} triangles, {threads} thread{plural}"
        console.print(f"[bold]{title}[/bold]")
        console.print(_table(here))
        for note in notes(here):
            console.print(note, style="dim", markup=False)
        console.print()


def _table(rows: list[Row]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    table.add_column("bvh", justify="right")
    table.add_column("a second", justify="right")
    for name in found:
        table.add_column(name, justify="right")
    before = None
    for row in rows:
        kind = kind_of(row["what"])
        if before not in (None, kind):
            table.add_section()
        before = kind
        each = times(row)
        cells = []
        for name in found:
            long = each[name] / each["bvh"] if name in each else math.inf
            text = _ratio(long) + "~" * _differs(row, name) if name in each else "-"
            cells.append(Text(text, style="yellow" if long < 1.0 else ""))
        mark = "!" if disturbed(row) else ""
        table.add_row(
            row["what"] + mark, Text(duration(each["bvh"]), style="bold"),
            rate(row, each["bvh"]), *cells, style="dim" if mark else "",
        )  # fmt: skip
    return table


def kind_of(what: str) -> str:
    """Return what rows have in common that no line divides from each other."""
    if what in BATCHES:
        return "rays"
    word = what.split(",")[0].split(" ")[0]
    return {"count": "all", "signed": "closest"}.get(word, word)


def _differs(row: Row, name: str) -> bool:
    return bool(row.get("agreement", {}).get(name, 1.0) < AGREEMENT)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return a time with three figures and a unit."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{1e9 * seconds:.3g} ns"


def rate(row: Row, seconds: float) -> str:
    """Return how many of what a row counts a second has; nothing where one alone is counted."""
    if row.get("unit") == "build":
        return ""
    return f"{1e-6 / seconds:.3g} M" if seconds < 1e-6 else f"{1e-3 / seconds:.3g} k"


def notes(rows: list[Row]) -> Iterator[str]:
    """Yield what has to be said of a table."""
    found = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    if found:
        yield "peers: how many times as long as bvh they take; below 1 they are faster"
    else:
        yield 'no peer has been asked; pip install "raybvh[bench]" has some'
    alone = [name for name in found if peers.PEERS[name].one_thread]
    if alone and rows[0]["threads"] > 1:
        yield f"on one thread all the same: {', '.join(alone)}"
    mean = mean_ratio(rows, rows[0]["threads"])
    if mean == mean:
        yield f"rays: {mean:.2f} times as fast as the fastest peer, the geometric mean of batches"
    for row in rows:
        others = {n: s for n, s in times(row).items() if n.startswith("bvh, ")}
        if others:
            told = ", ".join(f"{n.removeprefix('bvh, ')} {duration(s)}" for n, s in others.items())
            yield f"{row['what']}: bvh otherwise: {told}"
    scenes = [row for row in rows if "bytes" in row]
    if scenes:
        row = scenes[0]
        sizes = [f"{row[key] / 2**20:.1f} MiB" for key in ("bytes", "bytes as one mesh")]
        yield (
            f"scene: {row['instances']} instances, {row['triangles']:,} triangles, in {sizes[0]}; "
            f"peers have one mesh of them, which takes bvh {sizes[1]}"
        )
    yield from _agreements(rows, found)
    fewer = sorted({name for row in rows for name in row.get("counts", {})}, key=found.index)
    if fewer:
        yield f"asked about fewer in some rows, picked at random: {', '.join(fewer)}"
    failed = {(n, e) for row in rows for n, e in {**row.get("failed", {}), **_unmade(row)}.items()}
    yield from (f"{name} failed: {error}" for name, error in sorted(failed))
    worst = max((row["foreign"] for row in rows if disturbed(row)), default=0.0)
    if worst:
        yield f"! in doubt, and in no mean: other processes had up to {worst:.0%} of our CPUs"


def _unmade(row: Row) -> dict[str, str]:
    unmade: dict[str, str] = row.get("unmade", {})
    return unmade


def _agreements(rows: list[Row], found: list[str]) -> Iterator[str]:
    """Yield which share of each peer's answers is ours as well, where it is not all."""
    least: dict[str, tuple[float, str]] = {}
    for row in rows:
        for name, share in row.get("agreement", {}).items():
            if _differs(row, name):
                yield f"~ {row['what']}: {share:.2%} of the answers of {name} are ours, too"
            elif share < least.get(name, (1.0, ""))[0]:
                least[name] = share, row["what"]
    if least:
        told = [f"{name} {least[name][0]:.4%}" for name in found if name in least]
        yield f"answers equal to ours, at least: {', '.join(told)}; all of the others'"


def print_machine(figures: dict[str, Any]) -> None:
    """Print what is measured on, and with what."""
    console = _console()
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    console.print(f"[bold]{figures['processor']}[/bold], {figures['cpus']} CPUs; {versions}")
    console.print(f"median of {figures['rounds']} rounds in which all take turns\n")


def print_peers() -> None:
    """Print which peers there are, and what is installed of them."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head in ("peer", "installed", "pip install", "what is measured"):
        table.add_column(head)
    found = peers.found()
    for peer in peers.PEERS.values():
        version = (peers.version(peer) or "yes") if peer in found else "-"
        table.add_row(peer.name, version, peer.distribution, peer.note)
    _console().print(table)


def print_summary(figures: dict[str, Any]) -> None:
    """Print what concerns all meshes of a run."""
    rows, console = figures["rows"], _console()
    for threads in sorted({row["threads"] for row in rows}):
        mean = mean_ratio(rows, threads)
        meshes = {row["mesh"] for row in rows if row["what"] in BATCHES}
        if mean == mean and len(meshes) > 1:
            console.print(f"all meshes and batches of rays, {threads} threads: {mean:.2f}")
    for row in rows:
        if row["what"] == "leaks":
            lost = ", ".join(f"{name} {count}" for name, count in row["lost"].items())
            console.print(f"lost of {row['count']:,} rays aimed at vertices and edges: {lost}")
    console.print(f"{len(rows)} rows in {figures['duration']:.0f} s", style="dim")


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is being measured, where somebody looks; yields a function that tells what was."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda done: None
        return
    with console.status(f"{text}: starting") as shown:
        yield lambda done: shown.update(f"{text}: {done} done")


def _console(file: Any = None) -> Any:
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError('tables need rich: pip install "raybvh[cli]"') from error
    # A table is as wide as it is: no terminal's width breaks its rows in two.
    narrow = Console(file=file, highlight=False)
    return Console(file=file, highlight=False, width=max(narrow.width, 132), soft_wrap=False)
