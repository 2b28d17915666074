"""Files of scenes, of any format that can be read."""

from __future__ import annotations

import os
from pathlib import Path

from bvh.progress_bars import ProgressLike
from bvh.scene import Scene
from bvh.sources import Surface, read_file
from bvh.tree import BVH


def load_scene(
    path: str | os.PathLike[str],
    *,
    up: str | None = None,
    quality: str = "medium",
    threads: int | None = None,
    progress: ProgressLike | None = None,
) -> Scene:
    """Read a scene from a file: glTF, GLB, or whatever else trimesh or meshio reads.

    Instances are kept: a mesh that a file places a thousand times is one tree. Vertices and faces
    keep their places in the file.

    Parameters
    ----------
    path : str or path-like
        A file of our own is for `bvh.load`. A .npz file holds ``vertices`` and ``faces``, and may
        hold ``offsets``, where ``faces`` are polygons one behind another, and ``face_ids``.
    up : {"x", "y", "z", "-x", "-y", "-z"}, optional
        What is up (see `Scene.up`); by default y in glTF, z in all else.
    quality, threads, progress
        As in `Scene.from_trimesh`.

    Returns
    -------
    Scene
        As `Scene.from_trimesh` makes it; a mesh that trimesh does not read is one instance, under
        the file's name.

    Raises
    ------
    ValueError
        If the file cannot be read, or there are no triangles in it.
    FileNotFoundError
        If there is none.
    ImportError
        If it is for meshio, such as .vtu and .msh, and that is not installed.
    """
    import trimesh

    loaded = read_file(path, "a scene")
    if isinstance(loaded, Surface):
        scene = Scene()
        tree = BVH.from_mesh(loaded, quality=quality, threads=threads, progress=progress)
        scene.add(tree, name=Path(path).stem)
        scene.up = "z" if up is None else up
        return _with_triangles(scene, path)
    if not isinstance(loaded, trimesh.Scene):
        # A mesh, or what will be left out with a warning.
        loaded = trimesh.Scene([loaded])
    scene = Scene.from_trimesh(loaded, up=up, quality=quality, threads=threads, progress=progress)
    return _with_triangles(scene, path)


def _with_triangles(scene: Scene, path: str | os.PathLike[str]) -> Scene:
    """Return a scene that is not empty: readers make an empty one of much that is damaged."""
    if not any(len(tree) for tree in scene.leaves.trees):
        raise ValueError(f"{os.fspath(path)} holds no triangles: it is empty, or damaged")
    return scene
