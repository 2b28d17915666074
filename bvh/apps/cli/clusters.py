"""Options of commands that work on a cluster of Dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

from typer import Option

from bvh.distributed.clusters.connection import connected

if TYPE_CHECKING:
    from distributed import Client

Scheduler = Annotated[str | None, Option(
    metavar="ADDRESS", help="Dask scheduler to work on, such as tcp://host:8786.")]  # fmt: skip
Threads = Annotated[int | None, Option(
    min=-1, help="Threads; one for each CPU by default, -1 for all CPUs. With --scheduler those of "
    "each task, one by default: a worker does several tasks at a time.",
)]  # fmt: skip


@contextmanager
def cluster(address: str | None) -> Iterator[Client | None]:
    """Connect to a scheduler; yields None without an address. Errors name the option."""
    with ExitStack() as stack:
        try:
            client = None if address is None else stack.enter_context(connected(address))
        except (ImportError, OSError, ValueError) as error:
            raise type(error)(f"--{error}") from None
        yield client
