"""Loads and stores of scalars and vectors through arrays and pointers. Nothing is checked."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from bvh.runtime.jit import literal_operation, types
from bvh.runtime.simd.vectors import INT, LLVM, LONG, Vec, declare, indices


def _data_of(context: Any, builder: Any, ty: Any, array: Any) -> Any:
    """Return the address of an array's first element."""
    if isinstance(ty, types.CPointer):
        return array
    return context.make_array(ty)(context, builder, array).data


def _pointer(context: Any, builder: Any, ty: Any, array: Any, index: Any, target: Any) -> Any:
    """Return the address of element `index` of an array, counted in memory order."""
    data = _data_of(context, builder, ty, array)
    return builder.bitcast(builder.gep(data, [index]), target.as_pointer())


def _is_flat(array: Any) -> bool:
    flat = isinstance(array, types.CPointer) or (
        isinstance(array, types.Array) and array.layout == "C"
    )
    return flat and array.dtype in LLVM


@literal_operation
def pointer(typingctx: Any, array: Any) -> Any:
    """Return the pointer to a C-contiguous array's data, for all that takes an array here.

    References to an array are counted at every call, with an atomic instruction; those of a pointer
    are not, so the caller keeps the array alive.
    """
    if isinstance(array, types.CPointer):
        return array(array), lambda context, builder, sig, args: args[0]
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _data_of(context, builder, sig.args[0], args[0])

    return types.CPointer(array.dtype)(array), codegen


@literal_operation
def pointer_to(typingctx: Any, target: Any, like: Any) -> Any:
    """Return the pointer to numbers of the type of `like` at an address."""
    kind = types.CPointer(types.unliteral(like))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, like), codegen


@literal_operation
def shifted(typingctx: Any, array: Any, offset: Any) -> Any:
    """Return the pointer to element `offset` of an array behind a pointer."""
    if not isinstance(array, types.CPointer):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return array(array, types.intp), codegen


@literal_operation
def address(typingctx: Any, array: Any, index: Any) -> Any:
    """Return the address of flat element `index` of an array as an integer."""
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data_of(context, builder, sig.args[0], args[0])
        return builder.ptrtoint(builder.gep(data, [args[1]]), LONG)

    return types.int64(array, types.intp), codegen


@literal_operation
def prefetch_address(typingctx: Any, target: Any) -> Any:
    """Prefetch the cache line at an address, whether there is memory or not."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        name = (
            "llvm.prefetch.p0" if getattr(target.type, "is_opaque", False) else "llvm.prefetch.p0i8"
        )
        function = declare(builder, name, [target.type, INT, INT, INT], ir.VoidType(), plain=True)
        builder.call(function, [target, *(ir.Constant(INT, i) for i in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@literal_operation
def peek(typingctx: Any, array: Any, index: Any) -> Any:
    """Read flat element `index` of a C-contiguous array. Nothing is checked."""
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data_of(context, builder, sig.args[0], args[0])
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.intp), codegen


@literal_operation
def poke(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write flat element `index` of a C-contiguous array."""
    if not _is_flat(array):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data_of(context, builder, sig.args[0], args[0])
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


@literal_operation
def peek_int(typingctx: Any, array: Any, index: Any) -> Any:
    """Read flat element `index` of a float32 array as the int32 whose bits it holds."""
    if not (_is_flat(array) and array.dtype == types.float32):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], args[0], args[1], INT))

    return types.int32(array, types.intp), codegen


@literal_operation
def poke_int(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write the bits of an int32 into flat element `index` of a float32 array."""
    if not (_is_flat(array) and array.dtype == types.float32):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = _pointer(context, builder, sig.args[0], args[0], args[1], INT)
        builder.store(args[2], target)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int32), codegen


@literal_operation
def load(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n elements of a C-contiguous array from flat element `index` on. Nothing is checked."""
    if not (_is_flat(array) and isinstance(n, types.IntegerLiteral)):
        return None
    vec = Vec(array.dtype, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(vec)
        target = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        return builder.load(target, align=context.get_abi_sizeof(llvm.element))

    return vec(array, types.intp, n), codegen


@literal_operation
def load_ints(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n elements of a float32 array as the int32 whose bits they hold."""
    if not (_is_flat(array) and array.dtype == types.float32):
        return None
    vec = Vec(types.int32, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(vec)
        target = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        return builder.load(target, align=4)

    return vec(array, types.intp, n), codegen


@literal_operation
def load_bytes(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n bytes of an array, each into a lane of int32."""
    if not (_is_flat(array) and array.dtype == types.uint8):
        return None
    vec = Vec(types.int32, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bytes_ = ir.VectorType(ir.IntType(8), vec.n)
        target = _pointer(context, builder, sig.args[0], args[0], args[1], bytes_)
        return builder.zext(builder.load(target, align=1), context.get_value_type(vec))

    return vec(array, types.intp, n), codegen


@literal_operation
def load_threes(typingctx: Any, array: Any, index: Any, n: Any) -> Any:
    """Load n rows of three from flat element `index` on, as three vectors: all x, all y, all z."""
    if not (_is_flat(array) and isinstance(n, types.IntegerLiteral)):
        return None
    vec = Vec(array.dtype, n.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = ir.VectorType(LLVM[array.dtype], 3 * vec.n)
        target = _pointer(context, builder, sig.args[0], args[0], args[1], whole)
        rows = builder.load(target, align=context.get_abi_sizeof(whole.element))
        columns = [
            builder.shuffle_vector(rows, rows, indices(range(axis, 3 * vec.n, 3)))
            for axis in range(3)
        ]
        return context.make_tuple(builder, sig.return_type, columns)

    return types.UniTuple(vec, 3)(array, types.intp, n), codegen


@literal_operation
def store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Store a vector, or a scalar, into a C-contiguous array from flat element `index` on.

    Doubles are rounded to the float32 of an array.
    """
    dtype = getattr(value, "dtype", value)
    rounds = dtype == types.float64 and array.dtype == types.float32
    if not (_is_flat(array) and (dtype == array.dtype or rounds)):
        return None
    kind = Vec(array.dtype, value.n) if isinstance(value, Vec) else array.dtype

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(kind)
        target = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        stored = builder.fptrunc(args[2], llvm) if rounds else args[2]
        builder.store(stored, target, align=context.get_abi_sizeof(getattr(llvm, "element", llvm)))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@literal_operation
def store_ints(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Store the low bits of integers as int32 into a float32 array from flat element `index` on.

    They may be lanes or a scalar.
    """
    value = types.unliteral(value)
    dtype = getattr(value, "dtype", value)
    if not (_is_flat(array) and array.dtype == types.float32 and isinstance(dtype, types.Integer)):
        return None
    kind = Vec(types.int32, value.n) if isinstance(value, Vec) else types.int32

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        llvm = context.get_value_type(kind)
        target = _pointer(context, builder, sig.args[0], args[0], args[1], llvm)
        stored = args[2] if dtype == types.int32 else builder.trunc(args[2], llvm)
        builder.store(stored, target, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@literal_operation
def gather(typingctx: Any, array: Any, index: Any, step: Any, offset: Any) -> Any:
    """Read elements index[k] * step + offset of an array, lane by lane."""
    if not (_is_flat(array) and index.dtype == types.int64):
        return None
    vec = Vec(array.dtype, index.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data_of(context, builder, sig.args[0], args[0])
        result = ir.Constant(context.get_value_type(vec), ir.Undefined)
        for k in range(vec.n):
            at = builder.extract_element(args[1], ir.Constant(INT, k))
            at = builder.add(builder.mul(at, args[2]), args[3])
            value = builder.load(builder.gep(data, [at]))
            result = builder.insert_element(result, value, ir.Constant(INT, k))
        return result

    return vec(array, index, types.intp, types.intp), codegen


@literal_operation
def gather_ints(typingctx: Any, array: Any, index: Any, offset: Any) -> Any:
    """Read elements index[k] + offset of a float32 array as the integers whose bits they hold."""
    if not (_is_flat(array) and array.dtype == types.float32 and index.dtype == types.int64):
        return None
    vec = Vec(types.int64, index.n)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        result = ir.Constant(context.get_value_type(vec), ir.Undefined)
        for k in range(vec.n):
            at = builder.extract_element(args[1], ir.Constant(INT, k))
            at = builder.add(at, args[2])
            value = builder.load(_pointer(context, builder, sig.args[0], args[0], at, INT))
            value = builder.sext(value, LONG)
            result = builder.insert_element(result, value, ir.Constant(INT, k))
        return result

    return vec(array, index, types.intp), codegen
