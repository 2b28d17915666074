"""Input files of commands: meshes, scenes, and saved trees and scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from bvh.apps.cli.console import bar
from bvh.io.meshes import read_file
from bvh.queries.hierarchy import BVH
from bvh.scene.files.loading import is_saved, load
from bvh.scene.scene import Scene

ScenePath = Annotated[
    Path,
    typer.Argument(
        metavar="SCENE",
        help="Any file that trimesh or meshio reads, .npz with vertices and faces, a saved tree or "
        "a saved scene. Files of positioned meshes, such as .glb, are scenes.",
    ),
]
Flatten = Annotated[
    bool, typer.Option("--flatten", help="Take a scene as one mesh in world coordinates.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; one for each CPU by default.")]


class Opened(NamedTuple):
    """Content of a file; what trimesh read from it, None for a saved file; its up axis."""

    source: BVH | Scene
    read: Any
    up: str


def opened(
    path: Path, threads: int | None, quality: str = "medium", flatten: bool = False
) -> Opened:
    """Return the tree or scene of a file."""
    read = None if _is_saved(path) else _read(path)
    if read is None:
        source = load(path, mmap=True, threads=threads)
    else:
        source = _built(path, read, quality, threads)
    up = source.up if isinstance(source, Scene) else "z"
    if flatten and isinstance(source, Scene):
        vertices, faces, _, _ = source.flattened()
        with bar("building") as progress:
            source = BVH.from_triangles(
                vertices, faces, quality=quality, threads=threads, progress=progress
            )
    return Opened(source, read, up)


def opened_scene(path: Path, threads: int | None) -> tuple[Scene, Any]:
    """Return a file as a scene, with a single mesh named after the file, and what trimesh read."""
    read = None if _is_saved(path) else _read(path)
    if read is None:
        source = load(path, mmap=True, threads=threads)
    else:
        # A mesh is added itself, because it has more attributes than its tree.
        source = _built(path, read, "medium", threads) if _is_graph(read) else read
    if isinstance(source, Scene):
        return source, read
    scene = Scene()
    scene.add(source, name=path.stem)
    return scene, read


def _built(path: Path, read: Any, quality: str, threads: int | None) -> BVH | Scene:
    """Return the scene or tree of what trimesh read."""
    make: Any = Scene.from_trimesh if _is_graph(read) else BVH.from_mesh
    with bar("building") as progress:
        built: BVH | Scene = make(read, quality=quality, threads=threads, progress=progress)
    if isinstance(built, Scene) and len(built) == 0:
        raise ValueError(f"{path} holds no triangles")
    return built


def _is_graph(read: Any) -> bool:
    return hasattr(read, "graph") and hasattr(read, "geometry")


def _is_saved(path: Path) -> bool:
    return path.is_file() and is_saved(path)


def _read(path: Path) -> Any:
    """Return the mesh or scene of a file."""
    read = read_file(path, "a mesh")
    if not (hasattr(read, "faces") or _is_graph(read)):
        raise ValueError(f"{path} holds no triangles ({type(read).__name__})")
    return read


def check_folder(output: Path) -> None:
    """Raise if a file cannot be written for want of its folder, before any work is done."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {output.parent}")


def content_of(source: Any) -> str:
    """Return the numbers of primitives, instances and trees as text."""
    if not isinstance(source, Scene):
        return f"{len(source)} {source.kind}"
    leaves = source.leaves
    counts = np.array([len(tree) for tree in leaves.trees], np.int64)
    kinds = {tree.kind for tree in leaves.trees}
    what = kinds.pop() if len(kinds) == 1 else "primitives"
    stored = f"{counts.sum()} {what} in {len(counts)} trees"
    return f"{len(source)} instances, {counts[leaves.tree_of].sum()} {what}; {stored}"
