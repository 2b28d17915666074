"""Vectors of exact numbers, such as fractions, integers or decimals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Vector = Sequence[Any]


def minus(a: Vector, b: Vector) -> tuple[Any, ...]:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def dot(a: Vector, b: Vector) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> tuple[Any, ...]:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
