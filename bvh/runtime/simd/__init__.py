"""SIMD vectors: a few lanes of one type, and the operations on them that kernels need.

A `Vec` is an LLVM vector, so its operators become single instructions where the CPU has them and
are split where it has not: any width compiles anywhere. Vectors and operations are imported when
something is compiled; until then, deferred objects stand for them.

Each file imports only from those above it.

| file | contents |
|---|---|
| `cpu.py` | The number of lanes of a vector, and whether the CPU fuses multiplications with additions |
| `vectors.py` | Vector type `Vec` and its operators; references of `tuple_references` |
| `arithmetic.py` | Operations on vectors beyond operators: select, fma, minima, conversions; bits, cycles |
| `memory.py` | Loads and stores of scalars and vectors through arrays and pointers. Nothing is checked |
| `accessors.py` | Fields: accessors of the numbers at fixed places of a record, made from place and type |
| `lanes.py` | Lanes of vectors: broadcast, extraction, masks as bits, permutation and compression |
"""

from typing import TYPE_CHECKING, Any

from bvh.runtime.compiler.deferred import names_of
from bvh.runtime.simd.accessors import Accessor, field, rows, splat_rows
from bvh.runtime.simd.cpu import HAS_FMA, WIDTH

if TYPE_CHECKING:
    from bvh.runtime.simd.vectors import Vec
else:
    # Kernels need this name in annotations only; the module of the class imports Numba.
    Vec = Any

_OPERATIONS = {
    **names_of(
        f"{__name__}.arithmetic",
        "as_floats as_ints convert cycles fma fused greater highest_bit lesser lowest lowest_bit "
        "maximum minimum popcount select sqrt",
    ),
    **names_of(
        f"{__name__}.lanes",
        "compress_order from_lanes full_like joined lane lane_numbers mask_bits mask_of part "
        "permute splat three_of",
    ),
    **names_of(
        f"{__name__}.memory",
        "address claim gather gather_threes load load_fours load_threes peek peek_int pointer pointer_to poke "
        "prefetch_address shifted store store_ints",
    ),
}

__all__ = ["HAS_FMA", "WIDTH", "Accessor", "Vec", "field", "rows", "splat_rows", *_OPERATIONS]


def __getattr__(name: str) -> Any:
    """Return an operation as an attribute of this module."""
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
