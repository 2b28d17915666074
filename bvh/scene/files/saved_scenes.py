"""Saved scenes: `Scene.save` writes each scene and tree once; `scene_of` checks and reads a file.

Entries of tables are checked before anything is created.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import affine_maps
from bvh.io import file_formats
from bvh.io.container import HEADER_SIZE, file_pieces, read_arrays, replace_file
from bvh.io.materials import Material
from bvh.io.trimesh_scenes import Attributes, ReversedAttributes
from bvh.queries.tree_base import TreeBase, file_size_and_pieces
from bvh.runtime.arguments import kernel_input
from bvh.scene.files.saved_materials import packed_materials, unpacked_materials
from bvh.scene.leaves import check_nesting
from bvh.scene.scene_content import SceneContent
from bvh.scene.table import MAX_ID, InstanceHolder, Instances, matrices_of, nested_scenes
from bvh.tree.primitives import Triangles

Tables = dict[str, NDArray[Any]]
AnyScene = TypeVar("AnyScene", bound=SceneContent)

# Maps that are checked at a time, as matrices.
CHUNK = 4096


def save_scene(scene: SceneContent, path: str | os.PathLike[str], threads: int) -> None:
    """Write a scene to a file (see `Scene.save`); `threads` threads compute digests."""
    parts = nested_scenes(scene)
    children = {id(child): child for part in parts for child in part._instances.children}
    trees = [child for child in children.values() if isinstance(child, TreeBase)]
    contents = [file_size_and_pieces(tree, threads) for tree in trees]
    # The size of each tree's file in bytes, and the pieces of its content.
    sizes, pieces = zip(*contents, strict=True) if contents else ((), ())
    attributes = [scene.attributes(tree) for tree in trees]
    normals, uv, materials = zip(*attributes, strict=True) if attributes else ((), (), ())
    given = [material for material in materials if material is not None]
    ups = [file_formats.UPS.index(part._up) for part in parts]
    counts = [(len(part._instances), part._instances.next_id) for part in parts]
    # The columns of "scenes" and "trees" are described in `_check_counts`.
    tables: dict[str, Any] = _instance_tables(parts, trees, given) | {
        "scenes": [(*count, up) for count, up in zip(counts, ups, strict=True)],
        "trees": [
            (size, *(array is not None for array in of_tree), of_tree.reversed)
            for size, of_tree in zip(sizes, attributes, strict=True)
        ],
        "normals": _joined(normals, 3),
        "uv": _joined(uv, 2),
    }
    rows = [len(tables[k]) for k in ("scenes", "trees", "ids", "text", "normals", "uv")]
    # A header without its last two fields, size and digests, on which the end does not depend.
    blank = file_formats.SceneHeader._make((*rows, 0, ()))
    end = file_formats.tables_end(blank) + sum(sizes)
    header = blank._replace(size=end)
    start = file_pieces(
        file_formats.tables_of(header), tables,
        lambda digests: file_formats.packed_scene(header._replace(digests=digests)), threads,
    )  # fmt: skip
    replace_file(path, itertools.chain(start, *pieces))


def _instance_tables(
    parts: list[InstanceHolder], trees: list[TreeBase], materials: list[Material]
) -> dict[str, Any]:
    """Return the columns of the instances of all scenes `parts`, one after another, by name.

    "lengths" has the number of bytes of each name, and "text" all names, then all `materials`.
    `trees` are the trees of all scenes, in the order of the file.
    """
    # In a file, a child is k for tree k, or ~k for scene k, which is below 0.
    codes = {id(tree): k for k, tree in enumerate(trees)}
    codes |= {id(part): ~k for k, part in enumerate(parts)}
    tables = [part._instances for part in parts]
    names = "ids", "maps", "masks", "visible"
    columns = {k: np.concatenate([table.column(k) for table in tables]) for k in names}
    children = [
        np.array([codes[id(child)] for child in table.children], np.int32)[table.column("child")]
        for table in tables
    ]
    names_of = [table.names.get(k) for table in tables for k in table.column("ids").tolist()]
    # Strings may contain surrogates.
    texts = [b"" if name is None else name.encode("utf-8", "surrogatepass") for name in names_of]
    return columns | {
        "children": np.concatenate(children),
        "named": [name is not None for name in names_of],
        "lengths": [len(text) for text in texts],
        "text": np.frombuffer(b"".join([*texts, packed_materials(materials)]), np.uint8),
    }


def _joined(arrays: Any, width: int) -> NDArray[np.float64]:
    """Return the rows of all `arrays`, (n, width) or None, one array after another."""
    return np.concatenate([np.empty((0, width)), *(array for array in arrays if array is not None)])


def scene_of(
    header: file_formats.SceneHeader, content: NDArray[np.uint8],
    tree_of: Callable[[file_formats.TreeHeader, NDArray[np.uint8]], TreeBase],
    new_scene: Callable[[], AnyScene], threads: int,
) -> AnyScene:  # fmt: skip
    """Return the scene of a file; ValueError if its tables or the headers of its trees are wrong.

    `header` is its checked header, and `content` its bytes, whose tables `threads` threads check.
    `tree_of` makes a tree from its header and bytes, and `new_scene` an empty scene.
    """
    tables = read_arrays(content, file_formats.tables_of(header), header.digests, threads)
    _check_counts(tables, header)
    _check_instances(tables, header)
    names, sizes = _names(tables), tables["trees"][:, 0]
    ends = file_formats.tables_end(header) + np.cumsum(sizes)
    pieces = [content[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    headers = [file_formats.unpacked(piece[:HEADER_SIZE].tobytes(), len(piece)) for piece in pieces]
    attributes = _attributes(tables, headers)
    trees = [tree_of(*pair) for pair in zip(headers, pieces, strict=True)]
    return _assembled(tables, names, trees, attributes, new_scene)


def _refuse(bad: Any, what: str) -> None:
    """Raise a ValueError that says `what` if `bad`, a truth value or an array of these, is true."""
    if np.any(bad):
        raise ValueError(f"is not valid: {what}")


def _check_counts(tables: Tables, header: file_formats.SceneHeader) -> None:
    """Raise a ValueError for wrong counts or sizes of scenes, trees, names or attributes.

    A row of "scenes" has the number of instances, the next id, and the index of the up axis in UPS.
    A row of "trees" has the size in bytes, and four flags: whether there are normals, texture
    coordinates and a material, and whether faces are reversed.
    """
    scenes, trees, lengths = tables["scenes"], tables["trees"], tables["lengths"]
    _refuse(scenes < 0, "a scene counts less than nothing")
    _refuse(scenes[:, 0] > header.instances, "a scene has more instances than there are")
    _refuse(sum(scenes[:, 0].tolist()) != header.instances, "its scenes do not share all instances")
    _refuse(scenes[:, 1] > MAX_ID, "a scene has given more ids than there are")
    _refuse(scenes[:, 2:] >= len(file_formats.UPS), "a scene has no axis for up")
    for name in ("visible", "named"):
        _refuse(tables[name] > 1, f"{name} is neither yes nor no")
    _refuse(lengths < 0, "a name is shorter than nothing")
    _refuse(lengths[tables["named"] == 0], "something without a name has letters")
    # The text may be longer than all names: materials follow them.
    beyond = header.text - int(lengths.sum(dtype=np.int64))
    _refuse(beyond < 0, "its names do not share all letters")
    _refuse((trees[:, 1:] < 0) | (trees[:, 1:] > 1), "a tree has half an attribute")
    end = file_formats.tables_end(header)
    _refuse((trees[:, 0] < HEADER_SIZE) | (trees[:, 0] > header.size), "a tree cannot be its size")
    _refuse(end + sum(trees[:, 0].tolist()) != header.size, "its trees are not its size")


def _check_instances(tables: Tables, header: file_formats.SceneHeader) -> None:
    """Raise a ValueError for wrong ids, children or transforms of instances."""
    counts, next_ids = tables["scenes"][:, :2].T
    ids, children = tables["ids"], tables["children"]
    scene = np.repeat(np.arange(header.scenes), counts)
    _refuse((ids < 0) | (ids >= next_ids[scene]), "an instance has an id that was not given")
    same = scene[1:] == scene[:-1]
    _refuse((ids[1:] <= ids[:-1]) & same, "its instances are not in the order of their ids")
    _refuse(children >= header.trees, "an instance is of a tree that there is not")
    # A child below 0 is ~k for scene k.
    inner = ~children.astype(np.int64)
    # A scene may only have instances of scenes before it, which excludes cycles, too.
    _refuse((children < 0) & (inner >= scene), "a scene holds one that does not come before it")
    uses = np.bincount(children[children >= 0], minlength=header.trees)
    _refuse(uses == 0, "a tree is not used")
    uses = np.bincount(inner[children < 0], minlength=header.scenes)
    # All but the last scene, the outermost, must be nested in another.
    _refuse(uses[:-1] == 0, "a scene is not used")
    for begin in range(0, len(ids), CHUNK):
        part = tables["maps"][begin : begin + CHUNK].reshape(-1, 3, 4)
        try:
            affine_maps("transforms", matrices_of(part))
        except ValueError as error:
            raise ValueError(f"is not valid: behind instance {begin}, {error}") from None


def _names(tables: Tables) -> list[str | None]:
    """Return the name of each instance, or None; ValueError if a name is not UTF-8."""
    text, end = tables["text"][: tables["lengths"].sum(dtype=np.int64)].tobytes(), 0
    names: list[str | None] = []
    for named, length in zip(tables["named"].tolist(), tables["lengths"].tolist(), strict=True):
        begin, end = end, end + length
        try:
            names.append(text[begin:end].decode("utf-8", "surrogatepass") if named else None)
        except UnicodeDecodeError:
            raise ValueError(f"is not valid: name {len(names)} is not text") from None
    return names


def _attributes(tables: Tables, headers: list[file_formats.TreeHeader]) -> list[Attributes]:
    """Return the attributes of each tree, given trees' headers; ValueError if they do not fit."""
    counts = np.array([header.points for header in headers], np.int64)
    is_mesh = np.array([header.kind == Triangles.__name__.lower() for header in headers], np.bool_)
    # Vertex normals, texture coordinates and materials, each with one entry a tree.
    columns: list[list[Any]] = []
    for k, name in enumerate(("normals", "uv")):
        has = tables["trees"][:, 1 + k] == 1
        _refuse(has & ~is_mesh, f"something without vertices has {name}")
        sizes = np.where(has, counts, 0)
        _refuse(int(sizes.sum()) != len(tables[name]), f"{name} do not fit the vertices")
        parts = np.split(kernel_input(tables[name]), np.cumsum(sizes))[:-1]
        columns.append([part if given else None for part, given in zip(parts, has, strict=True)])
    columns.append(_materials(tables, headers))
    are_reversed: NDArray[np.bool_] = tables["trees"][:, 4] == 1
    _refuse(are_reversed & ~is_mesh, "something without faces has them reversed")
    classes = [ReversedAttributes if flag else Attributes for flag in are_reversed.tolist()]
    return [kind(*arrays) for kind, *arrays in zip(classes, *columns, strict=True)]


def _materials(tables: Tables, headers: list[file_formats.TreeHeader]) -> list[Material | None]:
    """Return the material of each tree, or None; ValueError if it is not valid."""
    has = (tables["trees"][:, 3] == 1).tolist()
    misplaced = any(h.kind != "triangles" and given for h, given in zip(headers, has, strict=True))
    _refuse(misplaced, "something without vertices has a material")
    counts = [(h.points, h.primitives) for h, given in zip(headers, has, strict=True) if given]
    # Materials are behind all names.
    begin = int(tables["lengths"].sum(dtype=np.int64))
    materials = iter(unpacked_materials(tables["text"][begin:], counts))
    return [next(materials) if given else None for given in has]


def _assembled(
    tables: Tables, names: list[str | None], trees: list[TreeBase], attributes: list[Attributes],
    new_scene: Callable[[], AnyScene],
) -> AnyScene:  # fmt: skip
    """Return the outermost scene, which is the last one in the file, after those nested in it.

    `names` are those of all instances, `attributes` those of `trees`; `new_scene` makes an empty
    scene. A child in "children" is the index of a tree, or ~k, below 0, for scene k.
    """
    scenes: list[AnyScene] = []
    total, end = len(tables["scenes"]), 0
    # Whether a tree has any attributes, or reversed faces.
    has_any = [each.reversed or any(array is not None for array in each) for each in attributes]
    for count, next_id, up in tables["scenes"].tolist():
        begin, end = end, end + count
        rows = slice(begin, end)
        codes = tables["children"][rows].astype(np.int64)
        # Keys of children: k of scene k, total + k of tree k. Children are in the order of keys, so
        # that saving again writes the same file.
        keys, numbers = np.unique(np.where(codes < 0, ~codes, codes + total), return_inverse=True)
        # Copied, as the tables are views of the file.
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
        with_any = [k - total for k in keys.tolist() if k >= total and has_any[k - total]]
        scene = new_scene()
        by_id = {id(trees[k]): (trees[k], attributes[k]) for k in with_any}
        scene._begin(Instances.of_state(state), by_id)
        scene._up = file_formats.UPS[up]
        scenes.append(scene)
    try:
        check_nesting(nested_scenes(scenes[-1]))
    except ValueError as error:
        raise ValueError(f"is not valid: {error}") from None
    return scenes[-1]
