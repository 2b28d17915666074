"""What builders and queries refuse; the message names the argument that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import BVH, BVHWarning

# What no argument of real numbers may be.
NOT_REAL: list[Any] = [
    np.ones((4, 3), bool),
    np.ones((4, 3), complex),
    np.full((4, 3), "1"),
    "words",
    np.ones((4, 3), object),
    np.ones((4, 3), "M8[s]"),
    np.ones(4, np.dtype([("x", float), ("y", float), ("z", float)])),
    None,
    np.ma.masked_array(np.ones((4, 3)), mask=False),
    [[1.0, 2.0, 3.0], [1.0, 2.0]],
]
NOT_POINTS: list[Any] = [1.0, [1.0, 2.0], np.ones((4, 4)), np.ones((3, 1)), np.ones((4, 0))]


@pytest.mark.parametrize("query", ["closest_hit", "any_hit"])
def test_refused_rays(query: str) -> None:
    """The message names the argument that is wrong."""
    ask = getattr(BVH.from_triangles(np.eye(3), [[0, 1, 2]]), query)
    good = {"origins": np.zeros((4, 3)), "directions": np.ones((4, 3))}
    for name in ("origins", "directions", "t_min", "t_max"):
        for bad in NOT_REAL:
            with pytest.raises((TypeError, ValueError), match=name):
                ask(**good | {name: bad})
    for name in good:
        for bad in NOT_POINTS:
            with pytest.raises(ValueError, match=name):
                ask(**good | {name: bad})
    with pytest.raises(ValueError, match=r"origins.*4.*directions.*5"):
        ask(np.zeros((4, 3)), np.ones((5, 3)))
    for name in ("t_min", "t_max"):
        with pytest.raises(ValueError, match=name):
            ask(**good, **{name: np.ones(5)})


@pytest.mark.parametrize(
    ("faces", "match"),
    [
        ([[0, 1, 2, 3]], "BVH.from_mesh takes quads"),
        ([0, 1, 2], "faces"),
        ([[0, 1]], "faces"),
        (np.zeros((1, 3, 3), int), "faces"),
        (0, "faces"),
        ([[0, 1, 2], [0, 1, 4]], "faces.* row 1"),
        ([[0, 1, 2], [0, 1, 2], [0, -1, 2]], "faces.* row 2"),
        (np.array([[0, 1, 2**64 - 1]], np.uint64), "faces.* row 0"),
        (np.array([[0, 1, 2**32]]), "faces.* row 0"),
        ([[0, 1, 2**70]], "faces"),
        ([[0.0, 1.0, 2.0]], "faces"),
        (np.ones((1, 3), bool), "faces"),
        *((bad, "faces") for bad in NOT_REAL),
    ],
)
def test_refused_faces(faces: Any, match: str) -> None:
    """Faces must be triangles of integers within the vertices."""
    with pytest.raises((TypeError, ValueError), match=match):
        BVH.from_triangles(np.ones((4, 3)), faces)


def test_refused_vertices_and_boxes() -> None:
    """The same for vertices, corners and transforms."""
    ones, eye = np.ones((4, 3)), np.tile(np.eye(4), (4, 1, 1))
    for bad in [*NOT_REAL, *NOT_POINTS, np.ones((2, 2, 3)), np.ones(3)]:
        with pytest.raises((TypeError, ValueError), match="vertices"):
            BVH.from_triangles(bad, [[0, 1, 2]])
        for name in ("lower", "upper"):
            corners = {"lower": ones, "upper": ones} | {name: bad}
            with pytest.raises((TypeError, ValueError), match=name):
                BVH.from_boxes(**corners)
            with pytest.raises((TypeError, ValueError), match=name):
                BVH.from_obbs(**corners, transforms=eye)
        with pytest.raises((TypeError, ValueError), match="transforms"):
            BVH.from_obbs(ones, ones, bad)
    with pytest.raises(ValueError, match=r"upper.*lower"):
        BVH.from_boxes(ones, ones[:3])
    matrices = [eye[0], eye[:3], eye[:, :3], eye.reshape(4, 16)]
    for place, value in ((0, 0.0), (3, np.nan), (5, np.inf), (12, 1.0), (15, 2.0)):
        matrices.append(eye.copy())
        matrices[-1][2].flat[place] = value
    for bad in matrices:
        with pytest.raises(ValueError, match="transforms"):
            BVH.from_obbs(ones, ones, bad)


def test_refused_options() -> None:
    """Threads, culling and quality."""
    mesh, corners = (np.eye(3), [[0, 1, 2]]), (np.zeros((1, 3)), np.ones((1, 3)))
    tree = BVH.from_triangles(*mesh)
    ray = np.zeros(3), np.ones(3)
    for threads in (0, -2, 1.5, True, "2", np.float64(2), [2]):
        for call, given in (tree.closest_hit, ray), (tree.any_hit, ray), (BVH.from_triangles, mesh):
            with pytest.raises((TypeError, ValueError), match="threads"):
                call(*given, threads=threads)
    assert tree.any_hit(*ray, threads=np.int8(2)) is True
    for cull in ("both", 1, 0, False, "", ["back"]):
        with pytest.raises((TypeError, ValueError), match="cull"):
            tree.closest_hit(*ray, cull=cull)
    for other in (BVH.from_boxes(*corners), BVH.from_obbs(*corners, np.eye(4)[None])):
        assert other.any_hit(*ray, cull=None) is True
        with pytest.raises(ValueError, match="cull"):
            other.any_hit(*ray, cull="back")
    for quality in ("best", "", None, 1, ["medium"]):
        with pytest.raises((TypeError, ValueError), match="quality"):
            BVH.from_triangles(*mesh, quality=quality)


def test_masks_that_are_refused() -> None:
    """They are integers of 32 bits, one for each ray, or for all points."""
    tree, ray = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), (np.ones(3), -np.ones(3))
    for query in (tree.closest_hit, tree.any_hit, tree.all_hits, tree.count_hits):
        query(*ray, mask=None)
        for mask in (-1, 2**32, 1.0, "a"):
            with pytest.raises((TypeError, ValueError), match="mask must be in"):  # or integers
                query(*ray, mask=mask)
        with pytest.raises(ValueError, match="mask must have a shape that broadcasts to the rays'"):
            query(*ray, mask=[1, 2])
    points = tree.closest_point, tree.distance, tree.signed_distance, tree.winding_number
    with pytest.warns(BVHWarning, match="has open edges"):
        tree.contains(ray[0])
    for ask in (*points, tree.contains):
        ask(ray[0], mask=None)
        with pytest.raises(ValueError, match="mask must be one number"):
            ask(ray[0], mask=[1, 2])
    with pytest.raises(ValueError, match="mask must be one number"):
        tree.caster(mask=[1, 2])


def test_more_primitives_than_ids() -> None:
    """A tree over n primitives has 2n - 1 nodes, and their ids are int32."""
    faces = np.broadcast_to(np.int8(0), (2**30 + 1, 3))
    with pytest.raises(ValueError, match=r"faces must have at most 1073741824 rows"):
        BVH.from_triangles(np.zeros((1, 3)), faces)
