"""Files of scenes, of any format that trimesh reads."""

from __future__ import annotations

import os

from bvh.scene import Scene
from bvh.sources import read_file
from bvh.workers import Progress


def load_scene(
    path: str | os.PathLike[str],
    *,
    quality: str = "medium",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Scene:
    """Read a scene from a file: glTF, GLB, or whatever else trimesh reads.

    Instances are kept: a mesh that a file places a thousand times is one tree. Vertices and faces
    keep their places in the file.

    Parameters
    ----------
    path : str or path-like
        A file of our own is for `bvh.load`.
    quality, threads, progress
        As in `Scene.from_trimesh`.

    Returns
    -------
    Scene
        As `Scene.from_trimesh` makes it.

    Raises
    ------
    ValueError
        If the file cannot be read.
    FileNotFoundError
        If there is none.
    """
    import trimesh

    loaded = read_file(path, "a scene")
    if not isinstance(loaded, trimesh.Scene):
        # A mesh, or what will be left out with a warning.
        loaded = trimesh.Scene([loaded])
    return Scene.from_trimesh(loaded, quality=quality, threads=threads, progress=progress)
