"""The `progress` argument of public functions, as a callback of (done, total).

A function is used as it is. True shows a bar of rich or tqdm, whichever is installed; a bar of
tqdm, or its class, is moved. Bars that are created here are closed here, also after an exception.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from bvh.runtime.registry import extra

Progress = Callable[[int, int], object]


class Bar(Protocol):
    """A progress bar with the interface of tqdm."""

    total: Any
    n: Any

    def update(self, n: Any) -> object:
        """Add `n`, which may be negative, to the steps done."""

    def refresh(self) -> object:
        """Draw the bar now."""

    def close(self) -> object:
        """Draw the bar a last time, and release it."""


ProgressLike = Progress | bool | Bar | type[Bar]

NO_PROGRESS: AbstractContextManager[None] = contextlib.nullcontext()


def heard(progress: ProgressLike | None) -> AbstractContextManager[Progress | None]:
    """Return a context manager of the callback (done, total), or None, for an argument `progress`.

    It yields None without progress. Entering it raises a TypeError if `progress` is of another
    type, and an ImportError if it is True and neither rich nor tqdm is installed.
    """
    return NO_PROGRESS if progress is None else _callback(progress)


@contextlib.contextmanager
def _callback(given: Any) -> Iterator[Progress | None]:
    """Yield the callback of an argument `progress` other than None."""
    # Only a bar that is made here is closed here.
    if isinstance(given, bool | np.bool_):
        with _new_bar() if given else NO_PROGRESS as report:
            yield report
    elif isinstance(given, type) and _is_bar(given):
        with contextlib.closing(given()) as bar:
            yield _moving_callback(bar)
    elif callable(given):
        yield given
    elif _is_bar(given) and hasattr(given, "total"):
        yield _moving_callback(given)
    else:
        what = "a function (done, total), True, or a bar of tqdm"
        raise TypeError(f"progress must be {what}, got {type(given).__name__}")


@contextlib.contextmanager
def _new_bar() -> Iterator[Progress]:
    """Show a bar of rich or tqdm, whichever is installed, and yield a callback that moves it."""
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        with extra("cli", "progress=True needs rich or tqdm"):
            from tqdm.auto import tqdm
        with contextlib.closing(tqdm()) as bar:
            yield _moving_callback(bar)
        return
    with Bars(console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _is_bar(given: Any) -> bool:
    """Return whether a value, or class, has the methods of a bar of tqdm."""
    return all(callable(getattr(given, name, None)) for name in ("update", "refresh", "close"))


def _moving_callback(bar: Any) -> Progress:
    """Return a callback that moves a bar of tqdm from where it is to the end of its total."""
    begin = bar.n

    def report(done: int, total: int) -> None:
        if bar.total != begin + total:
            bar.total = begin + total
            bar.refresh()
        bar.update(begin + done - bar.n)
        if done >= total:
            # Draw the last step, which tqdm omits if it follows another one too soon.
            bar.refresh()

    return report
