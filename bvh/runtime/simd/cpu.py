"""CPU features, the number of lanes of a vector, and the cycle counter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from bvh.runtime.compiler.cpu_levels import natural_width
from bvh.runtime.jit import host_features, llvm_operation, types

FEATURES = host_features()
# The number of float32 lanes that suits the CPU.
WIDTH = natural_width(FEATURES)


@llvm_operation
def cycles(typingctx: Any) -> Any:
    """Return the cycle counter of the CPU; 0 where it cannot be read."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = "llvm.readcyclecounter"
        kind = ir.FunctionType(ir.IntType(64), [])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(function, [])

    return types.int64(), codegen
