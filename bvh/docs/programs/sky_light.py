"""How much of the sky does each point see? By a kernel of Warp, on a GPU or its CPU device."""

from pathlib import Path
from typing import Any

import numpy as np
import trimesh
import warp as wp

import bvh
import bvh.warp
from bvh.apps.bundled import bundled
from bvh.docs.programs.gallery.sheet import SUN, Lit, Sheet, colours, ground

wp.set_module_options({"fuse_fp": False, "enable_backward": False})
TEXT = "bvh.warp.any_hit in a kernel: the same bits on CPUs and GPUs"


@wp.kernel
def see(
    scene: bvh.warp.Target, points: wp.array(dtype=wp.vec3d), normals: wp.array(dtype=wp.vec3d),
    rays: wp.array(dtype=wp.vec3d), seen: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Count the rays from a point above its surface that end in the sky."""
    i = wp.tid()
    for k in range(rays.shape[0]):
        if wp.dot(rays[k], normals[i]) > wp.float64(0.0):
            near, far = wp.float64(1e-6), wp.float64(1e3)
            if not bvh.warp.any_hit(scene, points[i], rays[k], near, far):
                wp.atomic_add(seen, i, 1)


def main(path: Path, width: int = 1000, frequency: int = 60, count: int = 64) -> dict[str, Any]:
    """Draw the share of the sky that each point sees; return it, and whether the CPU agrees."""
    device = "cuda" if wp.is_cuda_available() else "cpu"
    points, faces = bundled("meshes.sculpture").sculpture(frequency)
    scene, sheet = bvh.Scene(), Sheet(width, 6.0, "How much sky?", TEXT)
    scene.add((points, faces))
    floor = ground(scene, [0.0, 0.0, points[:, 2].min()], 40.0)
    normals = np.array(trimesh.Trimesh(points, faces, process=False).vertex_normals)
    start, rays = points + 1e-6 * normals, np.random.default_rng(1).standard_normal((count, 3))
    rays[:, 2] = np.abs(rays[:, 2])
    args = [wp.array(each, dtype=wp.vec3d, device=device) for each in (start, normals, rays)]
    seen, there = wp.zeros(len(start), dtype=wp.int32, device=device), scene.to(device)
    wp.launch(see, len(start), inputs=[there.target, *args, seen], device=device)
    found = seen.numpy()
    unblocked = (normals @ rays.T > 0.0) & ~scene.any_hit(start[:, None], rays, 1e-6, 1e3)
    camera = bvh.Camera.look_at([3, -8, 3.4], [0, 0, -0.15], fov_y=21, **sheet.raster(11.4, 4.9))
    view = Lit(scene, camera, floor)
    shares, some = np.zeros(len(view.id)), ~view.shadow
    u, v = view.uv[some].T
    shares[some] = np.sum(found[faces[view.id[some]]] * np.stack([1 - u - v, u, v], axis=1), axis=1)
    sheet.panel(0.3, 1.0, 11.4, 4.9, view.painted(colours(2.2 * shares / count, SUN[1:])))
    sheet.save(path)
    same = bool((found == unblocked.sum(axis=1)).all())
    return {"sky": float(found.mean() / count), "same": same}
