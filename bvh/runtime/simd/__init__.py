"""SIMD vectors: a few lanes of one type, and the operations on them that kernels need.

A `Vec` is an LLVM vector, so its operators become single instructions where the CPU has them and
are split where it has not: any width compiles anywhere.

Each file imports only from those above it.

| file | contents |
|---|---|
| `vectors.py` | Vector type `Vec` and its operators |
| `cpu.py` | CPU features, the number of lanes of a vector, and the cycle counter |
| `arithmetic.py` | Operations on vectors beyond operators: select, fma, minima, conversions; bits of integers |
| `memory.py` | Loads and stores of scalars and vectors through arrays and pointers. Nothing is checked |
| `fields.py` | Fields: accessors of the numbers at fixed places of a record, made from place and type |
| `lanes.py` | Lanes of vectors: broadcast, extraction, masks as bits, permutation and compression |
"""

from bvh.runtime.simd.arithmetic import (
    HAS_FMA,
    as_floats,
    as_ints,
    convert,
    fma,
    fused,
    greater,
    highest_bit,
    lesser,
    lowest,
    lowest_bit,
    popcount,
    select,
    sqrt,
)
from bvh.runtime.simd.cpu import FEATURES, WIDTH, cycles
from bvh.runtime.simd.fields import Accessor, field, rows, splat_rows
from bvh.runtime.simd.lanes import (
    compress_order,
    full_like,
    joined,
    lane,
    lane_numbers,
    mask_bits,
    mask_of,
    part,
    permute,
    splat,
)
from bvh.runtime.simd.memory import (
    address,
    gather,
    load,
    load_ints,
    load_threes,
    peek,
    peek_int,
    pointer,
    pointer_to,
    poke,
    poke_int,
    prefetch_address,
    shifted,
    store,
    store_ints,
)
from bvh.runtime.simd.vectors import Vec

__all__ = [
    "FEATURES", "HAS_FMA", "WIDTH", "Accessor", "Vec", "address", "as_floats", "as_ints",
    "compress_order", "convert", "cycles", "field", "fma", "full_like", "fused", "gather",
    "greater", "highest_bit", "joined", "lane", "lane_numbers", "lesser", "load",
    "load_ints", "load_threes", "lowest", "lowest_bit", "mask_bits", "mask_of", "part", "peek", "peek_int",
    "permute", "pointer", "pointer_to", "poke", "poke_int", "popcount", "prefetch_address",
    "rows", "select", "shifted", "splat", "splat_rows", "sqrt", "store",
    "store_ints",
]  # fmt: skip
