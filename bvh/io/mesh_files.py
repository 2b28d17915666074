"""Triangles of files of meshes, and of archives of them."""

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from bvh.io.file_formats import MAGIC, SCENE_MAGIC
from bvh.io.formats.file_meshes import as_trimesh
from bvh.io.formats.meshio_files import MESHIO_ENDINGS, read_meshio
from bvh.io.formats.obj_files import read_obj
from bvh.io.formats.off_files import read_off
from bvh.io.formats.ply_files import read_ply
from bvh.io.formats.stl_files import read_stl
from bvh.io.formats.threemf_files import with_one_model
from bvh.io.gltf.files import ENDINGS, NAMED, numbered, rewritten
from bvh.io.mesh_objects import is_graph
from bvh.io.meshes import Surface, joined, paired, surface_of, surface_of_polygons
from bvh.io.trimesh_scenes import placements
from bvh.io.untrusted_files import Allowance, NamedFiles, TooLarge, as_zip, path_name, unzipped
from bvh.runtime.arguments import face_rows, rows
from bvh.runtime.caller_warnings import warn_caller

# Formats that we read, because trimesh changes their order or drops some of their content.
READERS = {
    ".obj": read_obj, ".off": read_off, ".ply": read_ply, ".stl": read_stl, ".stl_ascii": read_stl,
}  # fmt: skip
# Formats whose readers unpack a zip archive themselves.
ZIPPED = (".3mf", ".3dxml", ".dae", ".zae")
# Endings of meshio that are common for other things, too.
COMMON = {"dat", "e", "ele", "node", "post", "vol", "xml"}
# Elements of COLLADA with faces, which trimesh does not read.
LOST = rb"<(tristrips|trifans|instance_controller)\b"
# What is refused: rasters; voxels; compressed files, which trimesh would unpack without a limit.
RASTER = "it is a raster: read its heights with rasterio, and call BVH.from_heightfield"
PACKED = "it is compressed: unpack it first, or make it an archive .zip"
VOXELS = "it is a grid of voxels: trimesh reads it, and makes meshes of such"
REFUSED = dict.fromkeys((".tif", ".tiff", ".vrt"), RASTER) | {".binvox": VOXELS}
REFUSED |= dict.fromkeys((".gz", ".bz2"), PACKED)


def read_file(
    path: str | os.PathLike[str], expected: str, triangles_only: bool = False,
    threads: int | None = None,
) -> Any:  # fmt: skip
    """Read a file, without reordering, as a mesh or scene of trimesh, or as a `Surface`.

    With `triangles_only`, the formats OBJ, OFF, PLY and STL give a `Surface`, without parts and
    colours. `expected` names what the file should be in errors, as "a mesh". `threads` is the
    number of threads that triangulate polygons, None for the default.
    """
    name = path_name(path)
    if not os.path.isfile(name):
        raise FileNotFoundError(f"no such file: {name}")
    ending = Path(name).suffix.lower()
    try:
        allowance = Allowance(name)
        if ending == ".npz":
            return _read_npz(name, allowance)
        if ending[1:] in MESHIO_ENDINGS:
            surface = surface_of(read_meshio(name, ending))
            if len(surface.faces) == 0:
                raise ValueError("it holds no faces")
            return surface
        if ending in REFUSED:
            raise ValueError(REFUSED[ending])
        if ending == ".zip":
            return _read_archive(unzipped(name, allowance), allowance, triangles_only, threads)
        named = NamedFiles(name, allowance)
        read = _read_one(name, None, named, allowance, triangles_only, threads)
        # trimesh continues without a file that was refused.
        if named.refused is not None:
            raise named.refused
        return read
    except ImportError as error:
        # For some modules, trimesh keeps only the message.
        missing = error.name or "".join(re.findall("No module named '([^']+)'", str(error)))
        if not missing:
            raise
        # trimesh needs charset_normalizer to guess an encoding.
        if missing != "charset_normalizer":
            reader = "meshio" if ending[1:] in MESHIO_ENDINGS else "trimesh"
            what = f"to read {ending} files, {reader} needs {missing}: pip install {missing}"
            raise ImportError(what, name=missing) from error
        why = "its text is not UTF-8, and charset_normalizer, which knows others, is not installed"
        raise ValueError(f"cannot read {name} as {expected}: {why}") from error
    except Exception as error:
        # Readers raise any exception on damaged files, some of them without a text.
        why = str(error) or type(error).__name__
        if isinstance(error, KeyError) and error.args:
            key = error.args[0]
            is_sentence = isinstance(key, str) and " " in key
            why = key if is_sentence else f"it refers to {key}, which it does not have"
        raise ValueError(f"cannot read {name} as {expected}: {why}") from error


def mesh_of_file(path: str | os.PathLike[str], threads: int | None = None) -> Surface:
    """Return the triangles of the mesh in a file; raise if it has none, or is a saved tree."""
    name = path_name(path)
    if os.path.isfile(name):
        with open(name, "rb") as file:
            if file.read(len(MAGIC)) in (MAGIC, SCENE_MAGIC):
                raise ValueError(f"{name} is a saved tree or scene: bvh.load opens it")
    read = read_file(name, "a mesh", triangles_only=True, threads=threads)
    check_has_faces(read, name)
    check_flattened(read, name)
    surface = surface_of(read, threads)
    if len(surface.faces) == 0:
        raise ValueError(f"{name} holds no triangles")
    return surface


def is_cloud(read: Any) -> bool:
    """Return whether `read`, the content of a file, is points without faces or lines."""
    # Attributes of meshes, of scenes, and of paths of lines.
    others = ("faces", "graph", "entities")
    return bool(len(getattr(read, "vertices", ()))) and not any(hasattr(read, k) for k in others)


def check_has_faces(read: Any, name: str) -> None:
    """Raise if `read`, the content of the file `name`, is no mesh or scene, but points or paths."""
    if not (hasattr(read, "faces") or hasattr(read, "graph")):
        cure = ": BVH.from_points takes points" if is_cloud(read) else ""
        raise ValueError(f"{name} holds no triangles ({type(read).__name__}){cure}")


def check_flattened(read: Any, name: str, allowance: Allowance | None = None) -> None:
    """Raise if `read` is a scene whose instances, as one mesh, exceed the file's allowance.

    Instances share a mesh, so a small file may have more triangles than fit into memory. None gives
    the file `name` a new allowance.
    """
    allowance = Allowance(name) if allowance is None else allowance
    for node in read.graph.nodes_geometry if is_graph(read) else ():
        mesh = read.geometry[read.graph[node][1]]
        if hasattr(mesh, "faces"):
            size = mesh.vertices.nbytes + mesh.faces.nbytes
            allowance.take(size, f"{name}: its instances as one mesh")


def _read_one(
    name: str, data: bytes | None, resolver: Any, allowance: Allowance, triangles_only: bool,
    threads: int | None,
) -> object:  # fmt: skip
    """Return the content of one file as a mesh or scene of trimesh, or as a `Surface`.

    The file is `name` on the disk or, if `data` is not None, these bytes of that name in an
    archive. `resolver`, a trimesh resolver, reads the files that it names, and `allowance` limits
    what it unpacks to. `triangles_only` and `threads` are as in `read_file`.
    """
    ending = Path(name).suffix.lower()
    if ending in READERS:
        data = Path(name).read_bytes() if data is None else data
        # NumPy warns when signalling NaN become quiet ones.
        with np.errstate(invalid="ignore"):
            mesh = READERS[ending](data, resolver)
        surface = surface_of_polygons(mesh.points, mesh.corners, mesh.offsets, threads=threads)
        # Without faces, there is one offset: the file is a cloud of points.
        if triangles_only and len(mesh.offsets) > 1:
            return surface
        return as_trimesh(mesh, surface.faces, surface.face_ids, os.path.basename(name))
    import trimesh

    # A file in an archive is read as a scene, as by trimesh; old versions have no `load_scene`.
    load: Any = trimesh.load if data is None else getattr(trimesh, "load_scene", trimesh.load)
    content, kind, files = _made_safe(name, data, resolver, allowance)
    read = load(content, file_type=kind, resolver=files, process=False)
    if isinstance(read, trimesh.Scene):
        # With `repair_rigid`, trimesh changes matrices that are nearly rotations.
        read.graph.repair_rigid = None
        if ending in ENDINGS:
            read.metadata[NAMED] = True
    return read


def _read_archive(
    files: dict[str, bytes], allowance: Allowance, triangles_only: bool, threads: int | None
) -> object:
    """Return the meshes in an archive as a scene or, with `triangles_only`, a `Surface`.

    Meshes that cannot be read are left out, with a warning.
    """
    import trimesh

    meshes: list[Any] = []
    formats = {*trimesh.exchange.load.mesh_formats(), *MESHIO_ENDINGS} - COMMON
    resolver = trimesh.resolvers.ZipResolver(files)
    for name, data in files.items():
        ending = Path(name).suffix.lower()
        if ending not in READERS and ending[1:] not in formats:
            continue
        try:
            # trimesh would read the triangles alone, by meshio.
            if ending[1:] in MESHIO_ENDINGS:
                raise ValueError("it is read by meshio, which takes no archives: unpack it")
            read = _read_one(name, data, resolver, allowance, triangles_only, threads)
            if triangles_only:
                check_flattened(read, name, allowance)
            meshes.append(read)
        except TooLarge:
            raise
        except Exception as error:
            warn_caller(f"{name}, which is in an archive, is left out: {error}")
    if triangles_only:
        with_faces = [read for read in meshes if hasattr(read, "faces") or hasattr(read, "graph")]
        return joined([surface_of(read) for read in with_faces])
    scene: Any = trimesh.Scene()
    scene.graph.repair_rigid = None
    scenes = [one if is_graph(one) else trimesh.Scene([one]) for one in meshes]
    placed = [(k, one) for k, each in enumerate(scenes) for one in placements(each)]
    # `trimesh.append_scenes` makes names unique by random numbers.
    given = [one.name for _, one in placed]
    # The graph has a node "world".
    names = numbered(["world", *given], {"world", *given})[1:]
    for label, (k, (_, name, matrix)) in zip(names, placed, strict=True):
        scene.geometry[f"{k} {name}"] = scenes[k].geometry[name]
        scene.graph.update(label, matrix=np.vstack([matrix, [0, 0, 0, 1]]), geometry=f"{k} {name}")
    scene.metadata[NAMED] = True
    return scene


def _made_safe(
    name: str, data: bytes | None, named: Any, allowance: Allowance
) -> tuple[Any, str | None, Any]:
    """Return (file, format, resolver) for trimesh, with archives and glTF files rewritten.

    Arguments are as in `_read_one`. An unchanged file on the disk is returned as its name and the
    format None, anything else as a stream. The resolver is `named`, or one based on it.
    """
    ending = Path(name).suffix.lower()
    if ending == ".dae":
        text = Path(name).read_bytes() if data is None else data
        lost = sorted({element.decode() for element in re.findall(LOST, text)})
        if lost:
            warn_caller(f"elements of a COLLADA file are left out: {', '.join(lost)}")
    if ending in ENDINGS:
        data = Path(name).read_bytes() if data is None else data
        text, files = rewritten(data, ending == ".glb", named, allowance)
        return io.BytesIO(text), "gltf", files
    file = name if data is None else io.BytesIO(data)
    if ending in ZIPPED:
        import zipfile

        if zipfile.is_zipfile(file):
            contents = unzipped(file, allowance)
            contents = with_one_model(contents) if ending == ".3mf" else contents
            return as_zip(contents), ending[1:], named
    if data is None:
        return name, None, named
    # A new stream: `is_zipfile` has read the other one to its end.
    return io.BytesIO(data), ending[1:], named


def _read_npz(name: str, allowance: Allowance) -> Surface:
    """Return the triangles of the arrays "vertices" and "faces" of an .npz file, checked."""
    keys = "vertices", "faces"
    files = unzipped(name, allowance, [f"{key}.npy" for key in keys])
    if len(files) < len(keys):
        with np.load(name) as archive:
            names = ", ".join(map(repr, archive.files)) or "nothing"
        raise ValueError(f"it must hold 'vertices' and 'faces', and holds {names}")
    vertices, faces = (np.load(io.BytesIO(files[f"{key}.npy"])) for key in keys)
    points = rows("vertices", vertices)
    surface = paired(points, faces)
    return surface._replace(faces=face_rows("faces", surface.faces, len(points)))
