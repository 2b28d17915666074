"""Kernels of Warp, which compiles this file when one of them is first run."""

# Warp reads the annotations, so that they must not be put off as text.
import warp as wp

Vectors = wp.array(dtype=wp.vec3)
Floats = wp.array(dtype=float)
Integers = wp.array(dtype=int)
Flags = wp.array(dtype=wp.bool)


@wp.kernel
def nearest(m: wp.uint64, o: Vectors, d: Vectors, far: float, t: Floats, faces: Integers):
    """Find the nearest hit of each ray."""
    i = wp.tid()
    hit = wp.mesh_query_ray(m, o[i], d[i], far)
    faces[i] = -1
    t[i] = wp.inf
    if hit.result:
        faces[i] = hit.face
        t[i] = hit.t


@wp.kernel
def occluded(m: wp.uint64, o: Vectors, d: Vectors, far: float, hit: Flags):
    """Find whether each ray hits anything."""
    i = wp.tid()
    hit[i] = wp.mesh_query_ray_anyhit(m, o[i], d[i], far)


@wp.kernel
def counted(m: wp.uint64, o: Vectors, d: Vectors, hits: Integers):
    """Count the hits of each ray."""
    i = wp.tid()
    hits[i] = wp.mesh_query_ray_count_intersections(m, o[i], d[i])


@wp.kernel
def closest(m: wp.uint64, points: Vectors, far: float, found: Vectors):
    """Find the point of the mesh nearest to each point."""
    i = wp.tid()
    near = wp.mesh_query_point_no_sign(m, points[i], far)
    found[i] = wp.mesh_eval_position(m, near.face, near.u, near.v)


@wp.kernel
def signed(m: wp.uint64, points: Vectors, far: float, distances: Floats):
    """Find the distance of each point, its sign by normals."""
    i = wp.tid()
    near = wp.mesh_query_point_sign_normal(m, points[i], far)
    point = wp.mesh_eval_position(m, near.face, near.u, near.v)
    distances[i] = near.sign * wp.length(points[i] - point)
