"""Refits and rebuilds of a tree on a device whose vertices have moved.

Triangles get the sizes of `tree.triangle_groups`, so answers remain exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.building import HALF, box_of, build, copied, fit, launch, set_frame
from bvh.devices.exact import floats
from bvh.devices.exact.floats import ONE, OPTIONS, f4, f8
from bvh.devices.layout import Target
from bvh.devices.stages.moved import vertices_of
from bvh.runtime.arguments import ALL_BITS
from bvh.tree.primitives import Triangles

wp.set_module_options(OPTIONS)

# The most triangles of a leaf of a rebuilt tree.
LEAF = 4
# More than what rounding to float32 may lose of sizes (see `triangle_groups`).
UP, SIZE_LEAST = f8(1.0 + 2.0**-20), f8(2.0**-100)
SHARE, SIZE_SHARE = f8(2.0**-22), f8(24.0)


@wp.func
def _joined(v: wp.vec3d, w: wp.float32):
    """Return the vector (v, w) in float32, of which a row of `Target.triangles` has three."""
    return wp.vec4(f4(v[0]), f4(v[1]), f4(v[2]), w)


@wp.kernel
def write_triangles(target: Target, face_bits: wp.array(dtype=wp.int32)):
    """Write triangles for the float32 filter (see `tree.triangle_groups`), and their bits.

    `face_bits` are the bits of each face, or one item for all. The marks of triangles (see
    `Target.triangles`) stay.
    """
    j = wp.tid()
    prim, tree, mark = target.ids[j], target.top, target.triangles[j, 2][3]
    v0, v1, v2 = vertices_of(target, prim)
    valid, _, _ = box_of(target, prim)
    target.bits[j] = wp.where(valid, face_bits[wp.min(prim, face_bits.shape[0] - 1)], 0)
    s = floats.power_of_two(tree.exponent)
    # Halved before subtracting, so that no extent overflows. Rays miss a face of tolerance -1.
    p, a, b = wp.vec3d(), wp.vec3d(), wp.vec3d()
    if valid:
        p = (v0 - tree.centre) * s
        a = (v1 * HALF - v0 * HALF) * (s + s)
        b = (v2 * HALF - v0 * HALF) * (s + s)
    longest = wp.max(floats.largest(a), floats.largest(b))
    share = longest / (SIZE_SHARE * tree.bound) + SHARE
    size = floats.sum_of(wp.cross(a, b)) + floats.sum_of(floats.cross_size(a, b)) * share
    tolerance = (floats.sum_of(a) + floats.sum_of(b)) * (HALF * longest / tree.bound + ONE) * UP
    tolerance = wp.where(valid, tolerance + SIZE_LEAST, -ONE)
    target.triangles[j, 0] = _joined(p, f4(tolerance))
    target.triangles[j, 1] = _joined(a, f4(size * UP + SIZE_LEAST))
    target.triangles[j, 2] = _joined(b, mark)


class Members(NamedTuple):
    """The faces in the leaves of a tree, and the bits of all faces, as int32 arrays on a device."""

    ids: Any  # the faces in leaves, each once
    in_leaf: Any  # of each face: 1 if it is in a leaf, else 0
    face_bits: Any  # of each face, or one item for all: the bits that masks select

    @classmethod
    def of(cls, target: Any, face_bits: NDArray[np.uint32] | None) -> Members:
        """Return the members of a `Target`; `face_bits` (n,) are its groups, None for all bits."""
        in_leaf = np.zeros(len(target.faces), np.int32)
        in_leaf[target.ids.numpy()] = 1
        bits = np.array([ALL_BITS], np.uint32) if face_bits is None else face_bits
        arrays = np.flatnonzero(in_leaf), in_leaf, bits.view(np.int32)
        return cls(*(wp.array(a, dtype=wp.int32, device=target.ids.device) for a in arrays))


class MovedTriangles(NamedTuple):
    """The source of hits on a tree that has moved on a device (see `answers.locations`)."""

    faces: NDArray[np.int32]
    vertices: Any  # an array of Warp

    def leaves_of(self, parts: None, ids: Any, rows: Any) -> Iterator[tuple[Any, ...]]:
        """Yield once (triangles, None, rows, their faces), as a mesh of one part does.

        `ids` are the faces of all results, `rows` the results that are hits; `parts` is not used.
        """
        yield Triangles(self.vertices.numpy(), self.faces), None, rows, ids[rows]


def moved(old: Any, members: Members, vertices: Any, anew: bool) -> tuple[Any, int] | None:
    """Return (target, count): a tree with other vertices, refitted or, if `anew`, rebuilt.

    `old` is its `Target`, which is not changed, and `members` are its faces; `count` is the number
    of valid faces in leaves. The result is None if a valid face is in no leaf: then the tree must
    be built on the CPU.
    """
    device, target = vertices.device, copied(Target, old)
    target.vertices = vertices
    count, others = set_frame(target, members.in_leaf)
    if others:
        return None
    if anew:
        rows = len(members.ids)
        target.ids = wp.empty(rows, dtype=wp.int32, device=device)
        target.children = wp.empty(max(count - 1, 0), dtype=wp.vec4i, device=device)
        target.triangles = wp.full((rows, 3), wp.vec4(1.0), dtype=wp.vec4, device=device)
        build(target, members.ids, count, LEAF)
    else:
        target.triangles = wp.clone(old.triangles)
    target.bits = wp.empty(len(target.ids), dtype=wp.int32, device=device)
    target.boxes = wp.empty((len(target.children), 3), dtype=wp.vec4, device=device)
    launch(write_triangles, len(target.ids), target, members.face_bits)
    fit(target)
    target.depth = target.top.depth
    return target, count
