"""Bit counts of integers, by which kernels iterate over masks."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from bvh.runtime.jit import llvm_operation, types
from bvh.runtime.simd.vectors import BIT, LONG, declare


def _count_bits(name: str) -> Any:
    def build(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            args = [args[0]] + ([] if name == "llvm.ctpop" else [ir.Constant(BIT, 0)])
            function = declare(builder, name, [a.type for a in args], LONG)
            count = builder.call(function, args)
            if name == "llvm.ctlz":
                return builder.sub(ir.Constant(LONG, 63), count)
            return count

        return types.int64(types.int64), codegen

    return build


popcount = llvm_operation(_count_bits("llvm.ctpop"))
popcount.__doc__ = "Return the number of set bits."
lowest_bit = llvm_operation(_count_bits("llvm.cttz"))
lowest_bit.__doc__ = "Return the index of the lowest set bit; 64 for 0."
highest_bit = llvm_operation(_count_bits("llvm.ctlz"))
highest_bit.__doc__ = "Return the index of the highest set bit; -1 for 0."
