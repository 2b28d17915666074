"""Compiled functions that count what CPUs do differently: conversions out of range, long shifts.

A double beyond the integers becomes the largest one on Arm and the least one on x86-64; a shift by
as many bits as there are leaves 0, all, or half of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir

LONG = ir.IntType(64)
# Operations that a process may compile.
MOST = 100_000


@contextlib.contextmanager
def guarded() -> Iterator[Callable[[], dict[str, int]]]:
    """Guard what is compiled meanwhile; yield a function that tells what went wrong how often."""
    counts, places = np.zeros(MOST, np.int64), []

    def note(builder: Any, what: str, good: Any) -> None:
        """Count where not all lanes are good, as a function of the process."""
        if isinstance(good.type, ir.VectorType):
            bits = ir.IntType(good.type.count)
            good = builder.icmp_unsigned("==", builder.bitcast(good, bits), ir.Constant(bits, -1))
        place = counts.ctypes.data + 8 * len(places)
        places.append(f"{what} in {builder.function.name[:80]}")
        assert len(places) <= MOST
        pointer = ir.Constant(LONG, place).inttoptr(LONG.as_pointer())
        bad = builder.zext(builder.not_(good), LONG)
        builder.store(builder.add(builder.load(pointer), bad), pointer)

    def conversion(name: str, write: Any) -> Any:
        def guard(builder: Any, value: Any, kind: Any, *rest: Any) -> Any:
            bits = _element(kind).width
            low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
            if name == "fptoui":
                low, high = -1.0, 2.0**bits
            above = builder.fcmp_ordered(">=", value, _filled(value.type, low))
            below = builder.fcmp_ordered("<", value, _filled(value.type, high))
            note(builder, name, builder.and_(above, below))
            return write(builder, value, kind, *rest)

        return guard

    def shift(name: str, write: Any) -> Any:
        def guard(builder: Any, value: Any, by: Any, *rest: Any, **named: Any) -> Any:
            if not isinstance(by, ir.Constant):
                bits = _filled(by.type, _element(by.type).width)
                note(builder, name, builder.icmp_unsigned("<", by, bits))
            return write(builder, value, by, *rest, **named)

        return guard

    guards = dict.fromkeys(("fptosi", "fptoui"), conversion)
    guards |= dict.fromkeys(("shl", "lshr", "ashr"), shift)
    plain = {name: getattr(ir.IRBuilder, name) for name in guards}
    for name, guard in guards.items():
        setattr(ir.IRBuilder, name, guard(name, plain[name]))
    try:
        yield lambda: {p: int(n) for p, n in zip(places, counts, strict=False) if n}
    finally:
        for name, write in plain.items():
            setattr(ir.IRBuilder, name, write)


def _element(kind: Any) -> Any:
    return kind.element if isinstance(kind, ir.VectorType) else kind


def _filled(kind: Any, value: Any) -> Any:
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)
    return ir.Constant(kind, value)
