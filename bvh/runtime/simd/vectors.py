"""Types of kernels: vectors, with their operators, and references.

+ - * on lanes, / on floats, < <= > >= == != giving a mask, & | ^ ~ on masks and integers, << and >>
(logical) on integers, by less than their bits, unary minus and abs. One operand may be a scalar: it
is converted to the lanes' type and copied into all of them. As in numpy, comparisons with a NaN are
false, except !=, and integers wrap around.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

from llvmlite import ir
from numba import extending, types
from numba.core.typing import templates

from bvh.runtime.compiler.code_types import Builder, Context, Signature, Type, Value, Values

INT, LONG, BIT = ir.IntType(32), ir.IntType(64), ir.IntType(1)
LLVM = {
    types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int32: INT,
    types.int64: LONG, types.boolean: BIT, types.uint8: ir.IntType(8),
    types.int16: ir.IntType(16),
}  # fmt: skip


class Vec(types.Type):
    """`n` lanes of float32, float64, int16, int32, int64, or of booleans (a mask)."""

    def __init__(self, dtype: types.Type, n: int) -> None:
        self.dtype, self.n = dtype, n
        super().__init__(name=f"Vec({dtype}, {n})")

    @property
    def llvm(self) -> ir.VectorType:
        return ir.VectorType(LLVM[self.dtype], self.n)


@extending.register_model(Vec)
class _VecModel(extending.models.PrimitiveModel):
    def __init__(self, manager: extending.models.DataModelManager, kind: Vec) -> None:
        super().__init__(manager, kind, kind.llvm)


class Reference(types.Type):
    """The address of a tuple in the memory of a function that is still running."""

    def __init__(self, target: Type) -> None:
        self.target = target
        super().__init__(name=f"Reference({target})")


@extending.register_model(Reference)
class _ReferenceModel(extending.models.PrimitiveModel):
    def __init__(self, manager: extending.models.DataModelManager, kind: Reference) -> None:
        pointer = manager.lookup(kind.target).get_value_type().as_pointer()
        super().__init__(manager, kind, pointer)


def suffix_of(ty: ir.Type) -> str:
    """Return the suffix of LLVM's intrinsics for a type, such as "v8f32"."""
    if isinstance(ty, ir.VectorType):
        return f"v{ty.count}{suffix_of(ty.element)}"
    return {"float": "f32", "double": "f64"}.get(str(ty), str(ty))


def declare(
    builder: Builder, name: str, args: list[ir.Type], result: ir.Type, plain: bool = False
) -> ir.Function:
    """Declare an LLVM intrinsic; unless `plain`, add the type of its first argument to the name."""
    full = name if plain else f"{name}.{suffix_of(args[0])}"
    module = builder.module
    if full in module.globals:
        return module.globals[full]
    return ir.Function(module, ir.FunctionType(result, args), full)


def call(builder: Builder, name: str, args: Values, plain: bool = False) -> Value:
    """Call an LLVM intrinsic (see `declare`) whose result has the type of its first argument."""
    kinds = [arg.type for arg in args]
    return builder.call(declare(builder, name, kinds, kinds[0], plain), args)


def indices(lanes: Iterable[int]) -> ir.Constant:
    """Return the numbers of lanes as the constant by which `shuffle_vector` picks them."""
    lanes = list(lanes)
    return ir.Constant(ir.VectorType(INT, len(lanes)), lanes)


def spread(builder: Builder, value: Value, n: int) -> Value:
    """Return a vector with the scalar `value` in all of n lanes."""
    start = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
    one = builder.insert_element(start, value, ir.Constant(INT, 0))
    return builder.shuffle_vector(one, start, indices([0] * n))


def result_type(*args: Type) -> Type | None:
    """Return the type of the operands: of the vectors if there are any; None if types differ."""
    if any(isinstance(ty, Vec) for ty in args):
        return _vec_of(args)
    kinds = {types.unliteral(ty) for ty in args}
    return kinds.pop() if len(kinds) == 1 and kinds <= set(LLVM) else None


def operands(
    context: Context, builder: Builder, kinds: Sequence[Type], values: Values, result: Type
) -> list[Value]:
    """Return the values of operands of types `kinds`; scalars are copied into lanes of `result`."""
    if not isinstance(result, Vec):
        return list(values)
    return [
        value
        if isinstance(kind, Vec)
        else spread(builder, context.cast(builder, value, kind, result.dtype), result.n)
        for kind, value in zip(kinds, values, strict=True)
    ]


def _vec_of(args: Sequence[Type]) -> Vec | None:
    """Return the type of the vectors among operands; None without any, or if types do not match."""
    vecs = {ty for ty in args if isinstance(ty, Vec)}
    scalars = types.Number | types.Boolean | types.Literal
    fits = len(vecs) == 1 and all(isinstance(ty, Vec | scalars) for ty in args)
    return vecs.pop() if fits else None


def _define(
    symbol: Callable[..., object], arity: int, emit: Callable[..., Value], to_mask: bool = False,
    only: tuple[type[Type], ...] | None = None,
) -> None:  # fmt: skip
    """Define an operator of `arity` operands on vectors whose lanes are of the types `only`.

    emit(builder, is_float, *operands) writes its code. With `to_mask`, the result is a mask.
    """

    class Template(templates.AbstractTemplate):
        def generic(self, args: Sequence[Type], kws: object) -> Signature | None:
            vec = _vec_of(args) if len(args) == arity else None
            if vec is None or not isinstance(vec.dtype, only or types.Type):
                return None
            result = Vec(types.boolean, vec.n) if to_mask else vec
            return templates.signature(result, *args)

    Template.__name__ = f"Vec_{symbol.__name__}"
    templates.infer_global(symbol)(Template)

    def lower(context: Context, builder: Builder, sig: Signature, args: Values) -> Value:
        vec = _vec_of(sig.args)
        assert vec is not None
        lanes = operands(context, builder, sig.args, args, vec)
        return emit(builder, isinstance(vec.dtype, types.Float), *lanes)

    kinds = [(Vec,)] if arity == 1 else [(Vec, Vec), (Vec, types.Any), (types.Any, Vec)]
    for kind in kinds:
        extending.lower_builtin(symbol, *kind)(lower)


def compare(symbol: str) -> Callable[[Builder, bool, Value, Value], Value]:
    """Return a function that writes the code of a comparison, such as "<", of lanes or scalars."""
    # Comparisons of floats are ordered, that is false with a NaN; != is unordered, true with one.

    def emit(builder: Builder, is_float: bool, a: Value, b: Value) -> Value:
        if is_float:
            write = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
            return write(symbol, a, b)
        return builder.icmp_signed(symbol, a, b)

    return emit


def _absolute(builder: Builder, is_float: bool, a: Value) -> Value:
    """Return the absolute values of lanes."""
    if is_float:
        return call(builder, "llvm.fabs", [a])
    # The 0: the absolute value of the least integer is itself, and not undefined.
    return call(builder, "llvm.abs", [a, ir.Constant(BIT, 0)])


WHOLE, BITS = types.Integer, (types.Integer, types.Boolean)

_define(operator.add, 2, lambda b, is_float, x, y: b.fadd(x, y) if is_float else b.add(x, y))
_define(operator.sub, 2, lambda b, is_float, x, y: b.fsub(x, y) if is_float else b.sub(x, y))
_define(operator.mul, 2, lambda b, is_float, x, y: b.fmul(x, y) if is_float else b.mul(x, y))
_define(operator.truediv, 2, lambda b, is_float, x, y: b.fdiv(x, y), only=types.Float)
_define(operator.neg, 1, lambda b, is_float, x: b.fneg(x) if is_float else b.neg(x))
_define(abs, 1, _absolute)
_define(operator.and_, 2, lambda b, is_float, x, y: b.and_(x, y), only=BITS)
_define(operator.or_, 2, lambda b, is_float, x, y: b.or_(x, y), only=BITS)
_define(operator.xor, 2, lambda b, is_float, x, y: b.xor(x, y), only=BITS)
_define(operator.invert, 1, lambda b, is_float, x: b.not_(x), only=BITS)
_define(operator.lshift, 2, lambda b, is_float, x, y: b.shl(x, y), only=WHOLE)
_define(operator.rshift, 2, lambda b, is_float, x, y: b.lshr(x, y), only=WHOLE)
for _operator, _symbol in (
    (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="),
    (operator.eq, "=="), (operator.ne, "!="),
):  # fmt: skip
    _define(_operator, 2, compare(_symbol), to_mask=True)
