"""Drawing of a scene in page coordinates: the meshes sent, and boxes for those beyond the limit."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.io.materials import Material, can_be_decoded
from bvh.io.trimesh_scenes import Attributes
from bvh.picking import projected
from bvh.picking.projected import BOX_FACES, outlines_of
from bvh.pictures.drawn_shapes import faces_of_each, is_round, rounded, thickened
from bvh.queries.hierarchy import BVH
from bvh.scene.leaves import Leaves
from bvh.scene.scene import Scene
from bvh.tree.arrays import TreeArrays
from bvh.tree.primitives import THIN, Triangles
from bvh.tree.shapes import shape_of

Floats = NDArray[np.float64]

# Limit of faces sent to a page, and of those drawn, with copies, as a multiple of it.
MAX_FACES = 2_000_000
DRAWN_TIMES = 8
# Number of faces from which on meshes are shaded smoothly.
SMOOTH_FROM = 5000
# Colours of trees, all of one lightness, the first also of a single one.
PALETTE = np.array(
    [[205, 166, 132], [184, 178, 170], [150, 177, 192], [206, 180, 128], [168, 182, 150]], np.uint8
)
# Radius of points and segments as a share of the diagonal of their bounds.
THICKNESS = 0.0015
# Columns of a matrix are orthogonal if the cosines between them are below this.
SQUARE = 1e-6
# Smallest half extent of a scene that is not treated as a point.
SMALLEST = 2.0**-600
# Step between the tones of instances.
GOLDEN = 0.6180339887498949
# Bit k of a corner's index is the side along axis k; an edge joins two that differ in one bit.
EDGES = np.array([(a, a | 1 << k) for k in range(3) for a in range(8) if not a >> k & 1])


@dataclass(frozen=True, eq=False)
class PageFrame:
    """Map from world to page coordinates: page = (world - centre) * scale.

    The browser stores vertices as float32 and has a fixed near plane, so the scene is moved to the
    origin and scaled to a largest half extent between 1 and 2. The scale is a power of two, so only
    sums are rounded.
    """

    centre: Floats
    scale: float

    @classmethod
    def around(cls, bounds: Floats) -> Self:
        """Return the frame for bounds (2, 3) of a scene; those of an empty scene are not finite."""
        if not np.isfinite(bounds).all():
            return cls(np.zeros(3), 1.0)
        centre = 0.5 * bounds[0] + 0.5 * bounds[1]
        half = float((0.5 * bounds[1] - 0.5 * bounds[0]).max())
        # frexp: half = m * 2**e with m from 0.5 to 1, so that 2**(1 - e) scales it to 1..2. A scene
        # that counts as a point is not scaled.
        k = 1 - math.frexp(half)[1] if half > SMALLEST else 0
        return cls(centre, math.ldexp(1.0, k))

    def to_page(self, points: ArrayLike) -> Floats:
        """Return world points, shape (..., 3), in page coordinates."""
        return np.asarray((np.asarray(points, np.float64) - self.centre) * self.scale)

    def to_world(self, points: ArrayLike) -> Floats:
        """Return page points, shape (..., 3), in world coordinates."""
        return np.asarray(np.asarray(points, np.float64) / self.scale + self.centre)

    def camera(
        self, wxyz: ArrayLike, position: ArrayLike, fov: float, width: int, height: int
    ) -> Camera:
        """Return a page's camera in world coordinates; its `position` is in page coordinates.

        The quaternion `wxyz` rotates from the camera, which looks along its z with y down, to the
        page. `fov`, the vertical field of view, is in radians, and the size in pixels.
        """
        from trimesh.transformations import quaternion_matrix

        _, down, along = quaternion_matrix(wxyz)[:3, :3].T  # type: ignore[no-untyped-call]
        made = Camera.look_at(np.zeros(3), along, -down, math.degrees(fov), width, height)
        # Directions are the same in page and world.
        return replace(made, eye=self.to_world(position))

    def ray_camera(self, origin: ArrayLike, direction: ArrayLike) -> Camera:
        """Return a camera in the world with one pixel, whose central ray is the one given.

        `origin` is in page coordinates; directions are the same in the world. The t of hits is the
        distance in the world.
        """
        along = np.asarray(direction, np.float64)
        # Any up direction that is not along the ray will do, and any field of view.
        up = np.eye(3)[int(np.abs(along).argmin())]
        made = Camera.look_at(np.zeros(3), along, up, fov_y=45.0, width=1, height=1)
        return replace(made, eye=self.to_world(origin))


class Copies(NamedTuple):
    """Copies of a mesh, a row each: rotations (quaternions, w first), positions, scales, colours.

    They were made from the `maps` (n, 3, 4) of leaves.
    """

    turns: Floats
    places: Floats
    scales: Floats
    colours: NDArray[np.uint8]
    maps: Floats

    def take(self, rows: Any) -> Self:
        """Return some of the copies."""
        return type(self)(*(column[rows] for column in self))


class DrawnMesh(NamedTuple):
    """A mesh and its copies.

    `key` identifies it among the parts of its scene: the Python id of its tree, which is referenced
    to keep the id unique, and -1 for all leaves that a page can place, or the number of a leaf. The
    mesh was made from the `arrays` of the tree. `glb` is the mesh with its material, in place of
    the copies' colours, if it has one.
    """

    key: tuple[int, int]
    tree: BVH
    arrays: TreeArrays
    vertices: NDArray[np.float32]
    faces: NDArray[np.uint32]
    copies: Copies
    smooth: bool
    glb: bytes | None = None


class PageDrawing(NamedTuple):
    """Meshes to draw, the number of faces left out, and corners of boxes for these, (n, 8, 3)."""

    frame: PageFrame
    parts: list[DrawnMesh]
    left_out: int
    boxes: Floats


def drawing_of(
    scene: Scene, frame: PageFrame, max_faces: int = MAX_FACES, before: PageDrawing | None = None
) -> PageDrawing:
    """Return the drawing of the visible leaves of a scene in a page's frame, small meshes first.

    Unchanged arrays of the drawing `before` are reused. Boxes stand for the leaves of a tree that
    would bring the faces sent above `max_faces`, or those drawn above DRAWN_TIMES as many.
    """
    leaves = scene.leaves
    old_parts = {} if before is None else {part.key: part for part in before.parts}
    same_frame = before is not None and before.frame is frame
    shown = np.flatnonzero(leaves.masks != 0)
    # The rows of the visible leaves of each tree; the last array, past the end, is empty.
    ends = np.cumsum(np.bincount(leaves.tree_of[shown], minlength=len(leaves.trees)))
    rows_of = np.split(shown[np.argsort(leaves.tree_of[shown], kind="stable")], ends)
    can_be_placed, placed = _copies(leaves, frame)
    sizes = [len(t) * faces_of_each(t) for t in leaves.trees]
    parts: list[DrawnMesh] = []
    boxes: list[Floats] = []
    # Faces so far: sent to the page, drawn (once for each copy), and left out.
    sent = drawn = left_out = 0
    for k in np.argsort(sizes, kind="stable").tolist():
        tree, rows, size = leaves.trees[k], rows_of[k], sizes[k]
        if not (size and len(rows)):
            continue
        # Leaves that a page can place are copies of one mesh; each other one is a mesh of its own.
        together, alone = rows[can_be_placed[rows]], rows[~can_be_placed[rows]]
        groups = [(-1, together)] if len(together) else []
        groups += [(row, np.array([row])) for row in alone.tolist()]
        new, copies = size * len(groups), size * len(rows)
        if sent + new > max_faces or drawn + copies > DRAWN_TIMES * max_faces:
            left_out += copies
            maps = leaves.matrices[rows]
            corners = corners_of(tree.bounds[None])[0]
            boxes.append(corners @ maps[:, :, :3].transpose(0, 2, 1) + maps[:, None, :, 3])
            continue
        sent, drawn = sent + new, drawn + copies
        for number, group in groups:
            # The mesh is made again if its tree, the frame of the page or its leaves have changed.
            old, copies = old_parts.get((id(tree), number)), placed.take(group)
            if old is not None and old.arrays is not tree.arrays:
                old = None
            if old is None or not same_frame or not np.array_equal(old.copies.maps, copies.maps):
                parts.append(_drawn_mesh(scene, frame, tree, number, copies, old))
            else:
                parts.append(old._replace(copies=old.copies._replace(colours=copies.colours)))
    corners = frame.to_page(np.concatenate(boxes)) if boxes else np.empty((0, 8, 3))
    return PageDrawing(frame, parts, left_out, corners)


def _drawn_mesh(
    scene: Scene, frame: PageFrame, tree: BVH, number: int, copies: Copies, old: DrawnMesh | None
) -> DrawnMesh:
    """Return the mesh of leaves of a tree.

    `number` is -1 for `copies` that the page places, or else the number of the only leaf, which a
    page cannot place. `old` is the mesh drawn before; None if there is none, or if the
    tree's arrays have changed since.
    """
    attributes, can_be_placed = scene.attributes(tree), number < 0
    triangles = isinstance(tree.arrays.primitives, Triangles)
    many = len(tree) * faces_of_each(tree) >= SMOOTH_FROM
    smooth = (triangles and many) or is_round(tree)
    if old is not None and can_be_placed:
        points, faces, glb = old.vertices, old.faces, old.glb
    else:
        corners, faces = surface_of(tree)
        if can_be_placed:
            points = PageFrame.around(tree.bounds).to_page(corners).astype(np.float32)
        else:
            # A page cannot shear meshes, so the vertices are sent in page coordinates.
            world = moved(np.ascontiguousarray(corners), copies.maps[0])
            points = frame.to_page(world).astype(np.float32)
            copies = unplaced(copies)
        # The same array as before, so that comparisons by identity show that nothing has changed.
        faces = faces if old is None else old.faces
        plain = attributes.material is None
        # The last argument: whether to send the mesh's normals, which are wrong in sheared leaves.
        glb = None if plain else glb_of(points, faces, attributes, smooth, can_be_placed)
    return DrawnMesh((id(tree), number), tree, tree.arrays, points, faces, copies, smooth, glb)


def unplaced(copy: Copies) -> Copies:
    """Return the only copy of a mesh whose vertices are in page coordinates."""
    return copy._replace(turns=np.eye(1, 4), places=np.zeros((1, 3)), scales=np.ones((1, 3)))


def _copies(leaves: Leaves, frame: PageFrame) -> tuple[NDArray[np.bool_], Copies]:
    """Return which leaves a page can place, a mask (n,), and `Copies` with a row for each leaf.

    A page can rotate and scale along axes, not shear. Rows are for vertices in the `PageFrame` of
    their own tree: centred and with a half extent of 1 to 2, so that float32 is precise.
    """
    from viser.transforms import SO3

    maps, linear = leaves.matrices, leaves.matrices[:, :, :3]
    scales = np.linalg.norm(linear, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = linear / scales[:, None]
        off = np.abs(unit.transpose(0, 2, 1) @ unit - np.eye(3))
    square = np.asarray((off < SQUARE).all(axis=(1, 2)))
    # Leaves that cannot be placed get a row without meaning.
    unit[~square], scales[~square] = np.eye(3), 1.0
    # A reflection is a negative scale.
    signs = np.where(np.linalg.det(unit) < 0.0, -1.0, 1.0)
    scales[:, 0] *= signs
    unit[:, :, 0] *= signs[:, None]
    turns = np.asarray(SO3.from_matrix(unit).wxyz, np.float64)
    frames = [PageFrame.around(tree.bounds) for tree in leaves.trees]
    middles = np.array([each.centre for each in frames]).reshape(-1, 3)[leaves.tree_of]
    sizes = np.array([each.scale for each in frames])[leaves.tree_of]
    places = np.einsum("kij,kj->ki", linear, middles) + maps[:, :, 3]
    scales = scales * (frame.scale / sizes)[:, None]
    return square, Copies(turns, frame.to_page(places), scales, _colours(leaves), maps)


def glb_of(
    vertices: NDArray[np.floating], faces: NDArray[np.integer], attributes: Attributes,
    smooth: bool, given_normals: bool,
) -> bytes:  # fmt: skip
    """Return a mesh with the material of `attributes`, as the bytes of a .glb file.

    Normals are those of `attributes` if `given_normals`, else computed if `smooth`, else left out.
    """
    import trimesh
    from trimesh.exchange import gltf

    visual: Any = trimesh.visual
    material = attributes.material
    assert material is not None
    # A page cannot read numbers that are not finite.
    uv = _finite(attributes.uv, [0.0, 0.0])
    normals = _finite(attributes.vertex_normals, [0.0, 0.0, 1.0])
    colours = material.vertex_colors
    if colours is not None:
        colours = _linear(material, colours) if len(colours) == len(vertices) else None
    if material.face_colors is not None:
        # Each corner becomes a vertex of its own, with the colour of its face. Computed
        # normals of such vertices would not be smooth, and are left out.
        corners = faces.reshape(-1)
        colours = np.repeat(_linear(material, material.face_colors), 3, axis=0)
        vertices, faces = vertices[corners], np.arange(len(corners)).reshape(-1, 3)
        uv = None if uv is None else uv[corners]
        normals = None if normals is None else normals[corners]
        smooth = False
    stored_normals = normals if given_normals else None
    mesh = trimesh.Trimesh(vertices, faces, vertex_normals=stored_normals, process=False)
    factor = [*material.factor.tolist(), 1.0]
    image = None if uv is None else material.image
    look = visual.material.PBRMaterial(
        baseColorFactor=(255.0 * np.array(factor)).round().astype(np.uint8),
        baseColorTexture=image if image is not None and can_be_decoded(image) else None,
        metallicFactor=0.0, roughnessFactor=0.9, doubleSided=True,
    )  # fmt: skip
    # trimesh holds a material or colours: colours, which include the material's factor, replace it.
    mesh.visual = visual.TextureVisuals(uv=uv, material=look)
    if colours is not None:
        mesh.visual = visual.ColorVisuals(mesh, vertex_colors=colours)
    export: Any = gltf.export_glb
    return bytes(export(mesh, include_normals=smooth or stored_normals is not None))


def _finite(rows: NDArray[np.floating] | None, other: list[float]) -> NDArray[np.float32] | None:
    """Return rows as float32, those that are not finite replaced by `other`; None for None."""
    if rows is None:
        return None
    with np.errstate(over="ignore"):
        narrow = np.asarray(rows, np.float32)
    finite = np.all(np.isfinite(narrow), axis=1, keepdims=True)
    return np.where(finite, narrow, np.array(other, np.float32))


def _linear(material: Material, colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return colours (n, 3) times a material's factor as linear RGBA bytes (n, 4), for glTF."""
    linear = np.full((len(colours), 4), 255, np.uint8)
    linear[:, :3] = np.round(255.0 * material.light_of(colours) * material.factor)
    return linear


def surface_of(tree: BVH) -> tuple[Floats, NDArray[np.uint32]]:
    """Return vertices (n, 3) and faces (m, 3) that draw a tree: its faces, or those of its shapes.

    Faces that are not finite are left out, and vertices that are not finite become 0.
    """
    if tree.kind in THIN:
        points, faces = thickened(tree, _thickness(tree))
    elif is_round(tree):
        shapes = tree.arrays.primitives
        _, _, is_valid = shape_of(shapes).bounds(shapes.points)
        points, faces = rounded(tree, np.flatnonzero(is_valid))
    else:
        points, faces, _ = projected.surface_of(tree)
    finite = np.isfinite(points).all(axis=1, keepdims=True)
    return np.where(finite, points, 0.0), faces.astype(np.uint32)


def _thickness(tree: BVH) -> float:
    """Return the radius with which the points or segments of a tree are drawn."""
    return THICKNESS * float(np.linalg.norm(tree.bounds[1] - tree.bounds[0]))


def face_triangles(tree: BVH, ids: NDArray[np.integer]) -> Floats:
    """Return triangles (n, 3, 3) that cover the primitives `ids` of a tree as they are drawn."""
    primitives = tree.arrays.primitives
    # Factors above 1, by which the mark of a shape encloses its drawing.
    if tree.kind in THIN:
        points, faces = thickened(tree, 1.5 * _thickness(tree), ids)
        return np.asarray(points[faces])
    if isinstance(primitives, Triangles):
        return np.asarray(primitives.points[primitives.faces[ids]])
    if is_round(tree):
        points, faces = rounded(tree, ids, 1.01)
        return np.asarray(points[faces])
    return outlines_of(primitives, ids)[:, BOX_FACES].reshape(-1, 3, 3)


def face_outlines(tree: BVH, ids: NDArray[np.integer]) -> Floats:
    """Return lines (n, 2, 3): sides of the faces `ids`, or edges of boxes around other shapes."""
    primitives = tree.arrays.primitives
    if not isinstance(primitives, Triangles):
        return edges_of(outlines_of(primitives, ids))
    triangles = face_triangles(tree, ids)
    return np.stack([triangles, np.roll(triangles, -1, axis=1)], axis=2).reshape(-1, 2, 3)


def _colours(leaves: Leaves) -> NDArray[np.uint8]:
    """Return the colour (n, 3) of each leaf: its tree's in PALETTE, in a tone of its instance.

    The leaves of a single instance all have PALETTE[0].
    """
    if len(np.unique(leaves.instance_id)) < 2:
        return np.repeat(PALETTE[:1], len(leaves), axis=0)
    # Multiples of the golden ratio, modulo 1, spread the tones of consecutive ids.
    tones = 0.9 + 0.16 * (GOLDEN * leaves.instance_id % 1.0)
    return np.asarray((PALETTE[leaves.tree_of % len(PALETTE)] * tones[:, None]).astype(np.uint8))


def corners_of(boxes: Floats) -> Floats:
    """Return the corners (n, 8, 3) of boxes; corner k is upper on the axes of the bits set in k."""
    upper = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
    return np.where(upper, boxes[:, 1:2], boxes[:, 0:1])


def edges_of(corners: Floats) -> Floats:
    """Return the edges of boxes with corners (n, 8, 3) as lines (12 n, 2, 3)."""
    return corners[:, EDGES].reshape(-1, 2, 3)
