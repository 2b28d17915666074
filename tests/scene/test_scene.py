"""Scenes: what they hold, how they follow what changes, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from bvh.scene import scene_content
from bvh.scene.leaves import MAX_DEPTH, MAX_LEAVES
from bvh.scene.table import REMEMBERED
from bvh.tree.changes import changes
from tests.oracles import scenes as oracle

Rng = np.random.Generator
FACES = np.arange(12).reshape(-1, 3)


class View:
    """What kernels would work on: it notes what it is told, and what has been made."""

    made = 0

    def __init__(self, trees: Any, tree_of: Any, matrices: Any, masks: Any, owners: Any) -> None:
        self.trees, self.tree_of, self.owners = list(trees), tree_of.copy(), owners.copy()
        self.matrices, self.masks = matrices.copy(), masks.copy()
        self.moved: list[int] = []
        View.made += 1

    def move(self, leaves: np.ndarray, matrices: np.ndarray) -> None:
        """Note what has moved."""
        assert len(np.unique(leaves)) == len(leaves) == len(matrices)
        self.matrices[leaves] = matrices
        self.moved += leaves.tolist()

    def set_masks(self, leaves: np.ndarray, masks: np.ndarray) -> None:
        """Note other masks."""
        self.masks[leaves] = masks


@pytest.fixture(autouse=True)
def _views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene_content, "SceneView", View)


def current(scene: Scene) -> Any:
    """Return what kernels would work on."""
    return scene._current()


def tree_of(rng: Rng) -> BVH:
    """Return a small tree."""
    return BVH.from_triangles(rng.random((12, 3)), FACES)


def matrices(rng: Rng, n: int) -> np.ndarray:
    """Return affine matrices: sheared, scaled, reflected, now and then exact."""
    found = np.tile(np.eye(4), (n, 1, 1))
    found[:, :3] = rng.normal(size=(n, 3, 4))
    exact = rng.random(n) < 0.3
    found[exact, :3, :3] = np.eye(3)[rng.permutation(3)] * rng.choice([-2.0, 0.5, 1.0])
    return found


def assert_right(scene: Scene) -> None:
    """Compare all that can be told of leaves with the slow truth."""
    wanted, leaves, view = oracle.leaves(scene), scene.leaves, current(scene)
    assert len(leaves) == len(wanted) == len(view.masks)
    for k, row in enumerate(wanted):
        assert scene.path(k) == row.path and scene.name_of(k) == row.name
        assert leaves.trees[leaves.tree_of[k]] is view.trees[view.tree_of[k]] is row.tree
        for matrix in (leaves.matrices[k], view.matrices[k]):
            assert np.array_equal(matrix, row.matrix[:3])
        assert leaves.masks[k] == view.masks[k] == row.mask
        assert leaves.instance_id[k] == view.owners[k] == row.path[0]
    for k in range(0, len(wanted), 7):
        leaf = leaves[k]
        assert (leaf.path, leaf.name, leaf.mask) == (wanted[k].path, wanted[k].name, wanted[k].mask)
        assert leaf.tree is wanted[k].tree and np.array_equal(leaf.transform, wanted[k].matrix)


def change(scenes: list[Scene], trees: list[BVH], rng: Rng) -> None:
    """Do something to one of the scenes, each of which may hold those before it."""
    number = int(rng.integers(len(scenes)))
    scene = scenes[number]
    children: list[Any] = [*trees, *scenes[:number]]
    child = children[rng.integers(len(children))]
    what = int(rng.integers(9))
    some = rng.permutation(scene.ids)[: rng.integers(0, 4)]
    if len(scene) > 8:
        scene.remove(rng.permutation(scene.ids)[:4])
    elif what == 0 or len(scene) == 0:
        name = str(rng.choice(["a", "b", "c"])) if rng.random() < 0.5 else None
        scene.add(child, matrices(rng, 1)[0], name, int(rng.integers(2**32)), rng.random() < 0.8)
    elif what == 1:
        n = int(rng.integers(0, 4))
        scene.add_many(child, matrices(rng, n), ["d"] * n, rng.integers(0, 2**32, n))
    elif what == 2:
        scene.remove(some)
    elif what == 3:
        scene.replace(int(rng.choice(scene.ids)), child)
    elif what == 4:
        scene.set_transform(int(rng.choice(scene.ids)), matrices(rng, 1)[0])
    elif what == 5:
        scene.set_transforms(some, matrices(rng, len(some)))
    elif what == 6:
        scene.set_visible(some, rng.random(len(some)) < 0.5)
    elif what == 7:
        scene.set_mask(some, int(rng.integers(2**32)))
    else:
        scene.rename(int(rng.choice(scene.ids)), "e" if rng.random() < 0.7 else None)


def test_leaves_follow_every_change(rng: Rng) -> None:
    """Random changes anywhere in nested scenes; all of them asked now and then."""
    for _ in range(4):
        scenes, trees = [Scene() for _ in range(4)], [tree_of(rng) for _ in range(3)]
        given: list[set[int]] = [set() for _ in scenes]
        for _ in range(100):
            change(scenes, trees, rng)
            for scene, ids in zip(scenes, given, strict=True):
                new = set(scene.ids.tolist()) - ids
                assert not new or min(new) > max(ids, default=-1)
                ids |= new
            if rng.random() < 0.4:
                scene = scenes[rng.integers(4)]
                if sum(len(s) for s in scenes) and len(scene.leaves) < 300:
                    assert_right(scene)


def test_only_what_moves_is_moved(rng: Rng) -> None:
    """One of many, many of many, deep inside; nothing is made anew, or touched by other scenes."""
    inner, scene, tree = Scene(), Scene(), tree_of(rng)
    inner_ids = inner.add_many(tree, matrices(rng, 5))
    ids = scene.add_many(tree, matrices(rng, 1000))
    nested = scene.add_many(inner, matrices(rng, 3))
    view, made = current(scene), View.made
    scene.set_transform(17, matrices(rng, 1)[0])
    assert current(scene) is view and view.moved == [17]
    scene.set_transform(17, matrices(rng, 1)[0])
    scene.set_transform(16, matrices(rng, 1)[0])
    scene.set_transform(17, matrices(rng, 1)[0])
    assert current(scene).moved == [17, 16, 17]
    view.moved.clear()
    scene.set_transform(int(nested[1]), matrices(rng, 1)[0])
    assert current(scene).moved == list(range(1005, 1010))
    view.moved.clear()
    inner.set_transform(int(inner_ids[2]), matrices(rng, 1)[0])
    assert current(scene).moved == [1002, 1007, 1012]
    view.moved.clear()
    scene.set_transforms(ids[::-1], matrices(rng, 1000))
    assert sorted(current(scene).moved) == list(range(1000))
    # More than the log remembers.
    for _ in range(REMEMBERED // 1000 + 4):
        scene.set_transforms(ids, matrices(rng, 1000))
    assert_right(scene)
    other = Scene()
    other.add(tree)
    view.moved.clear()
    assert current(scene) is view and not view.moved and View.made == made
    assert scene._seen == changes.count


def test_deformed_trees_are_noticed(rng: Rng) -> None:
    """A tree that has got other arrays is told to whoever works on them; others are not."""
    tree, other = tree_of(rng), tree_of(rng)
    inner, scene, apart = Scene(), Scene(), Scene()
    inner.add(tree)
    scene.add(inner)
    apart.add(other)
    views = current(scene), current(apart)
    tree._set_arrays(tree_of(rng).arrays)
    changes.note()
    assert current(scene) is not views[0] and current(apart) is views[1]


def test_instances(rng: Rng) -> None:
    """What has been put in comes out."""
    tree, scene, matrix = tree_of(rng), Scene(), matrices(rng, 1)[0]
    assert len(scene) == 0 and bool(scene) and list(scene) == [] and 0 not in scene
    assert len(scene.leaves) == 0 and repr(scene) == "Scene(0 instances, 0 leaves, 0 trees)"
    a = scene.add(tree, matrix, "a", 5, False)
    b = scene.add(tree)
    one = scene[a]
    assert (one.id, one.child, one.name, one.mask, one.visible) == (a, tree, "a", 5, False)
    assert np.array_equal(one.transform, matrix) and not one.transform.flags.writeable
    with pytest.raises(AttributeError):
        one.mask = 3  # type: ignore[misc]
    one = scene.instance(b)
    assert (one.name, one.mask, one.visible) == (None, 2**32 - 1, True)
    assert np.array_equal(one.transform, np.eye(4))
    assert [one.id for one in scene] == scene.ids.tolist() == [0, 1]
    scene.rename(b, "a")
    assert scene.find("a").tolist() == [0, 1] and scene.find("b").tolist() == []
    scene.remove(b)
    assert b not in scene and "a" in scene and "b" not in scene and scene.find("a").tolist() == [0]
    assert scene.add(tree) == 2
    scene.remove(scene.ids)
    assert len(scene) == 0 and scene.add_many(tree, np.empty((0, 4, 4))).tolist() == []
    assert scene.add(tree) == 3 and scene[3].child is tree
    matrix[:] = 0.0
    assert np.array_equal(one.transform, np.eye(4))


def test_meshes_share_trees(rng: Rng) -> None:
    """The same mesh is built once, unless it has changed in between."""
    import trimesh

    mesh = trimesh.Trimesh(rng.random((12, 3)), FACES, process=False)
    scene, pair = Scene(), (rng.random((12, 3)), FACES)
    for one in (mesh, pair, mesh, pair):
        scene.add(one)
    trees = [one.child for one in scene]
    assert trees[0] is trees[2] and trees[1] is trees[3] and trees[0] is not trees[1]
    assert scene.attributes(trees[0]) == bvh.Attributes()
    normals = mesh.vertex_normals
    mesh.vertices[0] += 1.0
    later = scene[scene.add(mesh)].child
    assert later is not trees[0] and np.array_equal(later.vertices, mesh.vertices)
    mesh.vertex_normals = normals
    with_normals = Scene()
    child = with_normals[with_normals.add(mesh)].child
    outer = Scene()
    outer.add(with_normals)
    for holder in (with_normals, outer):
        assert np.array_equal(holder.attributes(child).vertex_normals, mesh.vertex_normals)


def test_flattened(rng: Rng) -> None:
    """Vertices are the nearest doubles; hidden leaves are left out."""
    inner, scene = Scene(), Scene()
    inner.add_many(tree_of(rng), matrices(rng, 2), masks=[1, 3])
    scene.add_many(inner, matrices(rng, 2))
    scene.add(tree_of(rng), matrices(rng, 1)[0], visible=False)
    for mask in (1, 2, 0xFFFFFFFF):
        vertices, faces, leaf_id, prim_id = scene.flattened(mask)
        rows = [(k, row) for k, row in enumerate(oracle.leaves(scene)) if row.mask & mask]
        points = [oracle.moved(row.tree.vertices, row.matrix) for _, row in rows]
        assert np.array_equal(vertices, np.concatenate(points))
        assert np.array_equal(leaf_id, np.repeat([k for k, _ in rows], 4))
        assert np.array_equal(prim_id, np.tile(np.arange(4), len(rows)))
        corners = [p[row.tree.faces] for p, (_, row) in zip(points, rows, strict=True)]
        assert np.array_equal(vertices[faces], np.concatenate(corners))
    assert [len(array) for array in Scene().flattened()] == [0, 0, 0, 0]
    inner.add(BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
    with pytest.raises(TypeError, match="flattened scene needs a BVH over triangles"):
        scene.flattened()


def test_no_scene_holds_itself(rng: Rng) -> None:
    """Directly, through others, by replacing; what has let go of it may be held."""
    a, b, c = Scene(), Scene(), Scene()
    a.add(tree_of(rng))
    in_b, in_c = b.add(a), c.add(b)
    for child in (a, b, c):
        with pytest.raises(ValueError, match="child must not hold the scene"):
            a.add(child)
        with pytest.raises(ValueError, match="child must not hold the scene"):
            a.replace(0, child)
    b.remove(in_b)
    a.add(c)
    assert len(a) == 2 and in_c == 0
    assert_right(a)


def test_nesting_has_limits(rng: Rng) -> None:
    """Depth, and leaves: refused when asked, whatever has been built below meanwhile."""
    chain = [Scene() for _ in range(MAX_DEPTH)]
    chain[0].add(tree_of(rng), matrices(rng, 1)[0])
    for outer, inner in zip(chain[1:], chain[:-1], strict=True):
        outer.add(inner, np.diag([-1.0, 1.0, 1.0, 1.0]))
    assert_right(chain[-1])
    assert len(pickle.loads(pickle.dumps(chain[-1])).leaves) == 1
    assert len(copy.deepcopy(chain[-1]).leaves) == 1
    with pytest.raises(ValueError, match=f"nested {MAX_DEPTH} deep"):
        Scene().add(chain[-1])
    bomb = Scene()
    bomb.add_many(tree_of(rng), np.tile(np.eye(4), (2, 1, 1)))
    for _ in range(int(np.log2(MAX_LEAVES)) - 1):
        outer = Scene()
        outer.add_many(bomb, np.tile(np.eye(4), (2, 1, 1)))
        bomb = outer
    outer = Scene()
    outer.add_many(bomb, np.tile(np.eye(4), (2, 1, 1)))
    with pytest.raises(ValueError, match=f"can have {MAX_LEAVES} leaves"):
        outer.leaves  # noqa: B018
    with pytest.raises(ValueError, match=f"can have {MAX_LEAVES} leaves"):
        Scene().add(outer)
    assert repr(outer).startswith("Scene(2 instances, ")


def test_products_that_cannot_be_inverted(rng: Rng) -> None:
    """Are refused by the scene that is asked, with the path; it is well again when they are."""
    inner, scene = Scene(), Scene()
    i = inner.add(tree_of(rng), np.diag([1e-120] * 3 + [1.0]))
    scene.add(inner, np.diag([1e-240] * 3 + [1.0]))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"along path \(0, 0\) must be"):
            scene.leaves  # noqa: B018
    inner.set_transform(i, np.eye(4))
    assert_right(scene)
    inner.set_transform(i, np.diag([1e-120] * 3 + [1.0]))
    with pytest.raises(ValueError, match=r"along path \(0, 0\) must be"):
        current(scene)
    inner.set_transform(i, np.eye(4))
    assert_right(scene)


def test_copies(rng: Rng) -> None:
    """A copy shares trees alone, not nested scenes; a deep copy and a pickle share nothing."""
    tree, inner, scene = tree_of(rng), Scene(), Scene()
    inner.add_many(tree, matrices(rng, 3), ["x", None, "y"])
    a = scene.add(inner, matrices(rng, 1)[0], "a", 7)
    scene.remove(scene.add(tree))
    scene.add(tree)
    scene.leaves  # noqa: B018
    for other in (copy.copy(scene), copy.deepcopy(scene), pickle.loads(pickle.dumps(scene))):
        assert type(other) is Scene and repr(other) == repr(scene)
        for one, two in zip(oracle.leaves(other), oracle.leaves(scene), strict=True):
            assert (one.path, one.mask, one.name) == (two.path, two.mask, two.name)
            assert np.array_equal(one.matrix, two.matrix)
            assert np.array_equal(one.tree.vertices, two.tree.vertices)
        assert len(other.leaves.trees) == 1
        assert_right(other)
        assert other.add(tree) == 3
        other.set_transform(a, np.eye(4))
        other.rename(a, "b")
        other.remove(2)
        assert_right(other)
        assert len(scene) == 2 and scene[a].name == "a" and scene.ids.tolist() == [0, 2]
    assert copy.copy(scene)[a].child[0].child is tree


def test_many_ask_while_others_change(rng: Rng) -> None:
    """What is asked stays right while scenes that it has nothing to do with change."""
    scene, other, tree = Scene(), Scene(), tree_of(rng)
    scene.add_many(tree, matrices(rng, 50))
    spare = other.add(tree)
    wanted = current(scene)

    def ask(_: int) -> bool:
        return all(scene._current() is wanted for _ in range(2000))

    def stir(_: int) -> bool:
        for _ in range(2000):
            other.set_transform(spare, np.eye(4))
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all([*pool.map(ask, range(2)), *pool.map(stir, range(1)), *pool.map(ask, range(2))])
    futures = []
    with ThreadPoolExecutor(4) as pool:
        for job in (stir, ask, ask, ask):
            futures.append(pool.submit(job, 0))
    assert all(future.result() for future in futures)


def test_names_of_ids(rng: Rng) -> None:
    """In any shape; None, or what is asked for, for misses and instances without a name."""
    scene, tree = Scene(), tree_of(rng)
    ids = scene.add_many(tree, matrices(rng, 4), ["a", None, "b", "a"])
    scene.remove(2)
    assert scene.names(ids[:2]).tolist() == ["a", None] and scene.names(-1) is None
    assert (scene.names(0), scene.names(np.int32(1), missing="-")) == ("a", "-")
    found = scene.names([[0, 3], [-1, 1]], missing="")
    assert found.dtype == object and found.tolist() == [["a", "a"], ["", ""]]
    assert np.unique(found).tolist() == ["", "a"]
    assert scene.names([]).shape == (0,) and Scene().names([-1, -1]).tolist() == [None, None]
    for wrong in (2, [0, 9], -2, [[-3]], 10**12):
        with pytest.raises(KeyError, match="there is no instance"):
            scene.names(wrong)
    with pytest.raises(TypeError, match="instance_ids must be integers"):
        scene.names([0.5])
    with pytest.raises(ValueError, match="instance_ids must be a regular array"):
        scene.names([[0], [0, 1]])
    with pytest.raises(TypeError, match="instance_ids must not be a masked array"):
        scene.names(np.ma.array([0, 1], mask=[True, False]))
    scene.rename(1, "c")
    assert scene.names([1]).tolist() == ["c"]


def test_names_of_few_ids_among_many(monkeypatch: pytest.MonkeyPatch, rng: Rng) -> None:
    """Those in a table and those that are sorted are the same."""
    scene = Scene()
    scene.add_many(tree_of(rng), matrices(rng, 9), [*"abcdefgh", None])
    ids = rng.integers(-1, 9, (5, 40))
    in_table = scene.names(ids)
    monkeypatch.setattr(bvh.scene.table, "SMALL_TABLE", -1000)
    for missing in (None, "-"):
        wanted = [[missing if k in (-1, 8) else "abcdefgh"[k] for k in row] for row in ids.tolist()]
        assert scene.names(ids, missing).tolist() == wanted
    assert in_table.tolist() == scene.names(ids).tolist() and scene.names(3) == "d"
    with pytest.raises(KeyError, match="there is no instance"):
        scene.names([0, 9])
