"""Loads and stores of scalars and vectors through arrays and pointers. Nothing is checked.

Arrays are C-contiguous, and an index counts their elements. Where a float32 array holds the bits of
integers, these are int32.
"""

from llvmlite import ir
from numba import types

from bvh.runtime.compiler.code_types import (
    Builder,
    Context,
    Signature,
    Type,
    TypedCode,
    Value,
    Values,
)
from bvh.runtime.jit import emits, literal_operation
from bvh.runtime.simd.vectors import INT, LLVM, LONG, Vec, declare, indices


def _data_of(context: Context, builder: Builder, kind: Type, array: Value) -> Value:
    """Return the address of the first element of an array, or pointer, of a type."""
    if isinstance(kind, types.CPointer):
        return array
    if kind.layout != "C":
        raise TypeError(f"{kind} is not C-contiguous")
    return context.make_array(kind)(context, builder, array).data


def _element(
    context: Context, builder: Builder, sig: Signature, args: Values, to: ir.Type | None = None
) -> Value:
    """Return the pointer to element args[1] of the array args[0], cast to an LLVM type if given."""
    place = builder.gep(_data_of(context, builder, sig.args[0], args[0]), [args[1]])
    return place if to is None else builder.bitcast(place, to.as_pointer())


@literal_operation
def pointer(typingctx, array):
    """Return the pointer to an array's data, which operations take in its place."""
    # References to an array are counted at every call, with an atomic instruction; those of a
    # pointer are not, so the caller keeps the array alive.

    def codegen(context, builder, sig, args):
        return _data_of(context, builder, sig.args[0], args[0])

    return types.CPointer(array.dtype)(array), codegen


@literal_operation
def pointer_to(typingctx, target, like):
    """Return the address `target`, an integer, as a pointer to numbers of the type of `like`."""
    kind = types.CPointer(types.unliteral(like))

    def codegen(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, like), codegen


@literal_operation
def shifted(typingctx, array, offset):
    """Return a pointer moved on by `offset` elements."""
    return array(array, types.intp), emits(lambda b, array, offset: b.gep(array, [offset]))


@literal_operation
def address(typingctx, array, index):
    """Return the address of the element at an index of an array, as an integer."""

    def codegen(context, builder, sig, args):
        return builder.ptrtoint(_element(context, builder, sig, args), LONG)

    return types.int64(array, types.intp), codegen


@literal_operation
def prefetch_address(typingctx, target):
    """Prefetch the cache line at an address, whether there is memory or not."""

    def codegen(context, builder, sig, args):
        target = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        kinds = [target.type, INT, INT, INT]
        function = declare(builder, "llvm.prefetch.p0", kinds, ir.VoidType(), plain=True)
        # To read; keep in all levels of the cache; data, not instructions.
        builder.call(function, [target, *(ir.Constant(INT, i) for i in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


def reading(array: Type, dtype: Type) -> TypedCode:
    """Return the operation (array, index) that reads an element as a number of a type."""
    llvm = None if array.dtype == dtype else LLVM[dtype]

    def codegen(context, builder, sig, args):
        return builder.load(_element(context, builder, sig, args, llvm))

    return dtype(array, types.intp), codegen


def writing(array: Type, dtype: Type) -> TypedCode:
    """Return the operation (array, index, value) that writes an element as a number of a type."""
    llvm = None if array.dtype == dtype else LLVM[dtype]

    def codegen(context, builder, sig, args):
        builder.store(args[2], _element(context, builder, sig, args, llvm))
        return context.get_dummy_value()

    return types.void(array, types.intp, dtype), codegen


@literal_operation
def peek(typingctx, array, index):
    """Return the element at an index of an array or pointer."""
    return reading(array, array.dtype)


@literal_operation
def poke(typingctx, array, index, value):
    """Set the element at an index of an array or pointer to a value."""
    return writing(array, array.dtype)


@literal_operation
def claim(typingctx, array, index):
    """Add 1 to element `index` of an int64 array, atomically; return what it was before."""

    def codegen(context, builder, sig, args):
        place = _element(context, builder, sig, args)
        return builder.atomic_rmw("add", place, ir.Constant(LONG, 1), "monotonic")

    return types.int64(array, types.intp), codegen


@literal_operation
def peek_int(typingctx, array, index):
    """Read an element of a float32 array as the int32 whose bits it holds."""
    return reading(array, types.int32) if array.dtype == types.float32 else None


def loading(array: Type, n: Type, lane: Type) -> TypedCode:
    """Return the operation (array, index, n) that loads n elements as lanes of the type `lane`."""
    vec = Vec(lane, n.literal_value)

    def codegen(context, builder, sig, args):
        place = _element(context, builder, sig, args, vec.llvm)
        return builder.load(place, align=context.get_abi_sizeof(vec.llvm.element))

    return vec(array, types.intp, n), codegen


@literal_operation
def load(typingctx, array, index, n):
    """Return n elements of an array, from an index on, as a vector."""
    return loading(array, n, array.dtype)


@literal_operation
def load_bytes(typingctx, array, index, n):
    """Load n bytes of an array from an index on, each into a lane of int32."""
    vec = Vec(types.int32, n.literal_value)

    def codegen(context, builder, sig, args):
        place = _element(context, builder, sig, args, ir.VectorType(ir.IntType(8), vec.n))
        return builder.zext(builder.load(place, align=1), vec.llvm)

    return vec(array, types.intp, n), codegen


@literal_operation
def load_threes(typingctx, array, index, n):
    """Load n rows of three from an index on, as three vectors: all x, all y, all z."""
    vec = Vec(array.dtype, n.literal_value)

    def codegen(context, builder, sig, args):
        rows_type = ir.VectorType(LLVM[array.dtype], 3 * vec.n)
        place = _element(context, builder, sig, args, rows_type)
        rows = builder.load(place, align=context.get_abi_sizeof(rows_type.element))
        columns = [
            builder.shuffle_vector(rows, rows, indices(range(axis, 3 * vec.n, 3)))
            for axis in range(3)
        ]
        return context.make_tuple(builder, sig.return_type, columns)

    return types.UniTuple(vec, 3)(array, types.intp, n), codegen


@literal_operation
def load_fours(typingctx, array, index, n):
    """Load n rows of four from an index on, as four vectors: all x, all y, all z, all w."""
    vec = Vec(array.dtype, n.literal_value)
    _, load_part = loading(array, n, array.dtype)

    def codegen(context, builder, sig, args):
        parts = []
        for k in range(4):
            at = builder.add(args[1], ir.Constant(LONG, k * vec.n))
            parts.append(load_part(context, builder, sig, [args[0], at]))
        # Every second lane of each two parts, twice: shuffles that CPUs have instructions for.
        for _ in range(2):
            parts = [
                builder.shuffle_vector(a, b, indices(range(begin, 2 * vec.n, 2)))
                for begin in (0, 1)
                for a, b in (parts[:2], parts[2:])
            ]
        return context.make_tuple(builder, sig.return_type, parts)

    return types.UniTuple(vec, 4)(array, types.intp, n), codegen


def storing(array: Type, value: Type, lane: Type) -> TypedCode:
    """Return the operation (array, index, value) that stores lanes, or a scalar, as `lane`."""
    llvm = Vec(lane, value.n).llvm if isinstance(value, Vec) else LLVM[lane]
    # How to narrow a value, by its type. Where `lane` is float64, None replaces "fptrunc".
    narrow = {types.float64: "fptrunc", lane: None}.get(getattr(value, "dtype", value), "trunc")

    def codegen(context, builder, sig, args):
        place = _element(context, builder, sig, args, llvm)
        stored = getattr(builder, narrow)(args[2], llvm) if narrow else args[2]
        builder.store(stored, place, align=context.get_abi_sizeof(getattr(llvm, "element", llvm)))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@literal_operation
def store(typingctx, array, index, value):
    """Store a vector, or a scalar, from an index on; doubles are rounded to an array's float32."""
    dtype = getattr(value, "dtype", value)
    rounds = dtype == types.float64 and array.dtype == types.float32
    return storing(array, value, array.dtype) if dtype == array.dtype or rounds else None


@literal_operation
def store_ints(typingctx, array, index, value):
    """Store the low bits of integers, lanes or a scalar, as int32 into a float32 array."""
    value = types.unliteral(value)
    is_integer = isinstance(getattr(value, "dtype", value), types.Integer)
    fits = is_integer and array.dtype == types.float32
    return storing(array, value, types.int32) if fits else None


@literal_operation
def gather(typingctx, array, index, step, offset):
    """Return a vector whose lane k is element index[k] * step + offset of an array."""
    vec = Vec(array.dtype, index.n)

    def codegen(context, builder, sig, args):
        data = _data_of(context, builder, sig.args[0], args[0])
        result = ir.Constant(vec.llvm, ir.Undefined)
        for k in range(vec.n):
            at = builder.extract_element(args[1], ir.Constant(INT, k))
            at = builder.add(builder.mul(at, args[2]), args[3])
            value = builder.load(builder.gep(data, [at]))
            result = builder.insert_element(result, value, ir.Constant(INT, k))
        return result

    return vec(array, Vec(types.int64, vec.n), types.intp, types.intp), codegen


@literal_operation
def gather_threes(typingctx, array, row):
    """Return three vectors; lanes k are the numbers in row row[k] of an array of rows of three."""
    vec = Vec(array.dtype, row.n)
    kind = types.UniTuple(vec, 3)

    def codegen(context, builder, sig, args):
        data = _data_of(context, builder, sig.args[0], args[0])
        pair = ir.VectorType(vec.llvm.element, 2)
        pairs, last = [], ir.Constant(vec.llvm, ir.Undefined)
        # The first two numbers of each row are loaded as a pair; the pairs are then joined to one
        # vector, whose even lanes are the first column and odd ones the second.
        for k in range(vec.n):
            at = builder.extract_element(args[1], ir.Constant(INT, k))
            at = builder.gep(data, [builder.mul(at, ir.Constant(LONG, 3))])
            place = builder.bitcast(at, pair.as_pointer())
            pairs.append(builder.load(place, align=context.get_abi_sizeof(pair.element)))
            value = builder.load(builder.gep(at, [ir.Constant(LONG, 2)]))
            last = builder.insert_element(last, value, ir.Constant(INT, k))
        while len(pairs) > 1:
            lanes = indices(range(2 * pairs[0].type.count))
            couples = zip(pairs[::2], pairs[1::2], strict=True)
            pairs = [builder.shuffle_vector(a, b, lanes) for a, b in couples]
        columns = [
            builder.shuffle_vector(pairs[0], pairs[0], indices(range(axis, 2 * vec.n, 2)))
            for axis in range(2)
        ]
        return context.make_tuple(builder, kind, [*columns, last])

    return kind(array, Vec(types.int64, vec.n)), codegen
