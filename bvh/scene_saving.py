"""Saving scenes: all scenes and trees in one file, each once."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import thread_count
from bvh.hierarchy import Hierarchy
from bvh.instances import Assembly, below
from bvh.saving import contents_of, replace_file, written
from bvh.scene_content import SceneContent
from bvh.scene_file import UPS, SceneHeader, packed_scene, tables_end, tables_of
from bvh.tree_file import digest_of


class SceneSaving(SceneContent):
    """How a scene is saved."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """Write the scene to a file, for `bvh.load`.

        The file holds every tree and every nested scene once, instances with their ids, names,
        masks and transforms, what is up, and what is known of meshes (see `attributes`). It is
        written in one step, as that of `BVH.save`.

        Parameters
        ----------
        path : str or path-like
            The file, made or replaced.
        threads : int, optional
            Threads for the checksums; one for each CPU by default.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If `path` is something else than a file.

        Examples
        --------
        >>> import bvh, os, tempfile
        >>> scene = bvh.Scene()
        >>> scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), name="one")
        0
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     scene.save(os.path.join(folder, "scene.bvh"))
        ...     again = bvh.load(os.path.join(folder, "scene.bvh"))
        >>> again[0].name
        'one'
        """
        workers = thread_count(threads)
        parts = below(self)
        trees = _trees_of(parts)
        files = [contents_of(tree, workers) for tree in trees]
        known = [self.attributes(tree) for tree in trees]
        tables = _tables(parts, trees)
        tables["trees"] = _rows(
            [
                (size, given.vertex_normals is not None, given.uv is not None)
                for (size, _), given in zip(files, known, strict=True)
            ],
            3,
        )
        normals, uv = zip(*known, strict=True) if known else ((), ())
        tables["normals"], tables["uv"] = _joined(normals, 3), _joined(uv, 2)
        counts = [len(tables[k]) for k in ("scenes", "trees", "ids", "text", "normals", "uv")]
        header = SceneHeader._make((*counts, 0, (), tables["scenes"].shape[1] == 3))
        places = tables_of(header)
        stored = {}
        for place in places:
            array = np.ascontiguousarray(tables[place.name], place.dtype)
            stored[place.name] = array
        header = header._replace(
            size=tables_end(header) + sum(size for size, _ in files),
            digests=tuple(digest_of(stored[place.name], workers) for place in places),
        )
        start = written(packed_scene(header), places, stored)
        replace_file(os.fspath(path), itertools.chain(start, *(pieces for _, pieces in files)))


def _trees_of(parts: list[Assembly]) -> list[Hierarchy]:
    """Return the trees of some scenes, each once."""
    found: dict[int, Hierarchy] = {}
    for part in parts:
        for child in part._instances.children:
            if isinstance(child, Hierarchy):
                found.setdefault(id(child), child)
    return list(found.values())


def _tables(parts: list[Assembly], trees: list[Hierarchy]) -> dict[str, NDArray[Any]]:
    """Return the tables of instances, those of all scenes one behind another."""
    codes = {id(tree): k for k, tree in enumerate(trees)}
    codes |= {id(part): ~k for k, part in enumerate(parts)}
    columns: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("ids", "children", "maps", "masks", "visible", "named", "lengths")
    }
    texts: list[bytes] = []
    for part in parts:
        table = part._instances
        children = np.array([codes[id(child)] for child in table.children], np.int32)
        ids, maps = table.column("ids"), table.column("maps")
        # A str can hold what UTF-8 alone cannot.
        names = {k: name.encode("utf-8", "surrogatepass") for k, name in table.names.items()}
        numbers = ids.tolist()
        texts += [names[k] for k in numbers if k in names]
        rows = {
            "ids": ids,
            "children": children[table.column("child")],
            "maps": maps.reshape(len(maps), 12),
            "masks": table.column("masks"),
            "visible": table.column("visible"),
            "named": np.array([k in names for k in numbers], np.uint8),
            "lengths": np.array([len(names.get(k, b"")) for k in numbers], np.int32),
        }
        for name, column in rows.items():
            columns[name].append(column)
    tables = {name: np.concatenate(column) for name, column in columns.items()}
    scenes = [(len(part._instances), part._instances.next_id) for part in parts]
    ups = [part._up if isinstance(part, SceneContent) else UPS[0] for part in parts]
    tables["scenes"] = _rows(scenes, 2)
    if set(ups) != {UPS[0]}:
        codes_of_up = np.array([UPS.index(up) for up in ups], np.int64)
        tables["scenes"] = np.column_stack([tables["scenes"], codes_of_up])
    tables["text"] = np.frombuffer(b"".join(texts), np.uint8)
    return tables


def _rows(rows: list[Any], width: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), width)


def _joined(arrays: Any, width: int) -> NDArray[np.float64]:
    """Return the rows of all arrays that there are."""
    return np.concatenate([np.empty((0, width)), *(array for array in arrays if array is not None)])
