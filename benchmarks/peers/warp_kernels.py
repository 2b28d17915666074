"""Kernels of Warp, which compiles this file when one of them is first run."""

# Warp reads the annotations, so that they must not be put off as text.
import warp as wp


@wp.kernel
def nearest(
    mesh: wp.uint64,
    origins: wp.array(dtype=wp.vec3),
    directions: wp.array(dtype=wp.vec3),
    far: float,
    t: wp.array(dtype=float),
    faces: wp.array(dtype=int),
):
    """Find the nearest hit of each ray."""
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, origins[i], directions[i], far)
    faces[i] = -1
    t[i] = wp.inf
    if hit.result:
        faces[i] = hit.face
        t[i] = hit.t


@wp.kernel
def occluded(
    mesh: wp.uint64,
    origins: wp.array(dtype=wp.vec3),
    directions: wp.array(dtype=wp.vec3),
    far: float,
    found: wp.array(dtype=wp.bool),
):
    """Find whether each ray hits anything."""
    i = wp.tid()
    found[i] = wp.mesh_query_ray_anyhit(mesh, origins[i], directions[i], far)


@wp.kernel
def counted(
    mesh: wp.uint64,
    origins: wp.array(dtype=wp.vec3),
    directions: wp.array(dtype=wp.vec3),
    found: wp.array(dtype=int),
):
    """Count the hits of each ray."""
    i = wp.tid()
    found[i] = wp.mesh_query_ray_count_intersections(mesh, origins[i], directions[i])


@wp.kernel
def closest(
    mesh: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    far: float,
    nearest_points: wp.array(dtype=wp.vec3),
):
    """Find the point of the mesh nearest to each point."""
    i = wp.tid()
    near = wp.mesh_query_point_no_sign(mesh, points[i], far)
    nearest_points[i] = wp.mesh_eval_position(mesh, near.face, near.u, near.v)


@wp.kernel
def signed(
    mesh: wp.uint64,
    points: wp.array(dtype=wp.vec3),
    far: float,
    distances: wp.array(dtype=float),
):
    """Find the distance of each point, its sign by normals."""
    i = wp.tid()
    near = wp.mesh_query_point_sign_normal(mesh, points[i], far)
    point = wp.mesh_eval_position(mesh, near.face, near.u, near.v)
    distances[i] = near.sign * wp.length(points[i] - point)
