"""Files of commands: meshes, scenes, saved trees and scenes, rays and hits."""

import io
import re
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from numpy.typing import NDArray
from typer import Argument, Option

from bvh.apps.bundled import bundled
from bvh.apps.cli.console import bar
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.part_folder import INDEX, is_url
from bvh.io.mesh_files import check_has_faces, is_cloud, read_file
from bvh.io.mesh_objects import is_graph
from bvh.io.meshes import Surface
from bvh.pictures.picture import write
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits
from bvh.runtime.arguments import Quality, number_of
from bvh.runtime.cache.head_start import take_part
from bvh.scene.files.loading import is_saved, load
from bvh.scene.scene import Scene

# Meshes that commands take by name; `bvh bench --help` lists their sizes.
GENERATED = ("organic", "interior", "terrain", "cad_part", "sculpture")

ScenePath = Annotated[Path, Argument(
    metavar="SCENE", help="Any file that trimesh or meshio reads, .npz with vertices and faces, a "
    "saved tree or a saved scene. Files of positioned meshes, such as .glb, are scenes. Without a "
    "file: sculpture, organic, interior, terrain or cad_part, which are generated; organic-80 is "
    "finer.",
)]  # fmt: skip
PartsPath = Annotated[str, Argument(
    metavar="SCENE",
    help="A mesh, saved tree or scene, or a folder or URL that `bvh partition` has written.",
)]  # fmt: skip
Flatten = Annotated[bool, Option(
    "--flatten", help="Take a scene as one mesh in world coordinates.")]  # fmt: skip
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Threads = Annotated[int | None, Option(
    help="Threads; one for each CPU by default, -1 for all CPUs.")]  # fmt: skip
# Options of named values are checked by their users, for an error of one line.
BuildQuality = Annotated[Quality, Option(
    parser=str, help=f"One of: {', '.join(get_args(Quality))}.")]  # fmt: skip
Memory = Annotated[str | None, Option(
    help="Parts to have in memory at a time, in each process; 2GB by default.")]  # fmt: skip


def opened(
    path: Path, threads: int | None, quality: Quality = "medium", flatten: bool = False
) -> tuple[BVH | Scene, object, str]:
    """Return the tree or scene of a file, what it was built from, and its up axis, such as "z".

    It was built from an object of trimesh or a `Surface`; None stands for a saved tree or scene.
    With `flatten` a scene becomes one tree in world coordinates.
    """
    read = _read(path)
    source = _made(path, read, threads, quality)
    up = source.up if isinstance(source, Scene) else "z"
    if flatten and isinstance(source, Scene):
        mesh = source.flattened()[:2]
        with bar("building") as progress:
            source = BVH.from_triangles(
                *mesh, quality=quality, threads=threads, progress=progress, warn=False
            )
    return source, read, up


def opened_parts(
    place: str, threads: int | None, flatten: bool = False, memory: str | None = None
) -> tuple[BVH | Scene | Parts, object, str]:
    """Return what `opened` returns for a file, or (parts, None, "z") for a folder or URL of parts.

    `memory` limits the parts in memory at a time; only parts take it.
    """
    path = Path(place)
    if not (is_url(place) or path.is_dir()):
        if memory is not None:
            raise ValueError(f"--memory is for parts, and {place} holds none")
        return opened(path, threads, flatten=flatten)
    # An absolute path, as workers of a cluster may have another working directory.
    given = {} if memory is None else {"memory": memory}
    parts = Parts(place if is_url(place) else path.absolute(), **given)
    if flatten:
        raise ValueError(f"--flatten is for scenes, and {place} holds parts")
    return parts, None, "z"


def opened_scene(path: Path, threads: int | None) -> Scene:
    """Return the scene in a file; a mesh, cloud or tree is one instance, named after the file."""
    read = _read(path)
    # The mesh itself is added, because it has more attributes than its tree.
    is_mesh = read is not None and not is_graph(read) and not is_cloud(read)
    source = read if is_mesh else _made(path, read, threads, "medium")
    if isinstance(source, Scene):
        return source
    scene = Scene()
    scene.add(source, name=path.stem)
    return scene


def _read(path: Path) -> object:
    """Return the mesh, cloud or scene in a file, or the generated mesh that `path` names.

    The result is None for a saved tree or scene, which the caller loads.
    """
    if (path / INDEX).is_file():
        raise ValueError(f"{path} holds parts, which only info, cast and render take")
    # `Path` has removed one of the two slashes of a URL.
    if re.match(r"[a-z0-9+]{2,}:/", str(path)):
        raise ValueError(f"{path}: only info, cast and render take URLs, those of parts")
    if path.exists():
        take_part()
    if path.is_file() and is_saved(path):
        return None
    if not path.exists() and (generated := _generated(str(path))) is not None:
        return generated
    read = read_file(path, "a mesh")
    if not is_cloud(read):
        check_has_faces(read, str(path))
    return read


def _generated(name: str) -> object:
    """Return a generated mesh by its name in `bvh bench`; None for other names."""
    # A name is a kind, perhaps "-" and a size, perhaps "@" and a number of faces.
    kind, dash, size = name.partition("@")[0].partition("-")
    if kind not in GENERATED or (dash and not size.replace(".", "", 1).isdigit()):
        return None
    take_part()
    # A `Surface`, as importing trimesh and SciPy takes half a second.
    found = bundled("benchmarks.scenes").load(name)
    return Surface(found.vertices, found.faces)


def _made(path: Path, read: object, threads: int | None, quality: Quality) -> BVH | Scene:
    """Return the tree or scene built from `read`, a result of `_read`; None: load the saved one."""
    if read is None:
        return load(path, mmap=True, threads=threads)
    make: Any = Scene.from_trimesh if is_graph(read) else BVH.from_mesh
    given: Any = read
    if is_cloud(read):
        make, given = BVH.from_points, given.vertices
    with bar("building") as progress:
        made: BVH | Scene = make(given, quality=quality, threads=threads, progress=progress)
    if isinstance(made, Scene) and len(made) == 0:
        raise ValueError(f"{path} holds no triangles")
    return made


def check_folder(output: Path) -> None:
    """Raise if the folder that a file is to be written to does not exist."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {output.parent}")


def content_of(source: BVH | Scene | Parts) -> str:
    """Return the numbers of primitives, instances and trees as text."""
    if isinstance(source, Parts):
        return (
            f"{number_of(len(source), 'triangles', ',')} in {number_of(source.part_count, 'parts')}"
        )
    if not isinstance(source, Scene):
        return number_of(len(source), source.kind, ",")
    leaves = source.leaves
    counts = np.array([len(tree) for tree in leaves.trees], np.int64)
    kinds = {tree.kind for tree in leaves.trees}
    what = kinds.pop() if len(kinds) == 1 else "primitives"
    stored = f"{number_of(counts.sum(), what, ',')} in {number_of(len(counts), 'trees')}"
    shown = number_of(counts[leaves.tree_of].sum(), what, ",")
    return f"{number_of(len(source), 'instances', ',')}, {shown}; {stored}"


def read_rays(path: Path) -> NDArray[np.float64]:
    """Return rays, shape (n, 6) or (n, 8), from a .npy file or text; "-" is standard input."""
    name = str(path)
    if not is_pipe(path):
        data = path.read_bytes()
    elif sys.stdin is None or sys.stdin.isatty():
        raise ValueError("--rays - reads standard input, which is not a pipe or a file here")
    else:
        name, data = "standard input", sys.stdin.buffer.read()
    npy = np.lib.format
    try:
        # `np.load` would also read zip files and pickles.
        is_npy = data.startswith(npy.MAGIC_PREFIX)
        columns = npy.read_array(io.BytesIO(data)) if is_npy else _read_text(data)
    except (ValueError, EOFError) as error:
        raise ValueError(f"cannot read rays from {name}: {error}") from error
    if columns.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {columns.dtype}")
    if columns.ndim != 2 or columns.shape[1] not in (6, 8):
        names = "ox oy oz dx dy dz t_min t_max"
        content = f"shape {columns.shape}" if columns.size else "no numbers"
        raise ValueError(f"{name} must have 6 or 8 columns ({names}), got {content}")
    return columns.astype(np.float64)


def is_pipe(path: Path | None) -> bool:
    return path is not None and str(path) == "-"


def write_hits(path: Path, hits: Hits, source: BVH | Scene | Parts) -> None:
    """Write the hits of rays on `source` to a .npz or .csv file, or as CSV to standard output, "-".

    There is a column for each field, and `face_id` where the source has polygons.
    """
    arrays = {field.name: getattr(hits, field.name) for field in fields(hits)}
    arrays["face_id"] = _face_ids(source, hits)
    arrays = {name: array for name, array in arrays.items() if array is not None}
    stream = io.BytesIO()
    if path.suffix == ".npz":
        np.savez_compressed(stream, **arrays)
    else:
        # 17 digits give the same double when they are read.
        formats = ["%.17g" if array.dtype.kind == "f" else "%d" for array in arrays.values()]
        rows = np.column_stack(list(arrays.values()))
        np.savetxt(stream, rows, formats, ",", header=",".join(arrays), comments="")
    if is_pipe(path):
        rest = stream.getbuffer()
        while len(rest):
            # Under `python -u`, a call writes only as much as the pipe takes.
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
        return
    write(path, stream)


def _face_ids(source: BVH | Scene | Parts, hits: Hits) -> NDArray[np.integer] | None:
    """Return the polygon of the source's mesh that each hit is on; None if all are triangles."""
    if isinstance(source, Scene):
        if any(tree.face_ids is not None for tree in source.leaves.trees):
            return source.face_of(hits.leaf, hits.prim_id)
    elif isinstance(source, BVH) and source.face_ids is not None:
        return source.face_of(hits.prim_id)
    return None


def _read_text(data: bytes) -> NDArray[np.float64]:
    """Return numbers (n, k), separated by commas or spaces; a first line of names is skipped."""
    lines = data.decode("utf-8-sig").splitlines()
    # Two lines tell the separator, as the first may have names.
    separator = "," if any("," in line for line in lines[:2]) else None
    has_names = bool(lines) and not any(map(_is_number, lines[0].split(separator)))
    with warnings.catch_warnings():
        # No warning about an empty file, which is rejected later by its shape.
        warnings.simplefilter("ignore", UserWarning)
        return np.loadtxt(lines[int(has_names) :], delimiter=separator, ndmin=2)


def _is_number(text: str) -> bool:
    """Return whether a text is a number as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True
