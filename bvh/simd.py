"""Vectors: a few lanes of one type, and the operations on them that kernels need.

A `Vec` is an LLVM vector, so its operators become single instructions where the CPU has them and
are split where it has not: any width compiles anywhere. Three things that LLVM does not find by
itself are chosen by the CPU's features: how to permute lanes by a vector of indices, and how to
move chosen lanes to the front. Beside each stands a path of plain instructions.

Operators: + - * / on lanes, < <= > >= == != giving a mask, & | ^ ~ on masks and integers, << and
>> (logical) on integers, unary minus and abs. One operand may be a scalar.
"""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numpy.typing import NDArray

from bvh.jit import host_features, inlined

_INT, _FLOAT, _DOUBLE, _LONG, _BIT = (
    ir.IntType(32), ir.FloatType(), ir.DoubleType(), ir.IntType(64), ir.IntType(1)
)  # fmt: skip
_LLVM = {
    types.float32: _FLOAT, types.float64: _DOUBLE, types.int32: _INT, types.int64: _LONG,
    types.boolean: _BIT, types.uint8: ir.IntType(8),
}  # fmt: skip


class Vec(types.Type):  # type: ignore[misc]
    """`n` lanes of float32, float64, int32, int64, or of booleans (a mask)."""

    def __init__(self, dtype: Any, n: int) -> None:
        self.dtype = dtype
        self.n = n
        super().__init__(name=f"Vec({dtype}, {n})")


@register_model(Vec)
class _VecModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(_LLVM[fe_type.dtype], fe_type.n))


def _natural_width() -> int:
    """Return the number of float32 lanes that suits the CPU; ``BVH_WIDTH`` overrides it."""
    wanted = os.environ.get("BVH_WIDTH", "")
    if wanted:
        if wanted not in ("4", "8", "16"):
            raise ValueError(f"BVH_WIDTH must be 4, 8 or 16, got {wanted!r}")
        return int(wanted)
    if FEATURES.get("avx512f"):
        return 16
    return 8 if FEATURES.get("avx2") else 4


FEATURES = host_features()
WIDTH = _natural_width()


def _splat(builder: Any, value: Any, n: int) -> Any:
    """Copy a scalar into all lanes."""
    start = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
    one = builder.insert_element(start, value, ir.Constant(_INT, 0))
    zeros = ir.Constant(ir.VectorType(_INT, n), [0] * n)
    return builder.shuffle_vector(one, start, zeros)


def _lanes(context: Any, builder: Any, ty: Any, value: Any, vec: Vec) -> Any:
    """Return an operand as lanes of `vec`: itself, or a scalar in every lane."""
    if isinstance(ty, Vec):
        return value
    return _splat(builder, context.cast(builder, value, ty, vec.dtype), vec.n)


def _vec_of(args: Any) -> Any:
    """Return the one vector type among two operands, None where they do not go together."""
    vecs = [ty for ty in args if isinstance(ty, Vec)]
    if len(vecs) == 2 and vecs[0] != vecs[1]:
        return None
    scalars = (types.Number, types.Boolean, types.Literal)
    if not vecs or not all(isinstance(ty, (Vec, *scalars)) for ty in args):
        return None
    return vecs[0]


def _define(symbol: Any, arity: int, emit: Any, to_mask: bool = False) -> None:
    """Give an operator its meaning on vectors; emit(builder, is_float, *lanes)."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            vec = _vec_of(args) if len(args) == arity else None
            if vec is None:
                return None
            result = Vec(types.boolean, vec.n) if to_mask else vec
            return signature(result, *args)

    Template.__name__ = f"Vec_{symbol.__name__}"
    infer_global(symbol)(Template)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vec = _vec_of(sig.args)
        lanes = [_lanes(context, builder, t, a, vec) for t, a in zip(sig.args, args, strict=True)]
        return emit(builder, isinstance(vec.dtype, types.Float), *lanes)

    kinds = [(Vec,)] if arity == 1 else [(Vec, Vec), (Vec, types.Any), (types.Any, Vec)]
    for kind in kinds:
        lower_builtin(symbol, *kind)(lower)


def _compare(symbol: str) -> Any:
    def emit(builder: Any, real: bool, a: Any, b: Any) -> Any:
        # As in Python: comparisons with a NaN are false, but for !=.
        if real:
            compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
            return compare(symbol, a, b)
        return builder.icmp_signed(symbol, a, b)

    return emit


def _invert(builder: Any, real: bool, a: Any) -> Any:
    return builder.not_(a)


def _absolute(builder: Any, real: bool, a: Any) -> Any:
    name = "llvm.fabs" if real else "llvm.abs"
    if real:
        return builder.call(_declare(builder, name, [a.type], a.type), [a])
    function = _declare(builder, name, [a.type, _BIT], a.type)
    return builder.call(function, [a, ir.Constant(_BIT, 0)])


_define(operator.add, 2, lambda b, real, x, y: b.fadd(x, y) if real else b.add(x, y))
_define(operator.sub, 2, lambda b, real, x, y: b.fsub(x, y) if real else b.sub(x, y))
_define(operator.mul, 2, lambda b, real, x, y: b.fmul(x, y) if real else b.mul(x, y))
_define(operator.truediv, 2, lambda b, real, x, y: b.fdiv(x, y))
_define(operator.neg, 1, lambda b, real, x: b.fneg(x) if real else b.neg(x))
_define(abs, 1, _absolute)
_define(operator.and_, 2, lambda b, real, x, y: b.and_(x, y))
_define(operator.or_, 2, lambda b, real, x, y: b.or_(x, y))
_define(operator.xor, 2, lambda b, real, x, y: b.xor(x, y))
_define(operator.invert, 1, _invert)
_define(operator.lshift, 2, lambda b, real, x, y: b.shl(x, y))
_define(operator.rshift, 2, lambda b, real, x, y: b.lshr(x, y))
for _name, _symbol in (
    (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="),
    (operator.eq, "=="), (operator.ne, "!="),
):  # fmt: skip
    _define(_name, 2, _compare(_symbol), to_mask=True)


def _suffix(ty: Any) -> str:
    if isinstance(ty, ir.VectorType):
        return f"v{ty.count}{_suffix(ty.element)}"
    return {"float": "f32", "double": "f64"}.get(str(ty), str(ty))


def _declare(builder: Any, name: str, args: list[Any], result: Any, plain: bool = False) -> Any:
    """Declare an LLVM intrinsic, overloaded on its first argument unless `plain`."""
    full = name if plain else f"{name}.{_suffix(args[0])}"
    module = builder.module
    if full in module.globals:
        return module.globals[full]
    return ir.Function(module, ir.FunctionType(result, args), full)


def _operation(function: Any) -> Any:
    """Make an intrinsic whose literal arguments keep their values in their types."""
    return intrinsic(prefer_literal=True)(function)


def _pointer(context: Any, builder: Any, ty: Any, array: Any, index: Any, target: Any) -> Any:
    """Return the address of element `index` of an array, counted in memory order."""
    data = _data(context, builder, ty, array)
    return builder.bitcast(builder.gep(data, [index]), target.as_pointer())


def _data(context: Any, builder: Any, ty: Any, array: Any) -> Any:
    """Return the address of an array's first element."""
    if isinstance(ty, types.CPointer):
        return array
    return context.make_array(ty)(context, builder, array).data


def _is_flat(array: Any) -> bool:
    flat = isinstance(array, types.CPointer) or (
        isinstance(array, types.Array) and array.layout == "C"
    )
    return flat and array.dtype in _LLVM


@_operation
def pointer(typingctx: Any, array: Any) -> Any:
    """Return the address of a C-contiguous array's data, for all that takes an array here.

    An array in the hands of a function is counted, member of a tuple or not, with an atomic
    instruction at every call; a pointer is not, so whoever makes it keeps the array alive.
    """
    if isinstance(array, types.CPointer):
        return array(array), lambda context, builder, sig, args: args[0]
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _data(context, builder, sig.args[0], args[0])

    return types.CPointer(array.dtype)(array), codegen


@_operation
def pointer_to(typingctx: Any, place: Any, like: Any) -> Any:
    """Return the pointer to numbers of the type of `like` at an address."""
    kind = types.CPointer(types.unliteral(like))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, like), codegen


@_operation
def load(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n elements of a C-contiguous array from flat element `index` on. Nothing is checked."""
    if not (_is_flat(array) and isinstance(n, types.IntegerLiteral)):
        return None
    vec = Vec(array.dtype, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(vec)
        place = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        return builder.load(place, align=context.get_abi_sizeof(llvm.element))

    return vec(array, types.intp, n), codegen


@_operation
def load_ints(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n elements of a float32 array as the int32 whose bits they hold."""
    if not (_is_flat(array) and array.dtype == types.float32):
        return None
    vec = Vec(types.int32, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(vec)
        place = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        return builder.load(place, align=4)

    return vec(array, types.intp, n), codegen


@_operation
def load_bytes(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n bytes of an array, each into a lane of int32."""
    if not (_is_flat(array) and array.dtype == types.uint8):
        return None
    vec = Vec(types.int32, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bytes_ = ir.VectorType(ir.IntType(8), vec.n)
        place = _pointer(context, builder, sig.args[0], args[0], args[1], bytes_)
        return builder.zext(builder.load(place, align=1), context.get_value_type(vec))

    return vec(array, types.intp, n), codegen


@_operation
def lane_numbers(typingctx: Any, n: Any) -> Any:
    """Return the int32 lanes 0, 1, 2 ... n - 1."""
    vec = Vec(types.int32, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(vec), list(range(vec.n)))

    return vec(n), codegen


@_operation
def _mask_of(typingctx: Any, bits: Any, n: Any) -> Any:
    """Return n bits of an integer as a mask, lane 0 from the lowest."""
    vec = Vec(types.boolean, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        small = builder.trunc(args[0], ir.IntType(vec.n))
        return builder.bitcast(small, context.get_value_type(vec))

    return vec(types.int64, n), codegen


@_operation
def shifted(typingctx: Any, array: Any, offset: Any) -> Any:
    """Return the pointer to element `offset` of an array behind a pointer."""
    if not isinstance(array, types.CPointer):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return array(array, types.intp), codegen


@_operation
def load_threes(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n rows of three from flat element `index` on, as three vectors: all x, all y, all z."""
    if not (_is_flat(array) and isinstance(n, types.IntegerLiteral)):
        return None
    vec = Vec(array.dtype, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = ir.VectorType(_LLVM[array.dtype], 3 * vec.n)
        place = _pointer(context, builder, sig.args[0], args[0], args[1], whole)
        rows = builder.load(place, align=context.get_abi_sizeof(whole.element))
        columns = [
            builder.shuffle_vector(rows, rows, _indices(range(axis, 3 * vec.n, 3)))
            for axis in range(3)
        ]
        return context.make_tuple(builder, sig.return_type, columns)

    return types.UniTuple(vec, 3)(array, types.intp, n), codegen


@_operation
def store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Store a vector into a C-contiguous array from flat element `index` on."""
    if not (_is_flat(array) and isinstance(value, Vec) and value.dtype == array.dtype):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(value)
        place = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        builder.store(args[2], place, align=context.get_abi_sizeof(llvm.element))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@_operation
def store_ints(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Store the bits of int32 lanes into a float32 array from flat element `index` on."""
    if not (_is_flat(array) and array.dtype == types.float32 and value.dtype == types.int32):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(value)
        place = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        builder.store(args[2], place, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@_operation
def gather(typingctx: Any, array: Any, index: Any, step: Any, offset: Any) -> Any:
    """Read elements index[k] * step + offset of an array, lane by lane."""
    if not (_is_flat(array) and index.dtype == types.int64):
        return None
    vec = Vec(array.dtype, index.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0])
        result = ir.Constant(context.get_value_type(vec), ir.Undefined)
        for k in range(vec.n):
            at = builder.extract_element(args[1], ir.Constant(_INT, k))
            at = builder.add(builder.mul(at, args[2]), args[3])
            value = builder.load(builder.gep(data, [at]))
            result = builder.insert_element(result, value, ir.Constant(_INT, k))
        return result

    return vec(array, index, types.intp, types.intp), codegen


@_operation
def gather_ints(typingctx: Any, array: Any, index: Any, offset: Any) -> Any:
    """Read elements index[k] + offset of a float32 array as the integers whose bits they hold."""
    if not (_is_flat(array) and array.dtype == types.float32 and index.dtype == types.int64):
        return None
    vec = Vec(types.int64, index.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        result = ir.Constant(context.get_value_type(vec), ir.Undefined)
        for k in range(vec.n):
            at = builder.extract_element(args[1], ir.Constant(_INT, k))
            at = builder.add(at, args[2])
            value = builder.load(_pointer(context, builder, sig.args[0], args[0], at, _INT))
            value = builder.sext(value, _LONG)
            result = builder.insert_element(result, value, ir.Constant(_INT, k))
        return result

    return vec(array, index, types.intp), codegen


@_operation
def peek(typingctx: Any, array: Any, index: Any) -> Any:
    """Read flat element `index` of a C-contiguous array. Nothing is checked."""
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0])
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.intp), codegen


@_operation
def poke(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write flat element `index` of a C-contiguous array."""
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0])
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


@_operation
def address(typingctx: Any, array: Any, index: Any) -> Any:
    """Return the address of flat element `index` of an array as an integer."""
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data(context, builder, sig.args[0], args[0])
        return builder.ptrtoint(builder.gep(data, [args[1]]), _LONG)

    return types.int64(array, types.intp), codegen


@_operation
def prefetch_address(typingctx: Any, place: Any) -> Any:
    """Ask for the cache line at an address, whether there is memory or not."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        name = (
            "llvm.prefetch.p0" if getattr(place.type, "is_opaque", False) else "llvm.prefetch.p0i8"
        )
        function = _declare(
            builder, name, [place.type, _INT, _INT, _INT], ir.VoidType(), plain=True
        )
        builder.call(function, [place, *(ir.Constant(_INT, i) for i in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@_operation
def splat(typingctx: Any, value: Any, n: Any) -> Any:
    """Return a vector with a scalar in all n lanes."""
    scalar = types.unliteral(value)
    if not (scalar in _LLVM and isinstance(n, types.IntegerLiteral)):
        return None
    vec = Vec(scalar, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = args[0]
        if scalar == types.boolean:
            value = builder.trunc(value, _BIT) if value.type != _BIT else value
        return _splat(builder, value, vec.n)

    return vec(scalar, n), codegen


@_operation
def pack(typingctx: Any, values: Any) -> Any:
    """Return a vector of the scalars of a tuple."""
    if not isinstance(values, types.UniTuple) or values.dtype not in _LLVM:
        return None
    vec = Vec(values.dtype, values.count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        result = ir.Constant(context.get_value_type(vec), ir.Undefined)
        for i in range(vec.n):
            lane = builder.extract_value(args[0], i)
            result = builder.insert_element(result, lane, ir.Constant(_INT, i))
        return result

    return vec(values), codegen


@_operation
def lane(typingctx: Any, vector: Any, i: Any) -> Any:
    """Return one lane."""
    if not isinstance(vector, Vec) or vector.dtype == types.boolean:
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return vector.dtype(vector, types.int32), codegen


@_operation
def select(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    """Return the lanes of a where the mask is set, those of b elsewhere."""
    if not (isinstance(mask, Vec) and isinstance(a, Vec) and a == b):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(mask, a, b), codegen


@_operation
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a*b + c, rounded once, of doubles or of lanes (scalars among them are copied)."""
    vecs = [ty for ty in (a, b, c) if isinstance(ty, Vec)]
    kind = vecs[0] if vecs else types.float64
    if any(vec != kind for vec in vecs):
        return None
    operands = [ty if isinstance(ty, Vec) or not vecs else types.unliteral(ty) for ty in (a, b, c)]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if vecs:
            pairs = zip(sig.args, args, strict=True)
            args = [_lanes(context, builder, ty, value, kind) for ty, value in pairs]
        kinds = [arg.type for arg in args]
        return builder.call(_declare(builder, "llvm.fma", kinds, kinds[0]), args)

    return (kind(*operands) if vecs else kind(kind, kind, kind)), codegen


def _extreme(symbol: str) -> Any:
    def build(typingctx: Any, a: Any, b: Any) -> Any:
        if not (isinstance(a, Vec) and a == b):
            return None

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            real = isinstance(a.dtype, types.Float)
            compare = builder.fcmp_ordered if real else builder.icmp_signed
            return builder.select(compare(symbol, *args), *args)

        return a(a, b), codegen

    return build


lesser = _operation(_extreme("<"))
lesser.__doc__ = "Return a where a < b, else b: a NaN on either side gives b. One instruction."
greater = _operation(_extreme(">"))
greater.__doc__ = "Return a where a > b, else b: a NaN on either side gives b. One instruction."


@_operation
def lowest(typingctx: Any, vector: Any) -> Any:
    """Return the smallest lane, of lanes that are not NaN."""
    if not isinstance(vector, Vec):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, n = args[0], vector.n
        while n > 1:
            n //= 2
            halves = [
                builder.shuffle_vector(value, value, _indices(range(begin, begin + n)))
                for begin in (0, n)
            ]
            real = isinstance(vector.dtype, types.Float)
            compare = builder.fcmp_ordered if real else builder.icmp_signed
            value = builder.select(compare("<", *halves), *halves)
        return builder.extract_element(value, ir.Constant(_INT, 0))

    return vector.dtype(vector), codegen


def _indices(lanes: Any) -> Any:
    lanes = list(lanes)
    return ir.Constant(ir.VectorType(_INT, len(lanes)), lanes)


@_operation
def mask_bits(typingctx: Any, mask: Any) -> Any:
    """Return a mask as an integer, lane 0 in the lowest bit."""
    if not (isinstance(mask, Vec) and mask.dtype == types.boolean):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(mask.n)), _LONG)

    return types.int64(mask), codegen


@_operation
def convert(typingctx: Any, vector: Any, like: Any) -> Any:
    """Convert lanes to the type of the scalar `like`, floats rounding to nearest."""
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


@_operation
def as_ints(typingctx: Any, vector: Any) -> Any:
    """Return the bits of floating-point lanes as integers."""
    kind = types.int32 if vector.dtype == types.float32 else types.int64
    result = Vec(kind, vector.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(vector), codegen


@_operation
def as_floats(typingctx: Any, vector: Any) -> Any:
    """Return the floating-point lanes that integers hold the bits of."""
    kind = types.float32 if vector.dtype == types.int32 else types.float64
    result = Vec(kind, vector.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(vector), codegen


def _native_permute(vec: Vec) -> str | None:
    """Return the x86 instruction that permutes 32-bit lanes of this vector."""
    real = vec.dtype == types.float32
    if vec.n == 8 and FEATURES.get("avx2"):
        return "llvm.x86.avx2.permps" if real else "llvm.x86.avx2.permd"
    if vec.n == 16 and FEATURES.get("avx512f"):
        return f"llvm.x86.avx512.permvar.{'sf' if real else 'si'}.512"
    return None


@_operation
def permute(typingctx: Any, vector: Any, order: Any) -> Any:
    """Return lane order[k] of the vector in lane k; only the low bits of an index count."""
    if not (isinstance(vector, Vec) and order == Vec(types.int32, vector.n)):
        return None
    native = _native_permute(vector)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, order = args
        if native is not None:
            function = _declare(builder, native, [value.type, order.type], value.type, plain=True)
            return builder.call(function, args)
        result = ir.Constant(value.type, ir.Undefined)
        for k in range(vector.n):
            at = builder.and_(
                builder.extract_element(order, ir.Constant(_INT, k)),
                ir.Constant(_INT, vector.n - 1),
            )
            picked = builder.extract_element(value, at)
            result = builder.insert_element(result, picked, ir.Constant(_INT, k))
        return result

    return vector(vector, order), codegen


@_operation
def cycles(typingctx: Any) -> Any:
    """Return the CPU's own clock, in ticks of no stated length; 0 where it cannot be read."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = "llvm.readcyclecounter"
        module = builder.module
        function = module.globals.get(name) or ir.Function(module, ir.FunctionType(_LONG, []), name)
        return builder.call(function, [])

    return types.int64(), codegen


def _count_bits(name: str) -> Any:
    def build(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            args = [args[0]] + ([] if name == "llvm.ctpop" else [ir.Constant(_BIT, 0)])
            function = _declare(builder, name, [a.type for a in args], _LONG)
            count = builder.call(function, args)
            if name == "llvm.ctlz":
                return builder.sub(ir.Constant(_LONG, 63), count)
            return count

        return types.int64(types.int64), codegen

    return build


popcount = _operation(_count_bits("llvm.ctpop"))
popcount.__doc__ = "Return the number of set bits."
lowest_bit = _operation(_count_bits("llvm.cttz"))
lowest_bit.__doc__ = "Return the place of the lowest set bit; 64 for 0."
highest_bit = _operation(_count_bits("llvm.ctlz"))
highest_bit.__doc__ = "Return the place of the highest set bit; -1 for 0."


def compress_orders(n: int) -> NDArray[np.int32]:
    """Return for each mask of n lanes the permutation that moves its lanes to the front."""
    rows = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    return np.ascontiguousarray(np.argsort(1 - rows, axis=1, kind="stable").astype(np.int32))


@_operation
def _compress(typingctx: Any, vector: Any, mask: Any) -> Any:
    """Move the lanes of a mask to the front, by LLVM's own operation."""
    if not (isinstance(vector, Vec) and mask == Vec(types.boolean, vector.n)):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, mask = args
        name = f"llvm.experimental.vector.compress.{_suffix(value.type)}"
        types_in = [value.type, mask.type, value.type]
        function = _declare(builder, name, types_in, value.type, plain=True)
        return builder.call(function, [value, mask, ir.Constant(value.type, ir.Undefined)])

    return vector(vector, mask), codegen


if WIDTH <= 8:
    COMPRESS_ORDERS = compress_orders(WIDTH).astype(np.uint8).ravel()

    @inlined
    def compress_order(bits):
        """Return the permutation that moves the lanes of a mask, given as bits, to the front."""
        return load_bytes(COMPRESS_ORDERS, bits * WIDTH, WIDTH)

else:

    @inlined
    def compress_order(bits):
        """Return the permutation that moves the lanes of a mask, given as bits, to the front."""
        return _compress(lane_numbers(WIDTH), _mask_of(bits, WIDTH))


@_operation
def poke_int(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write the bits of an int32 into flat element `index` of a float32 array."""
    if not (_is_flat(array) and array.dtype == types.float32):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _pointer(context, builder, sig.args[0], args[0], args[1], _INT)
        builder.store(args[2], place)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int32), codegen


@_operation
def peek_int(typingctx: Any, array: Any, index: Any) -> Any:
    """Read flat element `index` of a float32 array as the int32 whose bits it holds."""
    if not (_is_flat(array) and array.dtype == types.float32):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], args[0], args[1], _INT))

    return types.int32(array, types.intp), codegen
