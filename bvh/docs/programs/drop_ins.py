"""One sculpture by the calls of three libraries: trimesh, Open3D and embreex, answered by bvh."""

from pathlib import Path

import numpy as np
import trimesh

import bvh
from bvh.apps.bundled import bundled
from bvh.compat.embreex.mesh_construction import TriangleMesh
from bvh.compat.embreex.rtcore_scene import EmbreeScene
from bvh.compat.open3d import RaycastingScene
from bvh.compat.trimesh import install
from bvh.docs.programs.gallery.sheet import SIGN, THICK, Sheet, colours

TEXT = "Programs for these libraries run with another import, and get exact answers"


def main(path: Path, width: int = 1000, frequency: int = 60) -> dict[str, int]:
    """Draw normals, distances and places by calls of each; return how many rays they agree on."""
    points, faces = bundled("meshes.sculpture").sculpture(frequency)
    sheet = Sheet(width, 5.6, "Whose calls are these?", TEXT)
    camera = bvh.Camera.look_at([2.4, -6.0, 2.2], [0, 0, 0], fov_y=25, **sheet.raster(3.8, 4.0))
    o, d = camera.rays()
    o, d = np.broadcast_to(o, d.shape).reshape(-1, 3), d.reshape(-1, 3)
    with install():
        mesh = trimesh.Trimesh(points, faces, process=False)
        of_trimesh = mesh.ray.intersects_first(o, d)
    scene = RaycastingScene()
    scene.add_triangles(points, faces)
    of_open3d = scene.cast_rays(np.hstack([o, d]))["t_hit"]
    embree = EmbreeScene()
    TriangleMesh(embree, points, faces)
    of_embreex = embree.run(o, d)
    hit, t = of_trimesh >= 0, np.asarray(of_open3d, np.float64)
    middles = points[faces].mean(axis=1)
    turns = np.arctan2(middles[of_embreex, 1], middles[of_embreex, 0]) / np.pi * 0.5 + 0.5
    near, far = t[hit].min(), t[hit].max()
    shown = (
        ("mesh.ray.intersects_first", mesh.face_normals[of_trimesh] * 0.5 + 0.5),
        ("RaycastingScene.cast_rays", colours((t - near) / (far - near), THICK)),
        ("EmbreeScene.run", colours(turns, [*SIGN, SIGN[0]])),
    )
    for k, (title, paint) in enumerate(shown):
        image = np.where(hit[:, None], paint, 1.0).reshape(camera.height, camera.width, 3)
        blocks = image.reshape(camera.height // 2, 2, camera.width // 2, 2, 3)
        sheet.panel(0.2 + 3.95 * k, 1.5, 3.8, 4.0, blocks.mean(axis=(1, 3)))
        sheet.text(0.3 + 3.95 * k, 1.4, title, size=12, family="monospace")
    sheet.save(path)
    agree = (of_trimesh == of_embreex) & (hit == np.isfinite(t))
    return {"rays": len(d), "agree": int(agree.sum())}
