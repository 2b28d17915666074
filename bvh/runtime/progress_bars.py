"""The `progress` argument of public functions, as a callback of (done, total).

A function is used as it is. True shows a bar of rich or tqdm, whichever is installed; a bar of
tqdm, or its class, is moved. Bars that are created here are closed here, also after an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

import numpy as np

Progress = Callable[[int, int], object]


class Bar(Protocol):
    """A progress bar with the interface of tqdm."""

    total: Any
    n: Any

    def update(self, n: Any) -> object:
        """Move the bar by so much."""

    def refresh(self) -> object:
        """Draw the bar as it is."""

    def close(self) -> object:
        """Stop the bar."""


ProgressLike = Progress | bool | Bar | type[Bar]


class heard:
    """Context of the callback to be called as (done, total); None without progress.

    Parameters
    ----------
    progress : callable, bool, bar of tqdm, class of such bars, or None
        As public functions take it.

    Raises
    ------
    TypeError
        If it is none of these.
    ImportError
        If it is True, and there is neither rich nor tqdm.
    """

    __slots__ = ("_close", "_given")

    def __init__(self, progress: ProgressLike | None) -> None:
        self._given = progress
        self._close: Callable[[], object] | None = None

    def __enter__(self) -> Progress | None:
        given: Any = self._given
        if given is None:
            return None
        if isinstance(given, bool | np.bool_):
            return self._shown() if given else None
        if isinstance(given, type) and _is_bar(given):
            bar = given()
            self._close = bar.close
            return _moving(bar)
        if callable(given):
            report: Progress = given
            return report
        if _is_bar(given) and hasattr(given, "total"):
            return _moving(given)
        raise TypeError(
            "progress must be a function (done, total), True, or a bar of tqdm, got "
            f"{type(given).__name__}"
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._close is not None:
            self._close()

    def _shown(self) -> Progress:
        """Show a bar of the library that is installed."""
        try:
            from rich.console import Console
            from rich.progress import Progress as Bars
        except ImportError:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                raise ImportError(
                    'progress=True needs rich or tqdm: pip install "raybvh[cli]"'
                ) from None
            bar = tqdm()
            self._close = bar.close
            return _moving(bar)
        bars = Bars(console=Console(stderr=True))
        task = bars.add_task("", total=None)
        bars.start()
        self._close = bars.stop
        return lambda done, total: bars.update(task, completed=done, total=total)


def _is_bar(given: Any) -> bool:
    return all(callable(getattr(given, name, None)) for name in ("update", "refresh", "close"))


def _moving(bar: Any) -> Progress:
    """Return a callback that moves a bar of tqdm from where it is to the end of its total."""
    begin = bar.n

    def report(done: int, total: int) -> None:
        if bar.total != begin + total:
            bar.total = begin + total
            bar.refresh()
        bar.update(begin + done - bar.n)
        if done >= total:
            # The last step may come too soon after the one before to be drawn.
            bar.refresh()

    return report
