"""Reading of a saved scene: its tables are checked, and scenes are created from them.

Nothing is created from a table before its entries are known to be possible; the scenes take about
as much memory as the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import affine_maps
from bvh.io.container import HEADER_SIZE, read_arrays
from bvh.io.scene_format import UPS, SceneHeader, tables_end, tables_of
from bvh.io.tree_format import Header, unpacked
from bvh.io.trimesh_scenes import Attributes
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import kernel_input
from bvh.scene.flattened_instances import check_nesting
from bvh.scene.instances import MAX_ID, Instances, nested_scenes
from bvh.scene.scene import Scene
from bvh.tree.primitives import Triangles

Tables = dict[str, NDArray[Any]]

# Maps that are checked at a time, and matrices made for that.
CHUNK = 4096


def scene_of(
    header: SceneHeader,
    content: NDArray[np.uint8],
    tree_of: Callable[[Header, NDArray[np.uint8]], TreeBase],
    threads: int,
) -> Scene:
    """Return the scene of a file.

    Parameters
    ----------
    header : SceneHeader
    content : ndarray of uint8
        The whole file.
    tree_of : callable
        Returns the tree with a header and a file.
    threads : int

    Raises
    ------
    ValueError
        If the file is damaged or not valid; the message says how.
    """
    tables = read_arrays(content, tables_of(header), header.digests, threads)
    _check_counts(tables, header)
    _check_instances(tables, header)
    names = _names(tables)
    sizes = tables["trees"][:, 0]
    ends = tables_end(header) + np.cumsum(sizes)
    pieces = [content[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    headers = [unpacked(piece[:HEADER_SIZE].tobytes(), len(piece)) for piece in pieces]
    known = _attributes(tables, headers)
    trees = [tree_of(*pair) for pair in zip(headers, pieces, strict=True)]
    return _assembled(tables, names, trees, known)


def _refuse(bad: Any, what: str) -> None:
    if np.any(bad):
        raise ValueError(f"is not valid: {what}")


def _check_counts(tables: Tables, header: SceneHeader) -> None:
    """Check the counts and sizes that separate scenes, trees, names and attributes."""
    scenes, trees, lengths = tables["scenes"], tables["trees"], tables["lengths"]
    _refuse(scenes < 0, "a scene counts less than nothing")
    _refuse(scenes[:, 0] > header.instances, "a scene has more instances than there are")
    _refuse(sum(scenes[:, 0].tolist()) != header.instances, "its scenes do not share all instances")
    _refuse(scenes[:, 1] > MAX_ID, "a scene has given more ids than there are")
    _refuse(scenes[:, 2:] >= len(UPS), "a scene has no axis for up")
    for name in ("visible", "named"):
        _refuse(tables[name] > 1, f"{name} is neither yes nor no")
    _refuse(lengths < 0, "a name is shorter than nothing")
    _refuse(lengths[tables["named"] == 0], "something without a name has letters")
    _refuse(int(lengths.sum(dtype=np.int64)) != header.text, "its names do not share all letters")
    _refuse((trees[:, 1:] < 0) | (trees[:, 1:] > 1), "a tree has half an attribute")
    end = tables_end(header)
    _refuse((trees[:, 0] < HEADER_SIZE) | (trees[:, 0] > header.size), "a tree cannot be its size")
    _refuse(end + sum(trees[:, 0].tolist()) != header.size, "its trees are not its size")


def _check_instances(tables: Tables, header: SceneHeader) -> None:
    """Check ids, children and transforms."""
    counts, next_ids = tables["scenes"][:, :2].T
    ids, children = tables["ids"], tables["children"]
    scene = np.repeat(np.arange(header.scenes), counts)
    _refuse((ids < 0) | (ids >= next_ids[scene]), "an instance has an id that was not given")
    same = scene[1:] == scene[:-1]
    _refuse((ids[1:] <= ids[:-1]) & same, "its instances are not in the order of their ids")
    _refuse(children >= header.trees, "an instance is of a tree that there is not")
    inner = ~children.astype(np.int64)
    # This refuses scenes that hold themselves, and numbers that are out of range.
    _refuse((children < 0) & (inner >= scene), "a scene holds one that does not come before it")
    uses = np.bincount(children[children >= 0], minlength=header.trees)
    _refuse(uses == 0, "a tree is of no use")
    uses = np.bincount(inner[children < 0], minlength=header.scenes)
    _refuse(uses[:-1] == 0, "a scene is of no use")
    for begin in range(0, len(ids), CHUNK):
        part = tables["maps"][begin : begin + CHUNK].reshape(-1, 3, 4)
        whole = np.zeros((len(part), 4, 4))
        whole[:, :3], whole[:, 3, 3] = part, 1.0
        try:
            affine_maps("transforms", whole)
        except ValueError as error:
            raise ValueError(f"is not valid: behind instance {begin}, {error}") from None


def _names(tables: Tables) -> list[str | None]:
    """Return a name, or None, for each instance."""
    text, end = tables["text"].tobytes(), 0
    names: list[str | None] = []
    for named, length in zip(tables["named"].tolist(), tables["lengths"].tolist(), strict=True):
        begin, end = end, end + length
        try:
            names.append(text[begin:end].decode("utf-8", "surrogatepass") if named else None)
        except UnicodeDecodeError:
            raise ValueError(f"is not valid: name {len(names)} is not text") from None
    return names


def _attributes(tables: Tables, headers: list[Header]) -> list[Attributes]:
    """Return the vertex attributes of each tree."""
    counts = np.array([header.points for header in headers], np.int64)
    kinds = np.array([header.kind == Triangles.__name__.lower() for header in headers], np.bool_)
    found = []
    for k, name in enumerate(("normals", "uv")):
        has = tables["trees"][:, 1 + k] == 1
        _refuse(has & ~kinds, f"something without vertices has {name}")
        sizes = np.where(has, counts, 0)
        _refuse(int(sizes.sum()) != len(tables[name]), f"{name} do not fit the vertices")
        ends = np.cumsum(sizes)
        array = kernel_input(tables[name])
        found.append(
            [
                array[end - size : end] if given else None
                for given, end, size in zip(has, ends, sizes, strict=True)
            ]
        )
    return [Attributes(*pair) for pair in zip(*found, strict=True)]


def _assembled(
    tables: Tables, names: list[str | None], trees: list[TreeBase], known: list[Attributes]
) -> Scene:
    """Return the outermost scene."""
    scenes: list[Scene] = []
    total, end = len(tables["scenes"]), 0
    useful = [any(array is not None for array in one) for one in known]
    for count, next_id, *up in tables["scenes"].tolist():
        begin, end = end, end + count
        rows = slice(begin, end)
        codes = tables["children"][rows].astype(np.int64)
        # Scenes first, each kind ascending: so a scene that is saved again is the same file.
        keys, numbers = np.unique(np.where(codes < 0, ~codes, codes + total), return_inverse=True)
        # Copies: the tables are views of the file.
        columns = {
            "ids": tables["ids"][rows].copy(),
            "child": numbers.reshape(-1).astype(np.int32),
            "maps": tables["maps"][rows].reshape(-1, 3, 4).copy(),
            "masks": tables["masks"][rows].copy(),
            "visible": tables["visible"][rows] == 1,
        }
        named = zip(columns["ids"].tolist(), names[begin:end], strict=True)
        state = {
            "columns": columns,
            "children": [scenes[k] if k < total else trees[k - total] for k in keys.tolist()],
            "names": {k: name for k, name in named if name is not None},
            "next_id": next_id,
        }
        own = [k - total for k in keys.tolist() if k >= total and useful[k - total]]
        scene = Scene()
        scene._begin(Instances.of_state(state), {id(trees[k]): (trees[k], known[k]) for k in own})
        scene.up = UPS[up[0]] if up else UPS[0]
        scenes.append(scene)
    try:
        check_nesting(nested_scenes(scenes[-1]))
    except ValueError as error:
        raise ValueError(f"is not valid: {error}") from None
    return scenes[-1]
