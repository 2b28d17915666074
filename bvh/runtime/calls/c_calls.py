"""Calls of C functions by their addresses inside kernels: machine code names none of them."""

from bvh.runtime.compiler.code_types import Operation, Type, TypingContext
from bvh.runtime.compiler.lazy_modules import cgutils, ir, types
from bvh.runtime.jit import llvm_operation


@llvm_operation
def call_c(typingctx: TypingContext, function: Type, arguments: Type, like: Type) -> Operation:
    """Call the C function at an address with a tuple of numbers; return one of the type of `like`.

    The result of a function that has none is undefined.
    """
    # C leaves open how a truth is extended to 64 bits, so truths are passed as integers.
    kinds = [types.int64 if kind == types.boolean else types.unliteral(kind) for kind in arguments]

    def codegen(context, builder, sig, args):
        values = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(context.get_value_type(like), [value.type for value in values])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)

    return like(types.int64, types.Tuple(kinds), like), codegen
