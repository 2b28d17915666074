"""Pairs of faces that meet, of two trees and of one: against brute force in rational numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import BVH
from bvh.io.mesh_files import read_file
from meshes.organic import organic
from tests.cases import contact_pairs, soups
from tests.cases.scans import SCANS
from tests.oracles import overlaps as oracle
from tests.queries.test_overlaps import FLAT, QUALITIES, grid_mesh, long_mesh

Mesh = tuple[np.ndarray, np.ndarray]


def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Tell which boxes of triangles (n, 3, 3) and (m, 3, 3) do not overlap, (n, m)."""
    low, high = a.min(axis=1)[:, None], a.max(axis=1)[:, None]
    return ((low > b.max(axis=1)) | (high < b.min(axis=1))).any(axis=2)


def brute(a: np.ndarray, b: np.ndarray, truth: Any, upper: bool = False) -> list[list[int]]:
    """Return all pairs that the truth accepts; `upper` for i < j."""
    finite = np.isfinite(a).all(axis=(1, 2))[:, None] & np.isfinite(b).all(axis=(1, 2))
    pairs = np.argwhere(finite & ~apart(a, b)).tolist()
    rows, others = a.tolist(), b.tolist()
    return [[i, j] for i, j in pairs if not (upper and i >= j) and truth(rows[i], others[j])]


def ways_to_ask(tree: BVH, *arguments: Any) -> np.ndarray:
    """Return the pairs, the same on one thread and two, and with progress told."""
    ask = tree.overlap_tree if arguments else tree.self_overlaps
    found = ask(*arguments, threads=1)
    calls: list[tuple[int, int]] = []
    again = ask(*arguments, threads=2, progress=lambda *call: calls.append(call))
    assert calls
    assert calls[-1][0] == calls[-1][1]
    assert np.array_equal(found, again)
    assert (found.dtype, found.shape[1:]) == (np.int32, (2,))
    return found


@pytest.mark.parametrize("name", ["grid", "long"])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_two_trees(name: str, scale: float, rng: np.random.Generator) -> None:
    """On a grid, and long thin faces in many leaves; and the same the other way round."""
    make = {"grid": grid_mesh, "long": long_mesh}[name]
    (v, f), (w, g) = make(rng), make(rng)
    v, w = v * scale, (w + 1.0) * scale
    wanted = brute(v[f], w[g], oracle.triangles_touch)
    assert len(wanted) > 0
    b = BVH.from_triangles(w, g)
    for quality in QUALITIES:
        a = BVH.from_triangles(v, f, quality=quality)
        found = ways_to_ask(a, b)
        assert found.tolist() == wanted, quality
        back = b.overlap_tree(a)[:, ::-1]
        assert np.array_equal(found, back[np.lexsort(back.T[::-1])])


def moved(matrix: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return vertices as `overlap_tree` documents that it moves them."""
    x, y, z = v.T
    rows = [((m[0] * x + m[1] * y) + m[2] * z) + m[3] for m in matrix[:3]]
    return np.stack(rows, axis=1)


def test_transforms(rng: np.random.Generator) -> None:
    """Rotation, shear, reflection, a projection; a speck in a giant, and far away."""
    v, f = long_mesh(rng)
    w, g = long_mesh(rng)
    trees = [BVH.from_triangles(v, f, quality=quality) for quality in QUALITIES]
    other = BVH.from_triangles(w, g)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    linears = [turn, -turn, rng.normal(size=(3, 3)), np.eye(3)[[1, 2, 0]], np.diag([1.0, 1.0, 0.0])]
    for linear in linears:
        matrix = np.eye(4)
        matrix[:3, :3] = linear
        matrix[:3, 3] = 2.0 - linear @ np.full(3, 2.0)
        wanted = brute(v[f], moved(matrix, w)[g], oracle.triangles_touch)
        for tree in trees:
            assert ways_to_ask(tree, other, matrix).tolist() == wanted
    for factor, offset in ((1e-6, 0.0), (1e6, 0.0), (1e-100, 0.0), (1e-3, 1e7), (1.0, 1e12)):
        place = np.eye(4)
        place[:3, :3] *= 1.0 / factor
        place[:3, 3] = 2.0 - np.full(3, 2.0 * factor + offset) / factor
        far = BVH.from_triangles(w * factor + offset, g)
        there = moved(place, w * factor + offset)[g]
        wanted = brute(v[f], there, oracle.triangles_touch)
        # The giant among specks, and the speck in the giant.
        across = len(brute((w * factor + offset)[g], v[f], oracle.triangles_touch))
        for tree in trees:
            assert ways_to_ask(tree, far, place).tolist() == wanted
            assert len(far.overlap_tree(tree)) == across


def test_what_overflows_meets_nothing() -> None:
    """Vertices that a transform takes beyond the largest double, and the others of their mesh."""
    v = np.array([*FLAT, [1e300, 0, 0], [1e300, 1, 0], [1e300, 0, 1]])
    tree = BVH.from_triangles(v, [[0, 1, 2], [3, 4, 5]])
    assert tree.overlap_tree(tree, np.diag([1e20, 1, 1, 1])).tolist() == [[0, 0]]
    assert tree.overlap_tree(tree).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("kind", contact_pairs.KINDS)
def test_itself(kind: str, rng: np.random.Generator) -> None:
    """Soups whose faces share corners by index, by coordinates only, or not at all."""
    a, b = contact_pairs.pairs_of(kind, "as is", 30, rng)
    soup = np.concatenate([a, contact_pairs.glued(rng, a, b)])
    wanted = brute(soup, soup, oracle.faces_overlap, True)
    v, f = np.unique(soup.reshape(-1, 3), axis=0, return_inverse=True)
    for mesh in ((v, f.reshape(-1, 3)), (soup.reshape(-1, 3), np.arange(180).reshape(-1, 3))):
        for quality in QUALITIES:
            tree = BVH.from_triangles(*mesh, quality=quality)
            assert ways_to_ask(tree).tolist() == wanted, quality


@pytest.mark.parametrize("quality", QUALITIES)
def test_closed_meshes(quality: str, rng: np.random.Generator) -> None:
    """A closed surface has no overlaps; two that interpenetrate have those of each other."""
    v, f = organic(8)
    tree = BVH.from_triangles(v, f, quality=quality)
    assert ways_to_ask(tree).tolist() == []
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    w = v @ turn + 0.3 * np.ptp(v, axis=0)
    both = BVH.from_triangles(np.concatenate([v, w]), np.concatenate([f, f + len(v)]))
    across = ways_to_ask(tree, BVH.from_triangles(w, f, quality=quality))
    assert len(across) > 50
    assert np.array_equal(ways_to_ask(both), across + [0, len(f)])
    # Each face of a doubled mesh meets its double and that one's neighbours.
    doubled = BVH.from_triangles(v, np.concatenate([f, f[:, ::-1]]), quality=quality)
    pairs = {(int(i), int(j)) for i, j in doubled.self_overlaps()}
    assert all((i, i + len(f)) in pairs for i in range(len(f)))


def test_folds_and_fans() -> None:
    """Strips in one plane, folded onto themselves or not; faces around a vertex."""
    grid = np.stack(np.meshgrid(range(9), range(2), [0], indexing="ij"), -1).reshape(-1, 3)
    strip = np.array([[[i, i + 1, i + 2], [i + 1, i + 3, i + 2]] for i in range(0, 16, 2)])
    f = strip.reshape(-1, 3)
    assert BVH.from_triangles(grid, f).self_overlaps().tolist() == []
    folded = grid.astype(float)
    folded[:, 0] = np.minimum(folded[:, 0], 9.0 - folded[:, 0])
    pairs = BVH.from_triangles(folded, f).self_overlaps()
    assert pairs.tolist() == brute(folded[f], folded[f], oracle.faces_overlap, True)
    assert [8, 9] in pairs.tolist() or len(pairs) > 0
    angles = np.arange(12) * np.pi / 6.0
    rim = np.stack([np.cos(angles), np.sin(angles), 0.1 * np.cos(2.0 * angles)], axis=1)
    v = np.concatenate([[[0.0, 0.0, 0.0]], rim])
    around = np.array([[0, i + 1, (i + 1) % 12 + 1] for i in range(12)])
    assert BVH.from_triangles(v, around).self_overlaps().tolist() == []
    twice = BVH.from_triangles(v, np.concatenate([around, [[0, 1, 4]]])).self_overlaps()
    assert twice.tolist() == brute(
        v[np.concatenate([around, [[0, 1, 4]]])], v[np.concatenate([around, [[0, 1, 4]]])],
        oracle.faces_overlap, True,
    )  # fmt: skip


def test_long_lists(rng: np.random.Generator) -> None:
    """More pairs than any buffer holds: every face of one mesh meets every face of the other."""
    n = 700
    a = np.tile(FLAT, (n, 1)) + np.repeat(rng.random((n, 3)), 3, axis=0) * 1e-3
    b = a[:, [0, 2, 1]] + [0.2, 0.2, -0.5]
    f = np.arange(3 * n).reshape(-1, 3)
    for quality in ("medium", "high"):
        left, right = BVH.from_triangles(a, f, quality=quality), BVH.from_triangles(b, f)
        assert len(ways_to_ask(left, right)) == n * n
    same = BVH.from_triangles(FLAT, np.tile([0, 1, 2], (n, 1)))
    assert len(ways_to_ask(same)) == n * (n - 1) // 2


def test_many_faces(rng: np.random.Generator) -> None:
    """Trees large enough for tasks on threads, all qualities alike."""
    soup = soups.soup(rng, 3000, 0.06)
    points, faces = soups.soup(rng, 3000, 0.06)
    other = points[:, [2, 0, 1]], faces
    wanted = brute_of(soup, other)
    assert len(wanted) > 100
    for quality in QUALITIES:
        tree = BVH.from_triangles(*soup, quality=quality)
        assert np.array_equal(ways_to_ask(tree, BVH.from_triangles(*other)), wanted)


def brute_of(a: Mesh, b: Mesh) -> np.ndarray:
    return np.array(brute(a[0][a[1]], b[0][b[1]], oracle.triangles_touch), np.int32)


@pytest.mark.parametrize("name", ["stanford-bunny.ply", "fandisk.ply"])
def test_scans(name: str) -> None:
    """A real scan against itself, moved: the same pairs from moved vertices and by transform."""
    if not (SCANS / name).is_file():
        pytest.skip(f"no {name} at hand")
    mesh = read_file(SCANS / name, "a mesh")
    matrix = np.eye(4)
    matrix[:3, 3] = np.ptp(mesh.vertices, axis=0) / 10.0
    tree = BVH.from_mesh(mesh)
    there = moved(matrix, np.asarray(mesh.vertices, np.float64))
    found = ways_to_ask(tree, BVH.from_triangles(there, mesh.faces, quality="high"))
    assert len(found) > 100
    assert np.array_equal(found, ways_to_ask(tree, tree, matrix))


def test_empty_trees_meet_nothing() -> None:
    tree = BVH.from_triangles(FLAT, [[0, 1, 2]])
    empty = BVH.from_triangles(np.empty((0, 3)), [])
    for pairs in (tree.overlap_tree(empty), empty.overlap_tree(tree), empty.self_overlaps()):
        assert (pairs.shape, pairs.dtype) == ((0, 2), np.int32)


@pytest.mark.parametrize("quality", QUALITIES)
def test_faces_that_have_left_a_refitted_tree(quality: str, rng: np.random.Generator) -> None:
    """They are no longer met; those beside them in a leaf are."""
    vertices, faces = soups.soup(rng, 60)
    tree = BVH.from_triangles(vertices, faces, quality=quality)
    vertices = vertices.copy()
    vertices[faces[::7, 0]] = np.nan
    tree.refit(vertices)
    new, other = BVH.from_triangles(vertices, faces), BVH.from_triangles(*soups.soup(rng, 60))
    assert np.array_equal(ways_to_ask(tree), ways_to_ask(new))
    assert np.array_equal(ways_to_ask(tree, other), ways_to_ask(new, other))
    assert np.array_equal(ways_to_ask(other, tree), ways_to_ask(other, new))
