"""Nodes of trimesh scenes and their names, and attributes of their meshes."""

import re
from collections.abc import Hashable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import affine_maps
from bvh.io.gltf.files import NAMED, numbered
from bvh.io.materials import Material, material_of
from bvh.io.mesh_objects import is_graph
from bvh.runtime.arguments import number_of, owned
from bvh.runtime.caller_warnings import warn_caller

# Metadata key of meshes that trimesh has read from glTF: whether they are one part of several.
IN_GLTF = "from_gltf_primitive"
# Prefix of the names that trimesh invents for unnamed meshes of glTF.
UNNAMED = "GLTF"


class Attributes(NamedTuple):
    """Vertex attributes and base colours of a mesh, each None where the mesh has none.

    Attributes
    ----------
    vertex_normals : ndarray of float64, shape (n, 3), or None
    uv : ndarray of float64, shape (n, 2), or None
        Texture coordinates; NaN where a vertex has none.
    material : Material or None
        Colours for pictures: ``factor``, ``image``, ``vertex_colors`` and ``face_colors``.

    Examples
    --------
    >>> import bvh, numpy as np, trimesh
    >>> mesh = trimesh.creation.box()
    >>> mesh.visual = trimesh.visual.TextureVisuals(uv=np.zeros((8, 2)))
    >>> scene = bvh.Scene()
    >>> number = scene.add(mesh)
    >>> scene.attributes(scene[number].child).uv.shape
    (8, 2)
    """

    vertex_normals: NDArray[np.float64] | None = None
    uv: NDArray[np.float64] | None = None
    material: Material | None = None

    @property
    def reversed(self) -> bool:
        """Whether faces have their corners in reverse order, for nodes that reflect the mesh.

        `Scene.from_trimesh` makes such trees.

        Examples
        --------
        >>> import bvh, numpy as np, trimesh
        >>> scene = trimesh.Scene()
        >>> mirrored = np.diag([-1.0, 1.0, 1.0, 1.0])
        >>> name = scene.add_geometry(trimesh.creation.box(), transform=mirrored)
        >>> scene = bvh.Scene.from_trimesh(scene)
        >>> scene.attributes(scene[0].child).reversed
        True
        """
        return False

    def __repr__(self) -> str:
        arrays = ("vertex_normals", self.vertex_normals), ("uv", self.uv)
        parts = [f"{k} of {number_of(len(a), 'vertices')}" for k, a in arrays if a is not None]
        if self.material is not None:
            parts.append(repr(self.material))
        return f"Attributes({', '.join(parts) or 'none'})"


class ReversedAttributes(Attributes):
    """Attributes of a tree whose faces are reversed."""

    reversed = True


class Placement(NamedTuple):
    """A node of a scene graph: its unique name, the name of its mesh, and its affine map (3, 4)."""

    name: str
    geometry: str
    matrix: NDArray[np.float64]


def placements(scene: Any) -> list[Placement]:
    """Return the nodes of a trimesh scene that hold triangles, in its order; warn of others."""
    if not is_graph(scene):
        raise TypeError(f"trimesh_scene must be a trimesh.Scene, got {type(scene).__name__}")
    skipped: dict[str, str] = {}
    placed = []
    nodes = list(scene.graph.nodes_geometry)
    for node, label in zip(nodes, _labels(scene, nodes), strict=True):
        matrix, name = scene.graph.get(node)
        mesh = scene.geometry.get(name)
        if not (hasattr(mesh, "vertices") and hasattr(mesh, "faces")):
            skipped[label] = f"it holds no triangles ({type(mesh).__name__})"
            continue
        try:
            placed.append(Placement(label, name, affine_maps("its transform", matrix)))
        except (ValueError, TypeError) as error:
            skipped[label] = str(error)
    if skipped:
        (first, why), more = next(iter(skipped.items())), len(skipped) - 1
        others = f", and {number_of(more, 'nodes')} more" if more else ""
        warn_caller(f"node {first!r} is left out: {why}{others}")
    return placed


def _labels(scene: Any, nodes: list[Hashable]) -> list[str]:
    """Return a unique name for each node, the same each time a file is read."""
    # When trimesh reads glTF, each part of a mesh in several parts becomes a node. Its name is that
    # of the file's node, which is its parent, and six random digits. A node of the file without a
    # name gets its number as name, unless we have named it when we rewrote the file.
    is_rewritten = NAMED in getattr(scene, "metadata", ())
    labels: list[str | None] = []
    # The mesh of the first part of each unnamed node; labels that are names of nodes.
    first_of, exact = dict[Hashable, str](), set[str]()
    for node in nodes:
        name = scene.graph.get(node)[1]
        metadata = getattr(scene.geometry.get(name), "metadata", {})
        # Whether the mesh is a part of one in the file; None unless it is from glTF.
        in_parts = metadata.get(IN_GLTF) if hasattr(metadata, "get") else None
        parent = scene.graph.transforms.parents.get(node)
        is_part = in_parts and re.fullmatch(re.escape(str(parent)) + "_[0-9a-f]{6}", str(node))
        owner = parent if is_part else node
        label = str(owner)
        if in_parts is not None and not is_rewritten and label.isdigit():
            # An unnamed node is called like its mesh, unless trimesh has invented that name, too.
            label = label if str(name).startswith(UNNAMED) else first_of.setdefault(owner, name)
        else:
            exact.add(label)
        labels.append(label)
    return [str(name) for name in numbered(labels, exact)]


def up_of(scene: Any) -> Literal["y", "z"]:
    """Return the axis that is up: y in scenes that trimesh has read from glTF, else z."""
    meshes = scene.geometry.values()
    return "y" if any(IN_GLTF in getattr(mesh, "metadata", ()) for mesh in meshes) else "z"


def attributes_of(mesh: object) -> Attributes:
    """Return the attributes that a mesh of trimesh was given, or has computed already."""
    vertices = getattr(mesh, "vertices", None)
    if vertices is None or not hasattr(mesh, "faces"):
        return Attributes()
    # The property would compute missing normals, which may take longer than building the tree.
    is_cached = "vertex_normals" in getattr(mesh, "_cache", ())
    normals = _array_of(mesh, "vertex_normals", len(vertices), 3) if is_cached else None
    uv = _array_of(getattr(mesh, "visual", None), "uv", len(vertices), 2)
    return Attributes(normals, uv, material_of(mesh, IN_GLTF in getattr(mesh, "metadata", ())))


def _array_of(owner: object, name: str, count: int, width: int) -> NDArray[np.float64] | None:
    """Return the attribute `name` of an object as an array (count, width); None if it has none."""
    try:
        array = np.asarray(getattr(owner, name, None), np.float64)
    except (AttributeError, TypeError, ValueError):
        # A mesh of another library, or something else than an array.
        return None
    # A third texture coordinate is not used.
    fits = array.ndim == 2 and len(array) == count and array.shape[1] >= width
    return owned(array[:, :width]) if fits else None
