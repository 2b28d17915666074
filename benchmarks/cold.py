"""`python -m benchmarks.cold`: the wait before the first answer, verb by verb.

Each verb is asked in a fresh process on an empty kernel cache, or, with ``--warm``, on one that
such a process has filled. Times are CPU seconds, but for what one waits; each answer is checked.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .compare import read
from .first_calls import COMMANDS, VERBS
from .machine import machine
from .processes import Row, available, rows_of
from .report import disturbed

# A change below this is the machine's, even of CPU seconds.
FLAGGED = 0.1

PARTS = ("import", "build", "first", "wall", "front_end", "llvm", "emission")
TITLES = ("import", "build", "first call", "wait", "front end", "LLVM", "emission")


@contextlib.contextmanager
def fresh(cache: str, bytecode: str) -> Iterator[None]:
    """Have processes keep kernels and compiled Python in these folders, whatever was told."""
    told = dict(os.environ)
    os.environ.update(BVH_CACHE_DIR=cache, PYTHONPYCACHEPREFIX=bytecode)
    # An import is measured as it is of an installed package.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(told)


def row_of(verb: str, warm: bool, threads: int, bytecode: str) -> Row:
    """Measure a verb: its steps, what is kept on disk, and how busy others were meanwhile."""
    filled = warm or (verb in VERBS and VERBS[verb].filled)
    with tempfile.TemporaryDirectory() as cache, fresh(cache, bytecode):
        if filled:
            rows_of("first_calls", {"verb": verb}, threads)
        (row,) = rows_of("first_calls", {"verb": verb}, threads)
        kept = [path for path in Path(cache).rglob("*") if path.is_file()]
        sizes = [path.stat().st_size for path in kept if path.suffix != ".lock"]
    return {**row, "warm": warm, "kept": sum(sizes), "kernels": len(sizes)}


def line_of(row: Row) -> str:
    """Return a row of the table."""
    cells = [f"{row[part]:>10.2f}" if part in row else f"{'-':>10}" for part in PARTS]
    functions = f"{row['functions']:>10}" if "functions" in row else f"{'-':>10}"
    mark = "!" if disturbed(row) else " "
    return f"{row['what']:<25}{mark}{''.join(cells)}{functions}{row['kept'] / 1e6:>8.1f}"


def changes(old: list[Row], new: list[Row]) -> Iterator[str]:
    """Yield how the CPU seconds of each verb changed, built and asked."""
    before = {_key(row): row for row in old if "first" in row}
    for row in new:
        was = before.get(_key(row))
        if was is None:
            continue
        then, now = _whole(was), _whole(row)
        change = now / then - 1
        flag = "" if abs(change) <= FLAGGED else "  LONGER" if change > 0 else "  shorter"
        yield f"{row['what']:<25} {then:>8.2f} -> {now:>8.2f} {change:>+8.0%}{flag}"


def _key(row: Row) -> tuple[Any, ...]:
    return row["what"], row["threads"], row["warm"]


def _whole(row: Row) -> float:
    return sum(float(row.get(part, 0.0)) for part in ("import", "build", "first"))


def main() -> None:
    """Measure the verbs, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__)
    parser.add_argument("--only", help="Verbs, with commas between them; all by default.")
    parser.add_argument("--warm", action="store_true", help="On caches that are filled.")
    parser.add_argument("--threads", type=int, default=available())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    options = parser.parse_args()
    known = (*VERBS, *COMMANDS)
    verbs = options.only.split(",") if options.only else known
    for verb in verbs:
        if verb not in known:
            parser.error(f"--only knows {', '.join(known)}, got {verb!r}")
    if not 1 <= options.threads <= available():
        parser.error(f"--threads must be 1 to {available()}, got {options.threads}")
    old: list[Row] = []
    if options.compare:
        try:
            old = read(options.compare)
        except (OSError, ValueError) as error:
            parser.error(str(error))
    rows: list[Row] = []
    began = time.perf_counter()
    titles = "".join(f"{title:>10}" for title in TITLES)
    print(f"{'CPU seconds':<26}{titles}{'functions':>10}{'MB kept':>8}")
    with tempfile.TemporaryDirectory() as bytecode:
        # Python's own compiling is done once, as pip does it.
        row_of("import", False, options.threads, bytecode)
        for verb in verbs:
            rows.append(row_of(verb, options.warm, options.threads, bytecode))
            print(line_of(rows[-1]), flush=True)
    print(f"{time.perf_counter() - began:.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps({**machine(), "rows": rows}, indent=1) + "\n")
    if old:
        print(*changes(old, rows), sep="\n")


if __name__ == "__main__":
    main()
