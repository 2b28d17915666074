"""CPU features, the number of lanes of a vector, and the cycle counter."""

from bvh.runtime.compiler.code_types import Operation, TypingContext
from bvh.runtime.compiler.cpu_levels import natural_width
from bvh.runtime.jit import emits, host_features, llvm_operation, types
from bvh.runtime.simd.vectors import LONG, declare

FEATURES = host_features()
# The number of float32 lanes that suits the CPU.
WIDTH = natural_width(FEATURES)


@llvm_operation
def cycles(typingctx: TypingContext) -> Operation:
    """Return the cycle counter of the CPU; 0 where it cannot be read."""
    name = "llvm.readcyclecounter"
    return types.int64(), emits(lambda b: b.call(declare(b, name, [], LONG, plain=True), []))
