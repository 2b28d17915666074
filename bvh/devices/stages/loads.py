"""What Warp has no words for: loads of 16 bytes, fences, and the fused operation of slabs.

In the code for GPUs a fused operation has the remark `slab`: a test finds no other.
"""

import warp as wp

_LOAD = """
#if defined(__CUDA_ARCH__)
    const {kind}4 row = __ldg(reinterpret_cast<const {kind}4*>(rows.data) + i);
    return wp::vec_t<4, wp::{kind}32>(row.x, row.y, row.z, row.w);
#else
    return rows.data[i];
#endif
"""

_SLAB = """
#if defined(__CUDA_ARCH__)
    float sum;
    asm("fma.rn.f32 %0, %1, %2, %3; // slab" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
    return sum;
#else
    return a * b + c;
#endif
"""


@wp.func_native(_LOAD.format(kind="float"))
def _load(rows: wp.array2d(dtype=wp.vec4), i: int) -> wp.vec4:
    """Return a vector, counted through both axes."""


@wp.func
def load_three(rows: wp.array2d(dtype=wp.vec4), i: int):
    """Return row i of an array (n, 3) of vectors."""
    k = 3 * i
    return _load(rows, k), _load(rows, k + 1), _load(rows, k + 2)


@wp.func_native(_LOAD.format(kind="int"))
def load_codes(rows: wp.array(dtype=wp.vec4i), i: int) -> wp.vec4i:
    """Return row i of an array."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
""")
def fence():
    """Let other threads see what was written before they see what is written after."""


@wp.func_native(_SLAB)
def slab(a: wp.float32, b: wp.float32, c: wp.float32) -> wp.float32:
    """Return a * b + c, rounded once or twice."""
