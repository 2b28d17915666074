"""Pairs of instances that a query ignores, given by ids or names, as sorted keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.arguments import one_index
from bvh.scene.instances import Instances

Keys = NDArray[np.int64]

# Pairs by ids or names, or an array of ids, (k, 2).
PairsLike = Iterable[tuple[int | str, int | str]] | ArrayLike


def ignored_keys(table: Instances, ignore: PairsLike | None) -> Keys:
    """Return the pairs to ignore as keys, the lower id in the high bits; ascending.

    A name stands for all instances that have it.
    """
    if ignore is None:
        return np.empty(0, np.int64)
    # Arrays without axes pass for iterable.
    single = isinstance(ignore, str | bytes) or getattr(ignore, "ndim", 2) == 0
    if single or not isinstance(ignore, Iterable):
        raise TypeError(f"ignore must be pairs of instances, got {ignore!r}")
    known = set(table.column("ids")[table.column("child") >= 0].tolist())
    named: dict[str, list[int]] = {}
    for number, name in table.names.items():
        named.setdefault(name, []).append(number)

    def ids(end: Any) -> list[int]:
        if isinstance(end, str):
            if end not in named:
                raise ValueError(f"ignore: there is no instance with the name {str(end)!r}")
            return named[end]
        number = one_index("an instance in ignore", end)
        if number not in known:
            raise ValueError(f"ignore: there is no instance {number}")
        return [number]

    found: set[tuple[int, int]] = set()
    for pair in ignore:
        ends = None if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) else [*pair]
        if ends is None or len(ends) != 2:
            raise ValueError(f"ignore must be pairs of instances, and one of them is {pair!r}")
        found.update(itertools.product(ids(ends[0]), ids(ends[1])))
    keys = {min(pair) << 32 | max(pair) for pair in found}
    return np.array(sorted(keys), np.int64)
