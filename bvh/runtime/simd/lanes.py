"""Lanes of vectors: broadcast, extraction, masks as bits, permutation and compression.

LLVM does not find the instructions that permute lanes by a vector of indices, or move chosen lanes
to the front. So they are chosen here by the CPU's features, with generic code for other CPUs.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from bvh.runtime.compiler.code_generator import host_features
from bvh.runtime.compiler.code_types import Builder, Value
from bvh.runtime.jit import emits, inlined, literal_operation, llvm_operation
from bvh.runtime.simd.cpu import WIDTH
from bvh.runtime.simd.memory import load_bytes
from bvh.runtime.simd.vectors import BIT, INT, LONG, Vec, call, indices, spread, suffix_of


@literal_operation
def splat(typingctx, value, n):
    """Return a vector with a scalar in all n lanes."""
    scalar = types.unliteral(value)
    vec = Vec(scalar, n.literal_value)

    def emit(builder, value, n):
        # Numba may hold a boolean in 8 bits; lanes of masks have one.
        if scalar == types.boolean and value.type != BIT:
            value = builder.trunc(value, BIT)
        return spread(builder, value, vec.n)

    return vec(scalar, n), emits(emit)


@literal_operation
def full_like(typingctx, like, value):
    """Return a scalar in as many lanes as `like` has; the scalar itself if `like` is a scalar."""
    scalar = types.unliteral(value)
    kind = Vec(scalar, like.n) if isinstance(like, Vec) else scalar
    is_vec = isinstance(kind, Vec)
    return kind(like, scalar), emits(lambda b, _, x: spread(b, x, kind.n) if is_vec else x)


@llvm_operation
def from_lanes(typingctx, numbers):
    """Return the vector whose lanes are the numbers of a tuple, all of one type."""
    vec = Vec(numbers.dtype, len(numbers))

    def emit(builder, numbers):
        result = ir.Constant(vec.llvm, ir.Undefined)
        for k in range(vec.n):
            number = builder.extract_value(numbers, k)
            result = builder.insert_element(result, number, ir.Constant(INT, k))
        return result

    return vec(numbers), emits(emit)


@literal_operation
def lane(typingctx, vector, i):
    """Return lane i of a vector."""
    signature = vector.dtype(vector, types.int32)
    return signature, emits(lambda b, vector, i: b.extract_element(vector, i))


@llvm_operation
def three_of(typingctx, vector):
    """Return the first three of four int32 lanes, which are not negative, as integers."""
    kind = types.UniTuple(types.int64, 3)

    def codegen(context, builder, sig, args):
        # Two lanes at once: extracting one takes longer than a shift.
        pair = builder.bitcast(args[0], ir.VectorType(LONG, 2))
        pair = builder.extract_element(pair, ir.Constant(INT, 0))
        x = builder.and_(pair, ir.Constant(LONG, 0xFFFFFFFF))
        y = builder.lshr(pair, ir.Constant(LONG, 32))
        z = builder.zext(builder.extract_element(args[0], ir.Constant(INT, 2)), LONG)
        return context.make_tuple(builder, kind, [x, y, z])

    return kind(Vec(types.int32, 4)), codegen


@literal_operation
def part(typingctx, vector, begin, n):
    """Return n lanes of a vector from lane `begin` on; both are constants."""
    lanes = indices(range(begin.literal_value, begin.literal_value + n.literal_value))
    result = Vec(vector.dtype, n.literal_value)
    return result(vector, begin, n), emits(lambda b, v, *_: b.shuffle_vector(v, v, lanes))


@literal_operation
def joined(typingctx, a, b):
    """Return a vector of twice as many lanes: the lanes of a, then the lanes of b."""
    lanes = indices(range(2 * a.n))
    return Vec(a.dtype, 2 * a.n)(a, a), emits(lambda c, a, b: c.shuffle_vector(a, b, lanes))


@literal_operation
def lane_numbers(typingctx, n):
    """Return the int32 lanes 0, 1, 2 ... n - 1."""
    vec = Vec(types.int32, n.literal_value)
    return vec(n), emits(lambda b, n: ir.Constant(vec.llvm, list(range(vec.n))))


@literal_operation
def mask_bits(typingctx, mask):
    """Return a mask as an integer, lane 0 in the lowest bit."""
    if not (isinstance(mask, Vec) and mask.dtype == types.boolean):
        return None
    bits = ir.IntType(mask.n)
    return types.int64(mask), emits(lambda b, mask: b.zext(b.bitcast(mask, bits), LONG))


@literal_operation
def mask_of(typingctx, bits, n):
    """Return the n lowest bits of an integer as a mask of n lanes; lane 0 is the lowest bit."""
    vec = Vec(types.boolean, n.literal_value)
    small = ir.IntType(vec.n)
    return vec(types.int64, n), emits(lambda b, bits, n: b.bitcast(b.trunc(bits, small), vec.llvm))


def _native_permute(vec: Vec) -> str | None:
    """Return LLVM's name of the instruction that permutes lanes, or 16 bytes of four, or None."""
    letters = {types.float32: ("ps", "sf"), types.int32: ("d", "si")}.get(vec.dtype)
    if letters is None:
        return None
    instructions = [
        (4, "ssse3", "llvm.x86.ssse3.pshuf.b.128"),
        (4, "neon", "llvm.aarch64.neon.tbl1.v16i8"),
        (8, "avx2", f"llvm.x86.avx2.perm{letters[0]}"),
        (16, "avx512f", f"llvm.x86.avx512.permvar.{letters[1]}.512"),
    ]
    features = host_features()
    return next((name for n, on, name in instructions if n == vec.n and features.get(on)), None)


def _permuted_bytes(builder: Builder, instruction: str, value: Value, order: Value) -> Value:
    """Return lanes order[k] of 4 x 32 bits in lanes k, by an instruction that permutes 16 bytes."""
    # Byte i of lane k is byte 4 * (order[k] & 3) + i of the vector. The product has the first term
    # in each byte of lane k.
    kind, three = ir.VectorType(ir.IntType(8), 16), ir.Constant(order.type, [3] * 4)
    first = builder.mul(builder.and_(order, three), ir.Constant(order.type, [0x04040404] * 4))
    at = builder.add(builder.bitcast(first, kind), ir.Constant(kind, [0, 1, 2, 3] * 4))
    found = call(builder, instruction, [builder.bitcast(value, kind), at], plain=True)
    return builder.bitcast(found, value.type)


@literal_operation
def permute(typingctx, vector, order):
    """Return lane order[k] of the vector in lane k; indices are modulo the number of lanes."""
    native = _native_permute(vector)

    def emit(builder, value, order):
        if native and vector.n == 4:
            return _permuted_bytes(builder, native, value, order)
        if native:
            return call(builder, native, [value, order], plain=True)
        result = ir.Constant(value.type, ir.Undefined)
        for k in range(vector.n):
            at = builder.and_(
                builder.extract_element(order, ir.Constant(INT, k)), ir.Constant(INT, vector.n - 1)
            )
            picked = builder.extract_element(value, at)
            result = builder.insert_element(result, picked, ir.Constant(INT, k))
        return result

    return vector(vector, Vec(types.int32, vector.n)), emits(emit)


def compress_orders(n: int) -> NDArray[np.int32]:
    """Return for each mask of n lanes the permutation that moves its set lanes to the front."""
    # The row of a mask is its bits as an integer. The sort is stable, so lanes keep their order.
    rows = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    return np.ascontiguousarray(np.argsort(1 - rows, axis=1, kind="stable").astype(np.int32))


@literal_operation
def _compress(typingctx, vector, mask):
    """Move the lanes of a mask to the front, by LLVM's own operation; the rest is undefined."""

    def emit(builder, value, mask):
        name = f"llvm.experimental.vector.compress.{suffix_of(value.type)}"
        return call(builder, name, [value, mask, ir.Constant(value.type, ir.Undefined)], plain=True)

    return vector(vector, Vec(types.boolean, vector.n)), emits(emit)


if WIDTH <= 8 and not host_features().get("avx512vl"):
    COMPRESS_ORDERS = compress_orders(WIDTH).astype(np.uint8).ravel()

    @inlined
    def compress_order(bits):
        """Return the permutation that moves the lanes of a mask, given as bits, to the front."""
        return load_bytes(COMPRESS_ORDERS, bits * WIDTH, WIDTH)

else:

    @inlined
    def compress_order(bits):
        """Return the permutation that moves the lanes of a mask, given as bits, to the front."""
        return _compress(lane_numbers(WIDTH), mask_of(bits, WIDTH))
