"""Operations on vectors beyond operators: select, fma, minima, conversions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from bvh.runtime.jit import literal_operation, types
from bvh.runtime.simd.vectors import INT, Vec, as_lanes, declare, indices, operand, result_type


@literal_operation
def select(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    """Return the lanes of a where the mask is set, those of b elsewhere; or scalars, by a boolean.

    Scalars are copied into the lanes of a mask.
    """
    scalars = [types.unliteral(ty) for ty in (a, b)]
    if isinstance(mask, Vec):
        kind = result_type(a, b)
        kind = kind if kind is None or isinstance(kind, Vec) else Vec(kind, mask.n)
    else:
        kind = result_type(a, b) if mask == types.boolean else None
    if kind is None or isinstance(kind, Vec) != isinstance(mask, Vec):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pairs = zip(sig.args[1:], args[1:], strict=True)
        chosen = [operand(context, builder, ty, value, kind) for ty, value in pairs]
        return builder.select(args[0], *chosen)

    return kind(mask, *scalars), codegen


@literal_operation
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a*b + c, rounded once, of doubles or of lanes (scalars among them are copied)."""
    vecs = [ty for ty in (a, b, c) if isinstance(ty, Vec)]
    kind = vecs[0] if vecs else types.float64
    if any(vec != kind or not isinstance(vec.dtype, types.Float) for vec in vecs):
        return None
    operands = [ty if isinstance(ty, Vec) or not vecs else types.unliteral(ty) for ty in (a, b, c)]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if vecs:
            pairs = zip(sig.args, args, strict=True)
            args = [as_lanes(context, builder, ty, value, kind) for ty, value in pairs]
        kinds = [arg.type for arg in args]
        return builder.call(declare(builder, "llvm.fma", kinds, kinds[0]), args)

    return (kind(*operands) if vecs else kind(kind, kind, kind)), codegen


@literal_operation
def sqrt(typingctx: Any, a: Any) -> Any:
    """Return the square roots of floating-point lanes, rounded correctly; NaN below zero."""
    if not (isinstance(a, Vec) and isinstance(a.dtype, types.Float)):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.call(declare(builder, "llvm.sqrt", [args[0].type], args[0].type), args)

    return a(a), codegen


def _extreme(symbol: str) -> Any:
    def build(typingctx: Any, a: Any, b: Any) -> Any:
        kind = result_type(a, b)
        if kind is None:
            return None

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pairs = zip(sig.args, args, strict=True)
            args = [operand(context, builder, ty, value, kind) for ty, value in pairs]
            real = isinstance(getattr(kind, "dtype", kind), types.Float)
            compare = builder.fcmp_ordered if real else builder.icmp_signed
            return builder.select(compare(symbol, *args), *args)

        return kind(types.unliteral(a), types.unliteral(b)), codegen

    return build


lesser = literal_operation(_extreme("<"))
lesser.__doc__ = "Return a where a < b, else b, of lanes or scalars; b where either is NaN."
greater = literal_operation(_extreme(">"))
greater.__doc__ = "Return a where a > b, else b, of lanes or scalars; b where either is NaN."


@literal_operation
def lowest(typingctx: Any, vector: Any) -> Any:
    """Return the smallest lane, of lanes that are not NaN; of zeros, any."""
    if not isinstance(vector, Vec):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, n = args[0], vector.n
        while n > 1:
            n //= 2
            halves = [
                builder.shuffle_vector(value, value, indices(range(begin, begin + n)))
                for begin in (0, n)
            ]
            real = isinstance(vector.dtype, types.Float)
            compare = builder.fcmp_ordered if real else builder.icmp_signed
            value = builder.select(compare("<", *halves), *halves)
        return builder.extract_element(value, ir.Constant(INT, 0))

    return vector.dtype(vector), codegen


@literal_operation
def convert(typingctx: Any, vector: Any, like: Any) -> Any:
    """Convert lanes to the type of the scalar `like`.

    Floats round to nearest as floats, and towards zero as integers, which must hold them; integers
    keep their low bits.
    """
    if not isinstance(vector, Vec):
        return None
    kind = types.unliteral(like)
    source, result = vector.dtype, Vec(kind, vector.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(result)
        real = isinstance(source, types.Float), isinstance(kind, types.Float)
        wider = kind.bitwidth > source.bitwidth
        if real == (True, True):
            return (builder.fpext if wider else builder.fptrunc)(args[0], llvm)
        if real == (False, False):
            return (builder.sext if wider else builder.trunc)(args[0], llvm)
        return (builder.fptosi if real[0] else builder.sitofp)(args[0], llvm)

    return result(vector, like), codegen


@literal_operation
def as_ints(typingctx: Any, value: Any) -> Any:
    """Return the bits of floating-point lanes, or of a scalar, as integers."""
    dtype = getattr(value, "dtype", value)
    kind = types.int32 if dtype == types.float32 else types.int64
    result = Vec(kind, value.n) if isinstance(value, Vec) else kind

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(value), codegen


@literal_operation
def as_floats(typingctx: Any, vector: Any) -> Any:
    """Return the floating-point lanes that integers hold the bits of."""
    kind = types.float32 if vector.dtype == types.int32 else types.float64
    result = Vec(kind, vector.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(vector), codegen
