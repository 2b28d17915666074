"""Equality of answers of devices and of the CPU: of all numbers, bit for bit."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

import numpy as np

# The device that tests use, by Warp's name of it.
DEVICE = os.environ.get("BVH_TEST_DEVICE", "cpu")


def bits_of(array: Any) -> Any:
    """Return an array whose equality is that of bits, also of those of NaN."""
    values = np.asarray(array)
    return values if values.dtype.kind != "f" else values.view(np.int64)


def assert_same(found: Any, wanted: Any, what: str = "") -> None:
    """Compare two results, columns or numbers."""
    if hasattr(wanted, "__dataclass_fields__"):
        for field in fields(wanted):
            assert_same(getattr(found, field.name), getattr(wanted, field.name), field.name)
        return
    assert np.shape(found) == np.shape(wanted), what
    a, b = bits_of(found), bits_of(wanted)
    assert a.dtype == b.dtype, what
    assert np.array_equal(a, b), f"{what}: {np.flatnonzero(a != b)[:5]}"
