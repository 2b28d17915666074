"""Libraries of arrays other than numpy, as far as they are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

NAMES = ("strict", "torch", "jax")


class Arrays(NamedTuple):
    """A library: how its arrays are made of numpy's, in place if it can, and their class."""

    name: str
    make: Callable[[NDArray[Any]], Any]
    kind: type[Any]


@contextmanager
def library(name: str) -> Iterator[Arrays]:
    """Give a library; skip the test where it is not installed. JAX has 64 bits meanwhile."""
    pytest.importorskip("array_api_compat")
    if name == "torch":
        torch = pytest.importorskip("torch")
        yield Arrays(name, torch.from_numpy, torch.Tensor)
    elif name == "jax":
        jax = pytest.importorskip("jax")
        with jax.enable_x64(True):
            yield Arrays(name, jax.numpy.asarray, jax.Array)
    else:
        strict = pytest.importorskip("array_api_strict")
        yield Arrays(name, strict.asarray, type(strict.asarray(0)))


def plain(value: Any) -> NDArray[Any]:
    """Return an array of any library as numpy's."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.from_dlpack(value)
    except BufferError:
        # Read-only memory, which numpy exports from 2.1 on.
        return np.asarray(value)


def aimed(*shape: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rays of which most hit."""
    rng = np.random.default_rng(7)
    origins = rng.uniform(-2.0, 2.0, (*shape, 3))
    return origins, rng.uniform(-0.7, 0.7, (*shape, 3)) - origins
