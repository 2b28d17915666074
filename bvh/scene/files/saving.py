"""`Scene.save`: all scenes and trees in one file, each once."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import digest_of, file_pieces, replace_file
from bvh.io.scene_format import UPS, SceneHeader, packed_scene, tables_end, tables_of
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import thread_count
from bvh.scene.content import SceneContent
from bvh.scene.instances import InstanceHolder, nested_scenes


class SceneSaving(SceneContent):
    """The method of `Scene` that saves it."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """Write the scene to a file, for `bvh.load`.

        The file holds every tree and every nested scene once, the instances with their ids, names,
        masks and transforms, the axis that is up, and the vertex attributes of meshes (see
        `attributes`). It is written atomically, as by `BVH.save`.

        Parameters
        ----------
        path : str or path-like
            The file, created or replaced.
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
        parts = nested_scenes(self)
        trees = list({
            id(child): child
            for part in parts for child in part._instances.children if isinstance(child, TreeBase)
        }.values())  # fmt: skip
        files = [tree._file_contents(workers) for tree in trees]
        known = [self.attributes(tree) for tree in trees]
        tables = _instance_tables(parts, trees) | {"scenes": _scene_table(parts)}
        tables["trees"] = _integer_rows(
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
        entries = tables_of(header)
        stored = {e.name: np.ascontiguousarray(tables[e.name], e.dtype) for e in entries}
        header = header._replace(
            size=tables_end(header) + sum(size for size, _ in files),
            digests=tuple(digest_of(array, workers) for array in stored.values()),
        )
        start = file_pieces(packed_scene(header), entries, stored)
        replace_file(os.fspath(path), itertools.chain(start, *(pieces for _, pieces in files)))


def _instance_tables(parts: list[InstanceHolder], trees: list[TreeBase]) -> dict[str, NDArray[Any]]:
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
    return tables | {"text": np.frombuffer(b"".join(texts), np.uint8)}


def _scene_table(parts: list[InstanceHolder]) -> NDArray[np.int64]:
    """Return instances, next id, and where it is not z everywhere the axis that is up, by scene."""
    scenes = _integer_rows([(len(part._instances), part._instances.next_id) for part in parts], 2)
    ups = [UPS.index(part._up) if isinstance(part, SceneContent) else 0 for part in parts]
    return np.column_stack([scenes, np.array(ups, np.int64)]) if any(ups) else scenes


def _integer_rows(rows: list[Any], width: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), width)


def _joined(arrays: Any, width: int) -> NDArray[np.float64]:
    """Return the rows of all arrays that are not None."""
    return np.concatenate([np.empty((0, width)), *(array for array in arrays if array is not None)])
