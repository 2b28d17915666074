"""Groups of faces of meshes in parts: a mask chooses as in one tree, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed import part_folder
from bvh.distributed.out_of_core import part_visits
from tests.cases.families import sphere
from tests.cases.part_checks import check_points, check_rays, check_regions
from tests.cases.partitions import WAYS, cut_parts, parts_of, random_parts
from tests.cases.soups import soup

ALL = 0xFFFFFFFF

# Faces of a group have open edges, and what parity says of them must be the same in parts.
pytestmark = pytest.mark.filterwarnings("ignore:.*has open edges:bvh.BVHWarning")


def mesh_of(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return triangles, some not finite, with groups; on one side faces have one bit, or none."""
    vertices, faces = soup(rng, 400)
    vertices[rng.integers(0, len(vertices), 3)] = np.nan
    groups = rng.integers(0, 8, len(faces)).astype(np.uint32)
    groups[::9] |= np.uint32(1 << 31)
    with np.errstate(all="ignore"):
        middles = np.nan_to_num(vertices[faces].mean(axis=1)[:, 0])
    left = middles < np.median(middles)
    groups[left] &= 1
    groups[middles < np.quantile(middles, 0.1)] = 0
    return vertices, faces, groups


def check_all(parts: Any, tree: bvh.BVH, rng: np.random.Generator, mask: Any, lazily: bool) -> None:
    """Check all queries with a mask of one number, or of rays."""
    points = rng.normal(size=(150, 3))
    rays = {"origins": points, "directions": rng.normal(size=(150, 3))}
    check_rays(parts, tree, rays if mask is None else rays | {"mask": mask}, lazily)
    if np.ndim(mask):
        return
    given = {} if mask is None else {"mask": mask}
    check_points(parts, tree, points, rng, lazily, **given)
    check_regions(parts, tree, points, rng, lazily, **given)
    for accuracy in (2.0, np.inf):
        np.testing.assert_allclose(
            parts.winding_number(points, accuracy, **given),
            tree.winding_number(points, accuracy, **given),
            atol=0.002 if accuracy == 2.0 else 1e-12,
        )
    wound = tree.winding_number(points, **given)
    sure = np.abs(wound - 0.5) > 0.01
    inside = parts.contains(points, method="winding", **given)
    np.testing.assert_array_equal(inside[sure], wound[sure] > 0.5)


@pytest.mark.answers
@pytest.mark.parametrize("way", WAYS)
def test_masks(
    way: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_visits, "TOGETHER", 70)
    monkeypatch.setattr(part_visits, "POINTS", 70)
    vertices, faces, groups = mesh_of(rng)
    tree = bvh.BVH.from_triangles(vertices, faces, groups=groups)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng, way=way, groups=groups)
    for mask in (None, 5, 0, rng.integers(0, 8, 150)):
        check_all(parts, tree, rng, mask, lazily=False)
    ids = np.append(rng.integers(0, len(faces), 50), -1)
    np.testing.assert_array_equal(parts.groups_of(ids), np.append(groups, 0)[ids])
    assert parts.groups_of(3) == groups[3]


def test_masks_lazily(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("dask.array")
    vertices, faces, groups = mesh_of(rng)
    tree = bvh.BVH.from_triangles(vertices, faces, groups=groups)
    part = np.arange(len(faces)) % 3
    parts = parts_of(tmp_path / "parts", vertices, faces, part, 30_000, groups)
    for mask in (5, rng.integers(0, 8, 150)):
        check_all(parts, tree, rng, mask, lazily=True)


def test_masks_of_parts_without_groups(tmp_path: Path, rng: np.random.Generator) -> None:
    """All faces have all bits; the index has none."""
    vertices, faces, _ = mesh_of(rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = cut_parts(tmp_path / "parts", vertices, faces, 100)
    for mask in (0, 4, rng.integers(0, 3, 150)):
        check_all(parts, tree, rng, mask, lazily=False)
    assert parts.groups_of([[0, -1]]).tolist() == [[ALL, 0]]
    content = json.loads((tmp_path / "parts" / "index.json").read_text())
    assert [part["groups"] for part in content["parts"]] == [None] * parts.part_count


def test_parts_without_faces_that_count_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vertices, faces = sphere(2)
    part = np.arange(len(faces)) % 4
    groups = np.where(part == 3, 0, 1 << part)
    parts, opened = parts_of(tmp_path / "parts", vertices, faces, part, groups=groups), set[int]()
    open_part = parts.opened.part
    monkeypatch.setattr(
        parts.opened, "part", lambda number: (opened.add(number), open_part(number))[1]
    )
    rays = np.zeros((99, 3)), np.random.default_rng(1).normal(size=(99, 3))
    for mask, wanted in ((2, {1}), (5, {0, 2}), (8, set()), (None, {0, 1, 2})):
        parts.closest_hit(*rays, mask=mask)
        parts.all_hits(*rays, mask=mask)
        parts.closest_point(rays[1], mask=mask)
        parts.contains(rays[1], mask=mask)
        parts.winding_number(rays[1], mask=mask)
        parts.overlap_sphere(rays[1], 9.0, mask=mask)
        assert opened == wanted
        opened.clear()


@pytest.mark.parametrize("kind", ["list", "uint8", "memory map", "path", "number", "tree"])
def test_groups_are_kept(kind: str, tmp_path: Path) -> None:
    vertices, faces = sphere(2)
    bits = np.arange(len(faces)) % 200
    np.save(tmp_path / "bits.npy", bits)
    given: Any = {
        "list": bits.tolist(), "uint8": bits.astype(np.uint8), "path": tmp_path / "bits.npy",
        "memory map": np.load(tmp_path / "bits.npy", mmap_mode="r"), "number": 6, "tree": None,
    }[kind]  # fmt: skip
    source: Any = (vertices, faces)
    if kind == "tree":
        bvh.BVH.from_triangles(vertices, faces, groups=bits).save(tmp_path / "tree.bvh")
        source = bvh.load(tmp_path / "tree.bvh", mmap=True)
    parts = bvh.partition(source, tmp_path / "parts", groups=given)
    wanted = np.full(len(faces), 6) if kind == "number" else bits
    np.testing.assert_array_equal(parts.groups_of(np.arange(len(faces))), wanted)
    tree = bvh.load(tmp_path / "parts" / "00000.bvh")
    np.testing.assert_array_equal(tree.groups, wanted)
    assert bvh.load(tmp_path / "parts").records[0].groups == np.bitwise_or.reduce(wanted)


def test_groups_of_some_sources(tmp_path: Path) -> None:
    """Triangles of the others have all bits; those that are given count instead of any."""
    vertices, faces = sphere(1)
    tree = bvh.BVH.from_triangles(vertices, faces, groups=5)
    sources = [(vertices, faces), tree, (vertices + 3.0, faces)]
    parts = bvh.partition(sources, tmp_path / "parts")
    n = len(faces)
    assert parts.groups_of([0, n, 2 * n - 1, 2 * n]).tolist() == [ALL, 5, 5, ALL]
    parts = bvh.partition(sources, tmp_path / "others", groups=np.arange(3 * n))
    np.testing.assert_array_equal(parts.groups_of(np.arange(3 * n)), np.arange(3 * n))


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([1, 2], ValueError, "groups must be one"), (np.ones(81), TypeError, "groups must be int"),
        (np.ones((32, 1), int), ValueError, "groups must be one number"),
        (np.ones(81, int), ValueError, "one for each of 32 triangles"),
        (np.full(32, -1), ValueError, "groups must be in 0..0xFFFFFFFF"), (2**32, ValueError, "in"),
        (np.array(-1), ValueError, "in 0"), (np.array(1.0), TypeError, "groups must be int"),
        ("nowhere.npy", FileNotFoundError, "nowhere"), (__file__, ValueError, "is no .npy file"),
    ],
)  # fmt: skip
def test_bad_groups(groups: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        bvh.partition(sphere(1), tmp_path / "parts", groups=groups)
    if np.ndim(groups) == 0 and not isinstance(groups, str):
        # One number is checked before anything is read.
        with pytest.raises(error, match=message):
            bvh.partition([], tmp_path / "parts", groups=groups)


@pytest.mark.parametrize("bits", [3, 0, None, -1, 2**32, 7.0, "7"])
def test_an_index_with_other_groups(bits: Any, tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    bvh.partition((vertices, faces), tmp_path / "parts", groups=np.arange(len(faces)) % 8)
    path = tmp_path / "parts" / "index.json"
    content = json.loads(path.read_text())
    assert content["parts"][0]["groups"] == 7
    content["parts"][0]["groups"] = bits
    content["digest"] = part_folder.index_digest(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"other groups|groups are not 32 bits"):
        bvh.load(tmp_path / "parts").validate()


def test_faces_without_groups_are_in_no_picture(tmp_path: Path) -> None:
    """They may be neighbours of those that are seen, on which smooth normals depend."""
    vertices, faces = sphere(2)
    groups = np.arange(len(faces)) % 3
    tree = bvh.BVH.from_triangles(vertices, faces, groups=groups)
    parts = bvh.partition(tree, tmp_path / "parts")
    camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 40.0, 40, 30)
    surface = parts.visible_tree(camera).surface
    found, wanted = (t.closest_hit(*camera.rays()) for t in (surface, tree))
    np.testing.assert_array_equal(found.t, wanted.t)
