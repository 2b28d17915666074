"""The CPU: its features, the number of lanes that suits it, and its clock."""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir

from bvh.jit import host_features, llvm_operation, types

FEATURES = host_features()


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


WIDTH = _natural_width()


@llvm_operation
def cycles(typingctx: Any) -> Any:
    """Return the CPU's own clock, in ticks of no stated length; 0 where it cannot be read."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = "llvm.readcyclecounter"
        kind = ir.FunctionType(ir.IntType(64), [])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(function, [])

    return types.int64(), codegen
