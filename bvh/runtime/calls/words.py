"""Kernels as C functions of one address: arguments and results are words of 8 bytes in memory.

| words | contents |
|---|---|
| `STATUS` | 0, or the status of a kernel that has raised: only users' functions do |
| `ERROR` | the address of Numba's description of that exception |
| from `RESULTS` on | results, one word each |
| then | arguments, with nested tuples flattened |

An array in C order is the address of its data and its shape; any other array also has its strides.
A number is its bits, a truth 0 or 1; None and functions take no room. No reference is counted, so
that the caller keeps arrays alive.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bvh.runtime.compiler.code_types import Builder, Context, Type, Value
from bvh.runtime.compiler.lazy_modules import cgutils, ir, numpy_support, types
from bvh.runtime.jit import called_by_numba, compiled_call, inlined, llvm_operation

STATUS, ERROR, RESULTS = range(3)


def is_stored(kind: Type, in_order: bool = True) -> bool:
    """Return whether words hold arguments of a type: arrays, numbers, functions, None, tuples.

    With `in_order`, arrays must be of numbers or booleans, aligned, and in C order.
    """
    if isinstance(kind, types.BaseTuple):
        return all(is_stored(part, in_order) for part in kind)
    if type(kind) is types.Array:
        if not in_order:
            return bool(kind.dtype != types.pyobject)
        is_plain = kind.layout == "C" and kind.aligned
        return is_plain and isinstance(kind.dtype, types.Number | types.Boolean)
    numbers = types.Integer | types.Float | types.Complex | types.Boolean
    return isinstance(kind, numbers | types.NoneType | types.Dispatcher | types.TypeRef)


def canonical(kind: Type) -> Type:
    """Return the type that kernels are compiled for: writable arrays, no values of constants."""
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types(
            tuple(map(canonical, kind)), getattr(kind, "instance_class", None)
        )
    if type(kind) is types.Array:
        return types.Array(kind.dtype, kind.ndim, kind.layout)
    return types.unliteral(kind)


def read(context: Context, builder: Builder, kind: Type, at: Value) -> tuple[Value, Value]:
    """Write code that reads a value of type `kind` from words; return (value, address of the next).

    `at` is the address of its first word. Its arrays own no memory.
    """

    def word(i: int) -> Value:
        return builder.gep(at, [ir.IntType(64)(i)])

    if isinstance(kind, types.BaseTuple):
        parts = []
        for part in kind:
            value, at = read(context, builder, part, at)
            parts.append(value)
        return context.make_tuple(builder, kind, parts), at
    if isinstance(kind, types.Array):
        # A large part of Numba, imported only when a kernel is compiled.
        from numba.np import arrayobj

        array = context.make_array(kind)(context, builder)
        size = ir.IntType(64)(numpy_support.as_dtype(kind.dtype).itemsize)
        shape = [builder.load(word(1 + i)) for i in range(kind.ndim)]
        count = 1 + kind.ndim
        if kind.layout == "C":
            strides = [size]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], length))
        else:
            strides = [builder.load(word(count + i)) for i in range(kind.ndim)]
            count += kind.ndim
        # An array without axes has no strides, but `size` is in the list.
        arrayobj.populate_array(
            array, data=builder.inttoptr(builder.load(at), array.data.type), shape=shape,
            strides=strides[: kind.ndim], itemsize=size, meminfo=None,
        )  # fmt: skip
        return array._getvalue(), word(count)
    if isinstance(kind, types.NoneType | types.Dispatcher | types.TypeRef):
        return context.get_dummy_value(), at
    stored = context.get_data_type(kind).as_pointer()
    value = context.unpack_value(builder, kind, builder.bitcast(at, stored))
    return value, word(-(-numpy_support.as_dtype(kind).itemsize // 8))


def _bits(builder: Builder, kind: Type, value: Value) -> Value:
    """Return a result of type `kind` as a word: the bits of a float; other numbers, extended."""
    if isinstance(kind, types.Float):
        value = builder.bitcast(value, ir.IntType(kind.bitwidth))
    extend = builder.sext if getattr(kind, "signed", False) else builder.zext
    return extend(value, ir.IntType(64))


def kernel_of_words(function: Callable[..., Any], kinds: tuple[Type, ...]) -> Any:
    """Return a kernel (address of words) that calls a function with arguments of types `kinds`."""
    helper = inlined(function)

    @llvm_operation
    def call(typingctx, words):
        # Compiled here, because this is not called if the kernel is loaded from the cache.
        helper.compile(kinds)
        result = helper.overloads[kinds]

        def codegen(context, builder, sig, args):
            at = builder.inttoptr(args[0], ir.IntType(64).as_pointer())

            def place(i):
                return builder.gep(at, [ir.IntType(64)(i)])

            results = member_types(result.signature.return_type)
            begin, values = place(RESULTS + len(results)), []
            for kind in kinds:
                value, begin = read(context, builder, kind, begin)
                values.append(value)
            # Words cannot hold such results: `Entry._compiled` rejects the kernel by their type.
            if not is_returned(result.signature.return_type):
                return context.get_dummy_value()
            context.add_linking_libs([result.library])
            status, found = context.call_internal_no_propagate(
                builder, result.fndesc, result.signature, values
            )
            with cgutils.if_unlikely(builder, status.is_error):
                builder.store(builder.ptrtoint(status.excinfoptr, ir.IntType(64)), place(ERROR))
            code = builder.select(status.is_error, status.code, ir.Constant(status.code.type, 0))
            builder.store(builder.sext(code, ir.IntType(64)), place(STATUS))
            parts = [found]
            if isinstance(result.signature.return_type, types.BaseTuple):
                parts = cgutils.unpack_tuple(builder, found)
            for i, kind in enumerate(results):
                builder.store(_bits(builder, kind, parts[i]), place(RESULTS + i))
            return context.get_dummy_value()

        return types.TypeRef(result.signature.return_type)(types.int64), codegen

    def run(words):
        # A `TypeRef`, which has no value but tells the type of the results, also in a kernel loaded
        # from the cache.
        return call(words)

    return compiled_call(run, function, kinds)


@llvm_operation
def _propagate(typingctx, status, error):
    """Leave the calling function as one that has raised, with the words `STATUS` and `ERROR`."""

    def codegen(context, builder, sig, args):
        convention = context.call_conv
        exception_type = convention._get_excinfo_argument(builder.function).type.pointee
        raised = convention._get_return_status(
            builder,
            builder.trunc(args[0], ir.IntType(32)),
            builder.inttoptr(args[1], exception_type),
        )
        with builder.if_then(raised.is_error):
            convention.return_status_propagate(builder, raised)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@called_by_numba
def raise_error(status, error):
    """Raise the exception that a kernel has described by its words `STATUS` and `ERROR`."""
    _propagate(status, error)


def is_returned(result: Type) -> bool:
    """Return whether words hold a result: None, numbers and truths, or a tuple of them."""
    numbers = types.Integer | types.Float | types.Boolean
    return all(isinstance(kind, numbers) for kind in member_types(result))


def member_types(result: Type) -> list[Type]:
    """Return the types of a tuple's members; for another type itself, and for None no type."""
    if isinstance(result, types.BaseTuple):
        return list(result.types)
    return [] if isinstance(result, types.NoneType) else [result]


PLAIN = {bool: "b1", int: "i8", float: "f8"}
# Begins the structure of what words of entries do not hold: of an array that is not in C order,
# aligned and in the machine's byte order; of a number of a subclass of int, float or complex.
OTHER = "other "


def structure_of(value: Any) -> str:
    """Return the structure of a value: a text, the same for all arguments that one kernel takes.

    It is "f8[2]" for a float64 array with two axes, "(f8[2],i8)" for a pair of it and an integer.
    """
    if isinstance(value, tuple):
        name = "" if type(value) is tuple else type(value).__name__
        return f"{name}({','.join(map(structure_of, value))})"
    if isinstance(value, np.ndarray):
        plain = value.flags.c_contiguous and value.flags.aligned and value.dtype.isnative
        return f"{'' if plain else OTHER}{value.dtype.str[1:]}[{value.ndim}]"
    if type(value) in PLAIN:
        return PLAIN[type(value)]
    if isinstance(value, np.generic) and value.itemsize <= 8:
        return value.dtype.str[1:]
    # Such as members of enumerations: programs would take them for objects, which have no words.
    if isinstance(value, int | float | complex | np.generic):
        return f"{OTHER}{type(value).__name__}"
    return "none" if value is None else f"object {id(value)}"


# Kinds of objects, for the steps of programs that take arguments apart.
TUPLE, ARRAY, INTEGER, FLOAT, TRUTH, SCALAR, OBJECT = range(7)
TYPES = {"i8": INTEGER, "f8": FLOAT, "b1": TRUTH}


def program_of(value: Any) -> Iterator[tuple[int, Any, int]]:
    """Yield the steps (operation, object, number) of a program that reads arguments like `value`.

    A step compares one part with the object, and reads it; tuples come before their items.

    | operation | object | number |
    |---|---|---|
    | TUPLE | its class; a plain tuple fits, too | its size |
    | ARRAY | its dtype; for uint8, bool fits, too | its dimensions |
    | INTEGER, FLOAT, TRUTH | - | - |
    | SCALAR | its type, of numpy | its bytes |
    | OBJECT | the object itself, such as None or a function | - |
    """
    if isinstance(value, tuple):
        yield TUPLE, type(value), len(value)
        for part in value:
            yield from program_of(part)
    elif isinstance(value, np.ndarray):
        yield ARRAY, value.dtype, value.ndim
    elif (structure := structure_of(value)) in TYPES:
        yield TYPES[structure], None, 0
    elif isinstance(value, np.generic):
        yield SCALAR, type(value), value.itemsize
    else:
        yield OBJECT, value, 0


def words_of(value: Any) -> bytes:
    """Return the words of an argument, as bytes; none for None and functions."""
    if isinstance(value, tuple):
        return b"".join(map(words_of, value))
    if isinstance(value, np.ndarray):
        strides = () if value.flags.c_contiguous else value.strides
        return np.array((value.ctypes.data, *value.shape, *strides), np.int64).tobytes()
    if not isinstance(value, int | float | complex | np.generic):
        return b""
    # With None as the type, some systems would make integers of 32 bits.
    is_long = type(value) is int and abs(value) < 2**63
    number = np.array(value, np.int64 if is_long else None).tobytes()
    return number + bytes(-len(number) % 8)
