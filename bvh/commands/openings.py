"""Files that commands are given: meshes, scenes, and what was saved of either."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from bvh.commands.console import bar
from bvh.scene import Scene
from bvh.sources import read_file
from bvh.storage import is_saved, load
from bvh.tree import BVH

ScenePath = Annotated[
    Path,
    typer.Argument(
        metavar="SCENE",
        help="Any file that trimesh or meshio reads, .npz with vertices and faces, a saved tree or "
        "a saved scene. Files that place meshes, such as .glb, are scenes.",
    ),
]
Flatten = Annotated[
    bool, typer.Option("--flatten", help="Take a scene as one mesh in world coordinates.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; one for each CPU by default.")]


class Opened(NamedTuple):
    """What a file holds; what trimesh has read from it, None for what was saved; what is up."""

    source: BVH | Scene
    read: Any
    up: str


def opened(
    path: Path, threads: int | None, quality: str = "medium", flatten: bool = False
) -> Opened:
    """Return what is in a file, ready to be asked."""
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
    """Return a file as a scene, a single mesh under the file's name, and what trimesh has read."""
    read = None if _is_saved(path) else _read(path)
    if read is None:
        source = load(path, mmap=True, threads=threads)
    else:
        # A mesh is added as such, because it knows more than its tree.
        source = _built(path, read, "medium", threads) if _is_graph(read) else read
    if isinstance(source, Scene):
        return source, read
    scene = Scene()
    scene.add(source, name=path.stem)
    return scene, read


def _built(path: Path, read: Any, quality: str, threads: int | None) -> BVH | Scene:
    """Return the scene, or the tree, of what trimesh has read."""
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
    """Return a mesh or scene of trimesh."""
    read = read_file(path, "a mesh")
    if not (hasattr(read, "faces") or _is_graph(read)):
        raise ValueError(f"{path} holds no triangles ({type(read).__name__})")
    return read


def check_folder(output: Path) -> None:
    """Raise before any work is done for a file that cannot be written."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {output.parent}")
