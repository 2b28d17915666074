"""Where rays leave spheres and capsules that they have entered."""

from bvh.geometry.arithmetic.floats import NAN
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type
from bvh.runtime.simd import peek, pointer, poke
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.rays.ray_batch import read_ray
from bvh.tree.instanced import Instanced, instanced_round
from bvh.tree.shapes import KINDS


@by_type()
def _interval(primitives, prim, o, d):
    """Return (hit, near, far): the t where the line of a ray enters and leaves a round shape."""
    if primitives.instance_class is Instanced:
        return lambda primitives, prim, o, d: instanced_round(primitives, prim, o, d)
    interval = KINDS[primitives.instance_class].interval
    return lambda primitives, prim, o, d: interval(primitives.points, prim, o, d)


@entry
def find_far_ends(tree_row, ray_arrays, which, prims, far):
    """Write the t where the rays numbered `which` leave the shapes `prims`; NaN beyond t_max.

    All of `which`, `prims` and `far` are (n,); each ray must hit its shape.
    """
    tree, rays, out = as_pointers(tree_row), as_pointers(ray_arrays), pointer(far)
    for i in range(len(which)):
        o, d, _, t_max = read_ray(rays, peek(pointer(which), i))
        _, _, t = _interval(tree.primitives, peek(pointer(prims), i), o, d)
        poke(out, i, t if t <= t_max else NAN)
