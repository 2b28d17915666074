"""`Scene.interferences`: against queries of each pair of flattened meshes; what is no solid."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
import trimesh

from bvh import BVH, Scene
from tests.scene.test_collisions import BOX, shifted
from tests.surfaces.test_margins import SHAPES, placed
from tests.surfaces.test_relations import box, joined


def check_rows(scene: Scene, margin: float) -> dict[str, int]:
    """Compare all pairs of a scene's solids; return how often each relation was."""
    vertices, faces, leaf, _ = scene.flattened()
    owners = scene.leaves.instance_id[leaf]
    solids = {k: BVH.from_triangles(vertices, faces[owners == k]) for k in np.unique(owners)}
    found, at, seen = scene.interferences(margin=margin), 0, {}
    for a, b in combinations(solids, 2):
        first, second = solids[a], solids[b]
        relation = first.relation(second, margin=margin)
        if relation == "disjoint":
            continue
        seen[relation] = seen.get(relation, 0) + 1
        row, at = found[at], at + 1
        assert row.instance_id.tolist() == [a, b] and row.relation == relation
        assert (row.open_edges == 0).all() and row.oriented.all() and row.note == ""
        if relation == "touching":
            near = first.distance_to(second)
            assert (row.volume, row.depth, row.distance) == (0.0, 0.0, near.distance)
            assert row.distance <= margin and np.array_equal(row.position, near.position)
            continue
        deep = first.penetration(second)
        assert (row.depth, row.distance) == (deep.depth, 0.0)
        assert np.array_equal(row.position[0 if deep.own else 1], deep.point, equal_nan=True)
        assert row.volume == first.overlap_volume(second).volume > 0.0
    assert at == len(found)
    return seen


@pytest.mark.parametrize("count", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (4, 40))])
def test_rows_are_queries_of_pairs(count: int, rng: np.random.Generator) -> None:
    """Single solids, and one of two parts, moved by any motion."""
    scene, two = Scene(), Scene()
    for shift in (0.0, 1.5):
        two.add(BOX, shifted(shift, 0.0, 0.0))
    motions = placed(rng, count)
    for motion in motions:
        scene.add(SHAPES[rng.integers(3)], motion)
    scene.add(two, motions[0])
    # One that is near.
    scene.add(BOX, motions[0] @ shifted(2.75, 0.0, 0.0))
    scene.add(SHAPES[0], shifted(0.0, 0.0, 5.0), visible=False)
    seen = [check_rows(scene, margin) for margin in (0.0, 0.4)]
    assert seen[0]["overlapping"] and seen[1].get("touching", 0) > seen[0].get("touching", 0)


def test_an_assembly() -> None:
    """Names, tables, records, selections, pairs to ignore; all that interiors do."""
    scene = Scene()
    for name, low, high in (
        ("plate", [0, 0, 0], [4, 2, 0.25]), ("bolt", [1, 1, -1], [1.5, 1.5, 1]),
        ("block", [2, 0, 0.25], [3, 1, 1]), (None, [0.5, 0.5, 0.125], [0.75, 0.75, 0.1875]),
    ):  # fmt: skip
        scene.add(box(low, high), name=name)
    found = scene.interferences()
    assert found.instance_id.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert found.name.tolist() == [["plate", "bolt"], ["plate", "block"], ["plate", ""]]
    assert found.relation.tolist() == ["overlapping", "touching", "contains"]
    assert found.volume.tolist() == [0.0625, 0.0, 2.0**-8]
    assert found.overlaps.tolist() == [True, False, True] and found
    assert len(str(found).splitlines()) == 4 and "plate" in str(found)
    assert json.loads(json.dumps(found.records(), allow_nan=False))[1]["names"] == [
        "plate",
        "block",
    ]
    assert len(found[found.overlaps]) == 2 and found[0].relation == "overlapping"
    assert np.asarray(found)["volume"].tolist() == found.volume.tolist()
    left = scene.interferences(ignore=[("bolt", 0), (2, "plate")])
    assert left.instance_id.tolist() == [[0, 3]]
    assert not scene.interferences(ignore=[(0, 1), (0, 2), (0, 3)])
    scene.add(box([1, 1, -1], [1.5, 1.5, 1]))
    same = scene.interferences()[3]
    assert same.instance_id.tolist() == [0, 4] and same.volume == 0.0625
    same = scene.interferences(ignore=[(0, k) for k in (1, 2, 3, 4)])
    assert (same.relation.tolist(), same.note.tolist()) == (["equal"], ["the same solid twice"])
    assert same.volume.tolist() == [0.5] and same.depth.tolist() == [0.25]
    assert len(Scene().interferences()) == 0 and str(Scene().interferences()).startswith("first")


def test_what_is_no_solid() -> None:
    """Has rows that say so, beside those of solids; meshes that cross themselves have no volume."""
    scene, cube = Scene(), trimesh.creation.box()
    scene.add(cube)
    scene.add(BVH.from_triangles(cube.vertices + 0.5, cube.faces[1:], warn=False), name="torn")
    scene.add(BVH.from_boxes([[0.0] * 3], [[1.0] * 3]))
    crossed = joined((cube.vertices, cube.faces), (cube.vertices + 0.25, cube.faces))
    scene.add(crossed, shifted(-0.75, 0.0, 0.0))
    flipped = BVH.from_triangles(cube.vertices, np.vstack([cube.faces[:3], cube.faces[3:, ::-1]]))
    scene.add(flipped, shifted(0.0, 1.0, 0.0))
    scene.add(BVH.from_points([[-0.5, 0.0, 0.0]]))
    found = scene.interferences()
    rows = {tuple(pair): k for k, pair in enumerate(found.instance_id.tolist())}
    torn, boxes, cross, other, cloud = (found[rows[0, k]] for k in (1, 2, 3, 4, 5))
    assert torn.relation == boxes.relation == "unknown" and torn.distance == 0.0
    assert "instance 1 has 3 open edges" in torn.note and torn.open_edges.tolist() == [0, 3]
    assert "instance 2 is over boxes" in boxes.note and boxes.open_edges.tolist() == [0, -1]
    assert (cloud.relation, cloud.note) == ("unknown", "instance 5 is over points")
    assert cloud.distance == 0.0 and cloud.position[0].tolist() == [-0.5, 0.0, 0.0]
    assert cross.relation == "overlapping" and np.isnan(cross.volume) and cross.depth > 0.0
    assert "cross themselves" in cross.note
    assert other.relation == "touching" and other.oriented.tolist() == [True, False]
    assert found.records()[rows[0, 2]]["distance"] is None
    with pytest.raises(ValueError, match="instance 1 has open edges"):
        scene.set_visible(2, False)
        scene.relations()
    with pytest.raises(ValueError, match="margin must be"):
        scene.interferences(margin=-1.0)


def test_single_pairs() -> None:
    """Each pair alone has the row of the table, as text and for JSON, and is no sequence."""
    scene, cube = Scene(), BVH.from_mesh(trimesh.creation.box())
    scene.add_many(cube, [shifted(x, 0.0, 0.0) for x in (0.0, 0.75, 1.75)], ["a", "b", None])
    found = scene.interferences()
    assert len(found) == 2
    assert [row for pair in found for row in pair.records()] == found.records()
    words = [line.split() for line in str(found).splitlines()]
    assert [str(pair).splitlines()[1].split() for pair in found] == words[1:]
    assert len(found[1]) == 1 and found[1].mask and not found[1].overlaps
    with pytest.raises(TypeError, match="single Interferences is no sequence"):
        iter(found[0]).__next__()
