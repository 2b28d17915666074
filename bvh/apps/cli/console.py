"""Output of commands: lines, tables, JSON, progress bars."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from bvh.runtime.arguments import number_of
from bvh.runtime.jit import BVHWarning

# Without markup, so that names of files and instances are printed verbatim.
out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar during the block; yield the function (done, total) that moves it."""
    columns = (TextColumn(text), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task(text, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Print each warning of the package in one line, without its position in the code."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        """Print a warning of the package in a line, and pass others on to Python.

        The arguments are those of `warnings.showwarning`; `where` begins with file and line.
        """
        if issubclass(category, BVHWarning):
            err.print(f"bvh: {one_line(str(message))}")
        else:
            shown(message, category, *where)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def print_json(value: object) -> None:
    """Print plain values as JSON, with null for NaN and infinity."""
    print(json.dumps(_without_nan(value)))  # noqa: T201


def one_line(text: str | None) -> str:
    """Return text with a replacement for each character that is not printable; "-" for None."""
    shown = "-" if text is None else text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)


def mebibytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def rays_in(rays: int, seconds: float) -> str:
    """Return text such as "640 rays in 0.010 s"."""
    return f"{number_of(rays, 'rays', ',')} in {seconds:.3f} s"


def _without_nan(value: object) -> object:
    """Return a nested value with None in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
