"""Operations on vectors beyond operators: select, fma, minima, conversions; bits, cycles."""

from collections.abc import Callable

from llvmlite import ir
from numba import types

from bvh.runtime.compiler.code_generator import host_features
from bvh.runtime.compiler.code_types import Operation, Type
from bvh.runtime.jit import emits, literal_operation, llvm_operation
from bvh.runtime.simd.cpu import HAS_FMA
from bvh.runtime.simd.vectors import (
    BIT,
    INT,
    LLVM,
    LONG,
    Vec,
    call,
    compare,
    declare,
    indices,
    operands,
    result_type,
)


@literal_operation
def select(typingctx, mask, a, b):
    """Return the lanes of a where the mask is set, else of b; one of two scalars for a boolean."""
    kind = result_type(a, b)
    if kind is None:
        return None
    # Scalars are copied into the lanes of a mask.
    if isinstance(mask, Vec) and not isinstance(kind, Vec):
        kind = Vec(kind, mask.n)

    def codegen(context, builder, sig, args):
        chosen = operands(context, builder, sig.args[1:], args[1:], kind)
        return builder.select(args[0], *chosen)

    return kind(mask, types.unliteral(a), types.unliteral(b)), codegen


def _multiply_add(exact: bool) -> Callable[..., Operation]:
    """Return the function of an intrinsic for a * b + c, rounded once if `exact`."""

    def build(typingctx, a, b, c):
        vecs = [ty for ty in (a, b, c) if isinstance(ty, Vec)]
        kind = vecs[0] if vecs else types.float64
        if any(vec != kind or not isinstance(vec.dtype, types.Float) for vec in vecs):
            return None
        # Doubles are always rounded once, by a function of the C library where the CPU has no
        # instruction, because error-free transformations rely on that.
        once = exact or HAS_FMA or getattr(kind, "dtype", kind) == types.float64

        def codegen(context, builder, sig, args):
            args = operands(context, builder, sig.args, args, kind)
            if once:
                return call(builder, "llvm.fma", args)
            return builder.fadd(builder.fmul(*args[:2]), args[2])

        if not vecs:
            return kind(kind, kind, kind), codegen
        # Scalars lose their literal types here; `operands` copies them into all lanes.
        parts = [ty if isinstance(ty, Vec) else types.unliteral(ty) for ty in (a, b, c)]
        return kind(*parts), codegen

    return build


# Scalars among the operands are copied into all lanes.
fused = literal_operation(_multiply_add(exact=True))
fused.__doc__ = "Return a*b + c, rounded once, of doubles or of lanes."
# Without an instruction, `fused` calls a function for each lane, and `fma` rounds twice.
# Bounds of errors hold for both: in a sum of n products, each added to the sum so far, the first is
# rounded n times. Product k > 1 is rounded n - k + 1 times, or n - k + 2, which is n at most.
fma = literal_operation(_multiply_add(exact=False))
fma.__doc__ = "Return a*b + c; of float32 lanes rounded twice where the CPU cannot fuse both steps."


@literal_operation
def sqrt(typingctx, a):
    """Return the square roots of floats or of lanes of them, rounded correctly; NaN below zero."""
    # As an instruction: `math.sqrt` would be a call of C.
    return a(a), emits(lambda b, x: call(b, "llvm.sqrt", [x]))


def _extreme(symbol: str) -> Callable[..., Operation]:
    """Return the function of an intrinsic (a, b) that chooses a where `a symbol b`, else b."""

    def build(typingctx, a, b):
        kind = result_type(a, b)
        if kind is None:
            return None

        def codegen(context, builder, sig, args):
            args = operands(context, builder, sig.args, args, kind)
            is_float = isinstance(getattr(kind, "dtype", kind), types.Float)
            return builder.select(compare(symbol)(builder, is_float, *args), *args)

        return kind(types.unliteral(a), types.unliteral(b)), codegen

    return build


lesser = literal_operation(_extreme("<"))
lesser.__doc__ = "Return a where a < b, else b, of lanes or scalars; b where either is NaN."
greater = literal_operation(_extreme(">"))
greater.__doc__ = "Return a where a > b, else b, of lanes or scalars; b where either is NaN."


def _strict_extreme(name: str) -> Callable[..., Operation]:
    """Return the function of an intrinsic for the larger ("max") or smaller lanes ("min")."""

    def build(typingctx, a, b):
        if a != b or a.dtype != types.float32:
            return None
        has_avx = a.n == 8 and host_features().get("avx")
        full = f"llvm.x86.avx.{name}.ps.256" if has_avx else f"llvm.{name}num.v{a.n}f32"
        return a(a, b), emits(lambda b, *lanes: call(b, full, lanes, plain=True))

    return build


# As `lesser` and `greater`, but by one instruction even where the result is stored in place of an
# operand: of a comparison and a select LLVM would make a masked store, which is slow on some CPUs.
maximum = llvm_operation(_strict_extreme("max"))
maximum.__doc__ = "Return the larger of each two float32 lanes, none of which may be NaN."
minimum = llvm_operation(_strict_extreme("min"))
minimum.__doc__ = "Return the smaller of each two float32 lanes, none of which may be NaN."


@literal_operation
def lowest(typingctx, vector):
    """Return the smallest lane. No lane may be NaN; a result of zero may have either sign."""
    # The lower half of the lanes is compared with the upper one, until one lane is left.
    is_float = isinstance(vector.dtype, types.Float)

    def emit(builder, value):
        n = vector.n
        while n > 1:
            n //= 2
            halves = [
                builder.shuffle_vector(value, value, indices(range(begin, begin + n)))
                for begin in (0, n)
            ]
            value = builder.select(compare("<")(builder, is_float, *halves), *halves)
        return builder.extract_element(value, ir.Constant(INT, 0))

    return vector.dtype(vector), emits(emit)


@literal_operation
def convert(typingctx, vector, like):
    """Convert lanes to numbers of the type of the scalar `like`."""
    # Floats are rounded to the nearest float, or towards zero to an integer, whose range they must
    # not exceed. Narrower integers keep the low bits.
    kind = types.unliteral(like)
    source, result = vector.dtype, Vec(kind, vector.n)
    are_floats = isinstance(source, types.Float), isinstance(kind, types.Float)
    wider = kind.bitwidth > source.bitwidth
    cast = {
        (True, True): "fpext" if wider else "fptrunc",
        (False, False): "sext" if wider else "trunc",
        (True, False): "fptosi",
        (False, True): "sitofp",
    }[are_floats]
    return result(vector, like), emits(lambda b, v, _: getattr(b, cast)(v, result.llvm))


def _same_bits(kinds: dict[Type, Type]) -> Callable[..., Operation]:
    """Return the function of an intrinsic that reads bits as another type, by a dict of types."""

    def build(typingctx, value):
        kind = kinds[types.unliteral(getattr(value, "dtype", value))]
        result = Vec(kind, value.n) if isinstance(value, Vec) else kind
        llvm = result.llvm if isinstance(value, Vec) else LLVM[kind]
        return result(value), emits(lambda b, v: b.bitcast(v, llvm))

    return build


_INTEGERS = {types.float32: types.int32, types.float64: types.int64}
as_ints = literal_operation(_same_bits(_INTEGERS))
as_ints.__doc__ = "Return the bits of floating-point lanes, or of a scalar, as integers."
as_floats = literal_operation(_same_bits({kind: real for real, kind in _INTEGERS.items()}))
as_floats.__doc__ = "Return the bits of integer lanes, or of a scalar, as floating-point numbers."


@llvm_operation
def popcount(typingctx, x):
    """Return the number of set bits."""
    return types.int64(types.int64), emits(lambda b, x: call(b, "llvm.ctpop", [x]))


@llvm_operation
def lowest_bit(typingctx, x):
    """Return the index of the lowest set bit; 64 for 0."""
    zero = ir.Constant(BIT, 0)
    return types.int64(types.int64), emits(lambda b, x: call(b, "llvm.cttz", [x, zero]))


@llvm_operation
def highest_bit(typingctx, x):
    """Return the index of the highest set bit; -1 for 0."""

    def emit(builder, x):
        zeros = call(builder, "llvm.ctlz", [x, ir.Constant(BIT, 0)])
        return builder.sub(ir.Constant(LONG, 63), zeros)

    return types.int64(types.int64), emits(emit)


@llvm_operation
def cycles(typingctx):
    """Return the cycle counter of the CPU; 0 where it cannot be read."""
    name = "llvm.readcyclecounter"
    return types.int64(), emits(lambda b: b.call(declare(b, name, [], LONG, plain=True), []))
