"""How balls and capsules are related: to each other and to closed meshes, in trees and scenes."""

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH
from tests.surfaces.test_relations import BACK, box


def ball(center: object, radius: float) -> BVH:
    """Return a tree over one sphere."""
    return BVH.from_spheres(np.array([center], float), radius)


def capsule(start: object, end: object, radius: float) -> BVH:
    """Return a tree over one capsule."""
    return BVH.from_capsules(np.array([start], float), np.array([end], float), radius)


def check(first: BVH, second: BVH, wanted: str) -> None:
    """Compare the relation of two trees, and that of the second to the first."""
    assert first.relation(second) == wanted
    assert second.relation(first) == BACK.get(wanted, wanted)


def test_round_solids() -> None:
    """Tangent from outside and inside, one unit in the last place more or less, and equal."""
    one = ball([0, 0, 0], 5.0)
    check(one, ball([0, 0, 7], 2.0), "touching")
    check(one, ball([0, 0, 7], np.nextafter(2.0, 0.0)), "disjoint")
    check(one, ball([0, 0, 7], np.nextafter(2.0, 3.0)), "overlapping")
    # The centre is 5 away along (3, 4, 0).
    check(ball([0, 0, 0], 7.0), ball([3, 4, 0], 2.0), "contains")
    check(ball([0, 0, 0], np.nextafter(7.0, 0.0)), ball([3, 4, 0], 2.0), "overlapping")
    check(one, ball([0, 0, 0], 5.0), "equal")
    rod = capsule([0, 0, 0], [3, 4, 0], 1.0)
    check(rod, capsule([3, 4, 0], [0, 0, 0], 1.0), "equal")
    check(rod, ball([3, 4, 0], 1.0), "contains")
    check(rod, ball([-4, 3, 0], 4.0), "touching")
    check(rod, ball([-4, 3, 0], np.nextafter(4.0, 5.0)), "overlapping")
    check(rod, capsule([0, 0, 2], [3, 4, 2], 1.0), "touching")
    turn = trimesh.transformations.translation_matrix
    moves = [turn([0, 0, z]) for z in (0.0, 10.0, 11.0)]
    assert one.relation(one, moves).tolist() == ["equal", "touching", "disjoint"]
    assert one.relation(one, moves, margin=1.5).tolist() == ["equal", "touching", "touching"]


def test_meshes() -> None:
    """A ball in a box, around it, at its faces, edges and corners, and in its cavity."""
    crate = box([-1, -2, -2], [1, 2, 2])
    check(ball([0, 0, 0], 1.0), crate, "inside")
    check(ball([0, 0, 0], np.nextafter(1.0, 2.0)), crate, "overlapping")
    check(ball([0, 0, 0], 3.0), crate, "contains")
    check(ball([0, 0, 0], np.nextafter(3.0, 0.0)), crate, "overlapping")
    check(ball([4, 6, 0], 5.0), crate, "touching")
    check(ball([4, 6, 0], np.nextafter(5.0, 0.0)), crate, "disjoint")
    check(capsule([0, -1, 0], [0, 1, 0], 1.0), crate, "inside")
    check(capsule([0, -1, 0], [0, 9, 0], 0.5), crate, "overlapping")
    check(capsule([-9, 0, 0], [9, 0, 0], 0.5), crate, "overlapping")
    outer, inner = (trimesh.creation.box(bounds=[[-k] * 3, [k] * 3]) for k in (2, 1))
    shell = BVH.from_mesh(trimesh.util.concatenate([outer, inner]))
    check(ball([0, 0, 0], 1.0), shell, "touching")
    check(ball([0, 0, 0], 0.5), shell, "disjoint")
    check(ball([1.5, 0, 0], 0.5), shell, "inside")
    shift = trimesh.transformations.translation_matrix([3.0, 0, 0])
    assert ball([0, 0, 0], 2.0).relation(crate, shift) == "touching"
    assert crate.relation(ball([0, 0, 0], 2.0), shift) == "touching"
    assert ball([4.5, 0, 0], 3.0).relation(crate, margin=0.5) == "touching"


def test_faces_that_cancel_bound_nothing() -> None:
    """A mesh of two opposite faces is an empty solid: disjoint, as from other meshes."""
    empty = BVH.from_triangles(np.eye(3), [[0, 1, 2], [0, 2, 1]])
    for solid in (ball([0, 0, 0], 9.0), ball([0, 0, 0], 0.1), capsule([0, 0, 0], [1, 1, 1], 0.1)):
        check(solid, empty, "disjoint")
        # Margins go by distances, which count all faces.
        assert solid.relation(empty, margin=100.0) == "touching"
        scene = bvh.Scene()
        scene.add(solid), scene.add(empty)
        assert len(scene.relations().relation) == len(scene.interferences().relation) == 0
    # A centre on a face that cancels another is not inside.
    flat = BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2], [0, 2, 1]])
    check(ball([1, 1, 0], 0.5), flat, "disjoint")
    check(capsule([1, 1, 0], [9, 9, 0], 0.5), flat, "disjoint")
    crate = box([-1, -1, -1], [2, 2, 2])
    assert crate.relation(empty) == "disjoint" and crate.relation(empty, margin=9.0) == "touching"


def test_refusals() -> None:
    """Several shapes, no radius, open meshes, meshes that cross themselves, and boxes."""
    one, two = ball([0, 0, 0], 1.0), BVH.from_spheres([[0, 0, 0], [1, 0, 0]], 1.0)
    with pytest.raises(ValueError, match="other has 2 spheres"):
        one.relation(two)
    with pytest.raises(ValueError, match="this tree has the radius 0"):
        ball([0, 0, 0], 0.0).relation(one)
    with pytest.raises(ValueError, match="open edges"):
        one.relation(BVH.from_triangles(np.eye(3), [[0, 1, 2]]))
    crossed = trimesh.util.concatenate(
        [trimesh.creation.box(), trimesh.creation.box([0.5, 0.5, 2.0])]
    )
    with pytest.raises(ValueError, match="cross themselves"):
        one.relation(BVH.from_mesh(crossed))
    with pytest.raises(TypeError, match="relation needs a BVH over triangles, spheres or capsules"):
        one.relation(BVH.from_boxes(np.zeros((1, 3)), np.ones((1, 3))))


@pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.long)])
def test_random_solids(count: int, rng: np.random.Generator) -> None:
    """Against points of both: in both, or in one alone."""
    gem = trimesh.creation.icosahedron()
    for _ in range(count):
        solids: list[BVH] = []
        for _ in range(2):
            p, q, radius = rng.normal(size=3), rng.normal(size=3), rng.uniform(0.2, 2.0)
            kinds = (
                ball(p, radius),
                capsule(p, q, radius),
                BVH.from_mesh(gem.copy().apply_scale(radius)),
            )
            solids.append(kinds[rng.integers(2 if solids and solids[0].kind == "triangles" else 3)])
        relation = solids[0].relation(solids[1])
        if all(solid.kind == "triangles" for solid in solids):
            continue
        assert solids[1].relation(solids[0]) == BACK.get(relation, relation)
        points = rng.uniform(-4, 4, (4000, 3))
        first, second = (solid.contains(points) for solid in solids)
        if (first & second).any():
            assert relation not in ("disjoint", "touching")
        if (first & ~second).any():
            assert relation not in ("inside", "equal")
        if (second & ~first).any():
            assert relation not in ("contains", "equal")
        distance = float(solids[0].distance_to(solids[1]).distance)
        # Surfaces cross if and only if the solids overlap; these are in general position.
        assert (distance == 0.0) == (relation == "overlapping")


def test_scenes() -> None:
    """Relations and interferences of instances over meshes, balls and capsules."""
    scene, lift = bvh.Scene(), trimesh.transformations.translation_matrix([0, 0, 2.0])
    floor = scene.add(box([-4, -4, -1], [4, 4, 0]), name="floor")
    low = scene.add(ball([0, 0, 1], 1.0), name="ball")
    high = scene.add(ball([0, 0, 1], 1.0), lift, name="ball above")
    rod = scene.add(capsule([0, 0, -0.5], [0, 0, 0.5], 0.25), name="rod")
    found = scene.relations()
    assert dict(zip(map(tuple, found.instance_id.tolist()), found.relation, strict=True)) == {
        (floor, low): "touching", (low, high): "touching", (floor, rod): "overlapping",
        (low, rod): "overlapping",
    }  # fmt: skip
    table = scene.interferences()
    assert sorted(table.relation.tolist()) == ["overlapping"] * 2 + ["touching"] * 2
    touching = table[table.relation == "touching"]
    assert (touching.depth == 0.0).all() and (touching.distance == 0.0).all()
    assert np.isnan(table.volume[table.relation == "overlapping"]).all()
    scene.set_transform(high, trimesh.transformations.translation_matrix([0, 0, 2.25]))
    assert len(scene.relations()) == 3 and len(scene.relations(margin=0.25)) == 4
    # The surfaces of a ball in another one are apart, within the margin.
    pearl = scene.add(ball([0, 0, 1], 0.9), name="pearl")
    table = scene.interferences(margin=0.25)
    row = table[(table.instance_id == [low, pearl]).all(axis=1)]
    assert row.relation.tolist() == ["contains"] and row.distance.tolist() == [0.0]
