"""Saved trees and scenes, and `bvh.load_scene`: scenes of other formats.

Files are not trusted. A header is checked before anything is created from it. Arrays are checked by
their digests and for soundness before any kernel runs on them: in `load` or, for a mapped tree, at
its first use. Until then such a tree has no arrays, and the first access of them runs the check, so
no query can go past it, and later ones pay nothing for it (see `TreeBase.__getattr__`).
"""

from __future__ import annotations

import contextlib
import mmap as mmap_module
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io import file_formats
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE, end_of, read_arrays
from bvh.io.mesh_files import check_has_faces, read_file
from bvh.io.meshes import Surface
from bvh.io.untrusted import check_primitives, check_tree
from bvh.io.untrusted_files import opened, path_name
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_base import MappedFile, TreeBase, is_in_use
from bvh.runtime.arguments import Axis, Quality, kernel_input, thread_count
from bvh.runtime.caller_warnings import warn_caller
from bvh.runtime.forks import ForkSafeLock
from bvh.runtime.memory import aligned
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.simd import WIDTH
from bvh.scene.files.saved_scenes import scene_of
from bvh.scene.scene import Scene
from bvh.scene.table import nested_scenes
from bvh.tree.arrays import TreeArrays, frozen, frozen_primitives
from bvh.tree.build import build
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import KINDS
from bvh.tree.triangle_groups import GROUP_SIZE
from bvh.tree.wide_nodes import WideNodes

AnyHeader = file_formats.TreeHeader | file_formats.SceneHeader

CLASSES = {kind.__name__.lower(): kind for kind in (Triangles, *KINDS)}

# Held while a mapped tree is checked, so that two threads never set its arrays.
_guard = ForkSafeLock()


def load(
    path: str | os.PathLike[str], *, mmap: bool = False, verify: bool = True, audit: bool = False,
    threads: int | None = None,
) -> BVH | Scene:  # fmt: skip
    """Return the tree or scene of a file that was saved; see `bvh.load`.

    With `mmap`, the file `path` is mapped instead of read; `verify` checks its content against
    digests and for soundness, by `threads` threads; `audit` also validates each tree.
    """
    workers, name = thread_count(threads), path_name(path)
    with prefixed(name), opened(name) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(HEADER_SIZE)
        header = _header_of(start, size)
        content = np.memmap(file, np.uint8, "r", 0, size) if mmap else _read(file, start, size)
    with prefixed(name):
        loaded, trees = _loaded(name, header, content, workers, mmap, verify)
        for tree in trees if audit else ():
            tree.validate()
    return loaded


def loaded_from(name: str, content: NDArray[np.uint8]) -> BVH | Scene:
    """Return the tree or scene in `content`, the mapped file `name` or a part of that file."""
    with prefixed(name):
        header = _header_of(content[:HEADER_SIZE].tobytes(), len(content))
        return _loaded(name, header, content, thread_count(None), mmap=True, verify=True)[0]


def _header_of(start: bytes, size: int) -> AnyHeader:
    """Return the checked header of a scene or tree: `start` of a file of `size` bytes."""
    is_scene = start.startswith(file_formats.SCENE_MAGIC)
    return (file_formats.unpacked_scene if is_scene else file_formats.unpacked)(start, size)


def _loaded(
    name: str, header: AnyHeader, content: NDArray[np.uint8], workers: int, mmap: bool, verify: bool
) -> tuple[BVH | Scene, list[BVH]]:
    """Return (the tree or scene in a file, all trees in it).

    `name` is the file in errors, `header` its checked header and `content` its bytes, which are
    mapped if `mmap`. If `verify`, `workers` threads check them, for mapped trees at the first use.
    """
    trees: list[BVH] = []
    # The header of the file, and those of the trees in a scene.
    headers = [content[:HEADER_SIZE].tobytes()]

    def tree_of(header: file_formats.TreeHeader, content: NDArray[np.uint8]) -> BVH:
        """Return the tree in `content`, a part of the file; add it and its header to the lists."""
        trees.append(_tree(_SavedTree(name, header, content, workers), mmap, verify))
        headers.append(content[:HEADER_SIZE].tobytes())
        return trees[-1]

    if isinstance(header, file_formats.TreeHeader):
        return tree_of(header, content), trees
    scene = scene_of(header, content, tree_of, Scene, workers)
    if mmap:
        # Headers have the digests of all content. Only the outermost scene equals the whole file:
        # nested ones get no checksum, and so no `source`.
        checksum = blake2b(b"".join(headers), digest_size=DIGEST_SIZE).hexdigest()
        file = _mapped(content)
        for part in nested_scenes(scene):
            part._saved = None if file is None else file._replace(checksum="")
        scene._saved = None if file is None else file._replace(checksum=checksum)
    return scene, trees


def load_scene(
    path: str | os.PathLike[str], *, up: Axis | None = None, quality: Quality = "medium",
    threads: int | None = None, progress: ProgressLike | None = None,
) -> Scene:  # fmt: skip
    """Read a scene from a file: glTF, GLB, or any other format that trimesh or meshio reads.

    Each mesh becomes one tree, however often it is used. Vertices and faces keep their order. The
    parts of an OBJ file are its objects, or groups where there are no objects or one has several,
    divided by images. Solids of an STL file are parts, too.

    glTF 2.0 is read in its rest pose, with sparse and quantized accessors, strips, fans, default
    weights of morph targets and EXT_mesh_gpu_instancing. The outside of mirrored nodes stays
    outside (see `Scene.from_trimesh`).

    Parameters
    ----------
    path : str or path-like
        Files of `Scene.save` are read by `bvh.load`. A .npz file holds ``vertices`` and ``faces``.
    up : {"x", "y", "z", "-x", "-y", "-z"}, optional
        The axis that is up (see `Scene.up`); by default y in glTF, z in all else.
    quality, threads, progress
        As in `Scene.from_trimesh`.

    Returns
    -------
    Scene
        As of `Scene.from_trimesh`; a mesh that trimesh does not read gets the name of the file.

    Raises
    ------
    ValueError
        If the file cannot be read, needs an extension of glTF that is not supported, such as a
        compression, has no triangles, or would unpack to 1 GiB (or BVH_MAX_UNPACKED bytes) more
        than eight times its size.
    FileNotFoundError
        If there is no such file.
    ImportError
        If meshio is not installed, for files such as .vtu and .msh.

    Warns
    -----
    BVHWarning
        If skins, points or lines of glTF are ignored, or positions are outside the bounds in the
        file.

    Examples
    --------
    >>> import bvh, os, tempfile, trimesh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "ball.glb")
    ...     _ = trimesh.Scene({"ball": trimesh.creation.icosphere()}).export(path)
    ...     scene = bvh.load_scene(path)
    >>> scene[0].name, scene.up
    ('ball', 'y')
    """
    import trimesh

    options: dict[str, Any] = {"quality": quality, "threads": threads, "progress": progress}
    content = read_file(path, "a scene", threads=threads)
    if isinstance(content, Surface):
        scene = Scene()
        scene.add(BVH.from_mesh(content, **options), name=Path(path).stem)
        scene.up = "z" if up is None else up
    else:
        if not isinstance(content, trimesh.Scene):
            # A mesh, or a path, which is left out with a warning.
            content = trimesh.Scene([content])
        scene = Scene.from_trimesh(content, up=up, **options)
    # Readers return an empty scene for many damaged files.
    if not any(len(tree) for tree in scene.leaves.trees):
        for mesh in () if isinstance(content, Surface) else content.geometry.values():
            check_has_faces(mesh, os.fspath(path))
        raise ValueError(f"{os.fspath(path)} holds no triangles: it is empty, or damaged")
    return scene


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as saved trees, or saved scenes, do."""
    with opened(os.fspath(path)) as file:
        return file.read(len(file_formats.MAGIC)) in (file_formats.MAGIC, file_formats.SCENE_MAGIC)


@contextlib.contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Begin the message of a ValueError with a prefix (a file's name), unless it does already."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(f"{prefix}: "):
            raise
        raise ValueError(f"{prefix}: {error}") from None


def _read(file: FileIO, start: bytes, size: int) -> NDArray[np.uint8]:
    """Return the bytes of a file; ValueError if its header is not `start`, which was checked."""
    content = aligned(size, np.uint8)
    file.seek(0)
    # A system call may read only a part; the buffered reader continues to the end.
    with BufferedReader(file) as reader:
        done = reader.readinto(content.data)
    if done < size or content[:HEADER_SIZE].tobytes() != start:
        raise ValueError("was changed while it was read")
    return content


def _is_cut_off(content: Any) -> bool:
    """Return whether a mapped file has become shorter than its map."""
    # The base of all views is the map: len() is what was mapped, `size()` that of the file now.
    while isinstance(content, np.ndarray):
        content = content.base
    return isinstance(content, mmap_module.mmap) and content.size() < len(content)


def _mapped(content: Any) -> MappedFile | None:
    """Return the file, and the place in it, of `content`, the bytes of a saved tree or scene.

    None unless `content` is a view of a map that begins where its file does.
    """
    whole = content
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if not isinstance(whole, np.memmap) or whole.filename is None or whole.offset:
        return None
    path = os.path.abspath(str(whole.filename))
    # A header ends with its digest.
    checksum = content[HEADER_SIZE - DIGEST_SIZE : HEADER_SIZE].tobytes().hex()
    return MappedFile(path, whole, content.ctypes.data - whole.ctypes.data, checksum)


@dataclass
class _SavedTree:
    """A tree's file, or its part of a scene's file, with its checked header."""

    name: str  # of the file, for messages
    header: file_formats.TreeHeader
    content: NDArray[np.uint8]
    threads: int  # the number that checks and builds may use
    flaw: str = ""  # the error of a mapped tree that is not valid, once known

    def fill(self, tree: TreeBase, verify: bool) -> None:
        """Set the arrays of `tree` from the file, checked if `verify`.

        If the file was saved for vectors of another width, the tree is built from its primitives.
        """
        header, kind = self.header, CLASSES[self.header.kind]
        entries = file_formats.entries_of(header)
        assert len(self.content) == end_of(entries)
        digests = header.digests if verify else None
        with prefixed(self.name):
            stored = read_arrays(self.content, entries, digests, self.threads)
            face_ids, bits = stored.get("face_ids"), stored.get("face_bits")
            if verify and face_ids is not None and (face_ids < 0).any():
                raise ValueError("is not valid: a face has a number below 0")
            fields = [stored[name] for name in file_formats.PRIMITIVE_ARRAYS if name in stored]
            primitives = frozen_primitives(kind(*fields))
            if header.width == WIDTH:
                # Compact groups have int16 instead of float32: half as many numbers of 4 bytes.
                groups, size = stored["groups"], GROUP_SIZE // 2 if header.compact else GROUP_SIZE
                # The rows of leaves: ids of shapes, or the groups of triangles, which hold the ids.
                of_groups = groups.view(np.int32).reshape(-1, size)
                rows = of_groups if kind is Triangles else stored["ids"]
                nodes = WideNodes(stored["blocks"], rows)
                arrays = frozen(TreeArrays(nodes, groups, primitives, stored["frame"]))
                if verify:
                    with prefixed("is not valid"):
                        check_tree(arrays, np.array(header.bounds).reshape(2, 3), self.threads)
            else:
                with prefixed("is not valid"):
                    check_primitives(primitives, self.threads)
                # Copies, so that nothing refers to the file, which is not needed any more.
                primitives = frozen_primitives(kind(*(array.copy() for array in fields)))
                face_ids = None if face_ids is None else face_ids.copy()
                bits = None if bits is None else bits.copy()
                lanes = np.int16 if header.compact else np.float32
                arrays, tree._bounds = build(
                    primitives, header.quality, self.threads, progress=None, lanes=lanes
                )
        tree._face_ids = None if face_ids is None else kernel_input(face_ids)
        tree._set_arrays(arrays)
        tree._set_groups(None if bits is None else kernel_input(bits))

    def first_use(self, tree: TreeBase) -> None:
        """Check and set a mapped tree's arrays, unless they are set; ValueError if not valid."""
        with _guard.lock:
            if self.flaw:
                raise ValueError(self.flaw)
            # Another thread may have set them while this one waited for the lock.
            if not is_in_use(tree):
                try:
                    if _is_cut_off(self.content):
                        # Reading what is missing would end the process with a bus error.
                        raise ValueError(f"{self.name}: was cut off after it was mapped")
                    self.fill(tree, True)
                except ValueError as error:
                    self.flaw = str(error)
                    raise


def _tree(saved: _SavedTree, mmap: bool, verify: bool) -> BVH:
    """Return the tree of a file, built again if it was saved for vectors of another width.

    Otherwise, if `mmap` and `verify`, its arrays are checked and set at its first use.
    """
    tree, header = object.__new__(BVH), saved.header
    tree._bounds = kernel_input(np.array(header.bounds).reshape(2, 3))
    tree._quality, tree._build_seconds = header.quality, header.seconds
    if mmap and header.width != WIDTH:
        what = f"{saved.name} was saved for vectors of {header.width}"
        warn_caller(f"{what}; it is read and built again for vectors of {WIDTH}")
    if mmap and header.width == WIDTH:
        tree._source = _mapped(saved.content)
    if mmap and verify and header.width == WIDTH:
        tree._first_use = saved.first_use
    else:
        saved.fill(tree, verify)
    return tree
