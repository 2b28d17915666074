"""Methods: machine code that any version of Python can call."""

from __future__ import annotations

import ctypes

import numpy as np

import bvh
from bvh.runtime.calls import python_calls as calls
from bvh.traversal.rays.one_ray import CASTS
from bvh.tree.arrays import TriangleRow
from meshes.sphere import geodesic_sphere
from tests.promises.test_same_bits import called


def test_no_function_of_pythons_is_named() -> None:
    """Nor any of Numba's that needs Python: methods find addresses in memory."""
    bvh.BVH.from_triangles(*geodesic_sphere(1)).caster()
    [compiled] = CASTS[TriangleRow].overloads.values()
    names = called(str(compiled.library._get_module_for_linking()))
    others = {name for name in names if not name.startswith("llvm.")}
    assert others <= {"NRT_incref", "NRT_decref", "NRT_MemInfo_call_dtor", "numba_ldexp"}


def test_where_memory_begins() -> None:
    """The mark is after what precedes the bytes of an object, at a multiple of eight."""
    before = bytes.__basicsize__ - 1
    held = calls.MethodMemory(np.array((calls.MARK, 12345), np.int64).tobytes())
    words = (ctypes.c_int64 * 2).from_address(id(held) + before)
    assert before % 8 == 0 and before >= 16 and [*words] == [calls.MARK, 12345]
