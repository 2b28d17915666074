"""`bvh.partition`: sources in windows, splits, ids, and folders that are not finished."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray

import bvh
from bvh.distributed.out_of_core import partitioning
from bvh.distributed.out_of_core.mesh_windows import windows_of
from bvh.distributed.out_of_core.open_parts import byte_count
from bvh.distributed.out_of_core.part_splits import Grid, parts_of_cells
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import sphere

HITS = ("t", "u", "v", "front", "prim_id")


def same_hits(parts: Parts, vertices: NDArray[Any], faces: NDArray[Any], rng: Any) -> None:
    """Check hits against one tree over the whole mesh."""
    tree = bvh.BVH.from_triangles(vertices, faces)
    low, high = tree.bounds
    origins = rng.uniform(2 * low - high, 2 * high - low, (2000, 3))
    directions = vertices[rng.integers(0, len(vertices), 2000)] - origins
    found, wanted = (target.closest_hit(origins, directions) for target in (parts, tree))
    for name in HITS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.usefixtures("small_parts")
def test_spheres_far_apart(tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    meshes = [(vertices + [5.0 * k, k, 0.0], faces) for k in range(5)]
    parts = bvh.partition(iter(meshes), tmp_path / "parts", memory=partitioning.SMALLEST_MEMORY)
    sizes = [part.triangles for part in parts._index.parts]
    assert sum(sizes) == len(parts) == 5 * len(faces)
    assert max(sizes) <= 100
    assert len(sizes) < 4 * len(parts) / 100
    assert [source.first for source in parts.sources] == [k * len(faces) for k in range(5)]
    joined = np.concatenate([faces + k * len(vertices) for k in range(5)])
    same_hits(parts, np.concatenate([mesh[0] for mesh in meshes]), joined, rng)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["equal", "invalid", "tiny among huge"])
def test_what_no_grid_divides(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    corners = rng.normal(size=(1000, 3, 3))
    if kind == "equal":
        corners[:] = corners[0]
    elif kind == "invalid":
        corners[::3, 0, 0] = np.nan
        corners[1::3, 1, 2] = np.inf
    else:
        corners[1:] = corners[1:] * 1e-9 + 1e-3
        corners[0] *= 1e9
    vertices, faces = corners.reshape(-1, 3), np.arange(3000).reshape(-1, 3)
    parts = bvh.partition((vertices, faces), tmp_path / "parts", memory="50MB")
    assert max(part.triangles for part in parts._index.parts) <= 100
    tree = bvh.BVH.from_triangles(vertices, faces)
    middles = np.nan_to_num(corners.mean(axis=1), posinf=0.0, neginf=0.0)
    origins = rng.normal(size=(1000, 3))
    found, wanted = (t.closest_hit(origins, middles - origins) for t in (parts, tree))
    for name in HITS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("ending", ["ply", "stl", "obj", "ascii.ply"])
def test_files(ending: str, tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(2)
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    options = {"encoding": "ascii"} if ending == "ascii.ply" else {}
    mesh.export(paths[0], **options)
    mesh.apply_translation([3.0, 0.0, 0.0]).export(paths[1], **options)
    parts = bvh.partition(paths, tmp_path / "parts", memory="50MB")
    assert [source.name for source in parts.sources] == [str(path) for path in paths]
    read = [trimesh.load(path, process=False) for path in paths]
    joined = trimesh.util.concatenate(read)
    same_hits(parts, np.asarray(joined.vertices), np.asarray(joined.faces), rng)


def test_a_file_that_is_given_twice(tmp_path: Path) -> None:
    """It is two sources, with the faces of each."""
    vertices, faces = sphere(1)
    path = tmp_path / "one.ply"
    trimesh.Trimesh(vertices, faces, process=False).export(path)
    parts = bvh.partition([path, path], tmp_path / "parts")
    assert [source.triangles for source in parts.sources] == [len(faces)] * 2
    source, face = parts.source_of([0, len(faces)])
    assert (source.tolist(), face.tolist()) == ([0, 1], [0, 0])


def test_ply_with_other_properties(tmp_path: Path) -> None:
    header = (
        "ply\nformat binary_big_endian 1.0\ncomment made for a test\nelement vertex 3\n"
        "property double x\nproperty double y\nproperty double z\nproperty uchar red\n"
        "element face 1\nproperty uchar flag\nproperty list uchar int vertex_indices\nend_header\n"
    )
    rows = b"".join(struct.pack(">dddB", x, y, 0.0, 7) for x, y in [(0, 0), (1, 0), (0, 1)])
    path = tmp_path / "one.ply"
    path.write_bytes(header.encode() + rows + struct.pack(">BBiii", 1, 3, 2, 0, 1))
    window = next(windows_of(path))
    assert window.corners[0].tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert window.vertex_ids.tolist() == [[2, 0, 1]]


def test_vertices_are_shared_within_a_part(tmp_path: Path) -> None:
    vertices, faces = sphere(2)
    parts = bvh.partition((vertices, faces), tmp_path / "parts")
    assert len(parts.opened.part(0).tree.vertices) == len(vertices)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (5, TypeError, "source"),
        ([5], TypeError, "mesh 0"),
        ([(np.zeros((3, 3)), [[0, 1, 3]])], ValueError, "mesh 0: faces"),
        (["nowhere.ply"], FileNotFoundError, "nowhere"),
    ],
)
def test_bad_sources(source: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        bvh.partition(source, tmp_path / "parts")
    assert os.listdir(tmp_path / "parts") == []


def test_damaged_stl(tmp_path: Path) -> None:
    path = tmp_path / "cut.stl"
    trimesh.creation.box().export(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"cut\.stl"):
        list(windows_of(path))


@pytest.mark.parametrize(
    ("memory", "count"),
    [("2GB", 2 * 10**9), ("1.5 MiB", 3 << 19), (7, 7), ("12", 12), ("3k", 3000)],
)
def test_bytes(memory: Any, count: int) -> None:
    assert byte_count("memory", memory) == count


@pytest.mark.parametrize("memory", ["much", "2 XB", "-1", "ib", None, 1.5, True])
def test_bad_bytes(memory: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="memory"):
        byte_count("memory", memory)


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="has files in it"):
        bvh.partition(sphere(1), tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    folder = tmp_path / "parts"
    bvh.partition(sphere(1), folder)
    with pytest.raises(FileExistsError):
        bvh.partition(sphere(1), folder)


@pytest.mark.usefixtures("small_parts")
def test_an_interruption_leaves_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "parts"

    with pytest.raises(KeyboardInterrupt):
        bvh.partition(sphere(3), folder, memory="50MB", progress=_interrupt_at(2000))
    assert os.listdir(folder) == []
    parts = bvh.partition(sphere(3), folder, memory="50MB")
    assert len(parts) == len(sphere(3)[1])


def _interrupt_at(count: int) -> Any:
    def progress(done: int, total: int) -> None:
        assert done <= total
        if done >= count:
            raise KeyboardInterrupt

    return progress


def test_cells_of_coordinates_near_the_largest(rng: np.random.Generator) -> None:
    corners = rng.uniform(-1.0, 1.0, (5000, 3, 3)) * 1e307 + rng.choice(
        [-1e308, 1e308], (5000, 1, 3)
    )
    grid = Grid(np.full(3, -1.2e308), np.full(3, 1.2e308))
    grid.add(corners)
    assert grid.counts.sum() == 5000
    assert len(np.unique(parts_of_cells(grid, 1000))) >= 5


@pytest.mark.long
@pytest.mark.usefixtures("small_parts")
def test_scales_that_halve_each_time(tmp_path: Path, rng: np.random.Generator) -> None:
    """Each grid tells only a few triangles from the rest: splits by ids end this."""
    places = 2.0 ** -np.arange(2000.0)[:, None, None] * [[[1e300, 2e300, 3e300]]]
    corners = places + places * rng.uniform(-0.1, 0.1, (2000, 3, 3))
    vertices, faces = corners.reshape(-1, 3), np.arange(6000).reshape(-1, 3)
    seen: list[int] = []
    parts = bvh.partition(
        (vertices, faces), tmp_path / "parts", memory="50MB",
        progress=lambda done, total: seen.append(total),
    )  # fmt: skip
    assert max(part.triangles for part in parts.records) <= 100
    assert parts.part_count < 60
    # Three passes a split, of which 16 follow centroids.
    assert seen[-1] < 80 * len(faces)
    tree = bvh.BVH.from_triangles(vertices, faces)
    middles = corners.mean(axis=1)
    rays = middles - [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], -np.inf
    found, wanted = (t.closest_hit(*rays) for t in (parts, tree))
    for name in HITS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.usefixtures("small_parts")
def test_progress_rises_to_its_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    meshes = [sphere(3), sphere(2), (np.full((3, 3), np.nan), [[0, 1, 2]])]
    bvh.partition(
        meshes, tmp_path / "parts", memory="50MB", progress=lambda *step: seen.append(step)
    )
    for column in zip(*seen, strict=True):
        assert list(column) == sorted(column)
    assert seen[-1][0] == seen[-1][1]
    assert all(done <= total for done, total in seen)


def test_memory_of_a_partition(tmp_path: Path, rng: np.random.Generator) -> None:
    """While a file is read and divided, and while parts are built, it is within the limit."""
    x, y = np.meshgrid(np.arange(388.0), np.arange(388.0), indexing="ij")
    vertices = np.stack([x, y, np.sin(x)], axis=-1).reshape(-1, 3)
    corner = np.arange(388**2 - 389)
    faces = rng.permutation(
        np.concatenate([corner[:, None] + [0, 1, 388], corner[:, None] + [1, 389, 388]])
    )
    path = tmp_path / "mesh.ply"
    path.write_bytes(trimesh.Trimesh(vertices, faces, process=False).export(file_type="ply"))
    bvh.partition(sphere(1), tmp_path / "warm")
    tracemalloc.start()
    try:
        parts = bvh.partition(path, tmp_path / "parts", memory="50MB")
        assert parts.part_count > 2
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("source", [[], (np.empty((0, 3)), np.empty((0, 3), int)), [sphere(0)] * 2])
def test_sources_with_few_triangles(source: Any, tmp_path: Path) -> None:
    parts = bvh.partition(source, tmp_path / "parts")
    empty = not isinstance(source, list) or not source
    assert (len(parts), parts.part_count) == ((0, 0) if empty else (16, 1))
    assert np.isnan(parts.bounds).all() == empty
    assert parts.any_hit([[0.1, 0.2, 5.0]], [0.0, 0.0, -1.0]).tolist() == [not empty]
    assert len(parts.overlap_sphere([0.1, 0.2, 0.0], 9.0)) == len(parts)
    assert parts.corners(parts.closest_point([0.0, 0.0, 0.0]).prim_id).shape == (3, 3)
    assert parts.source_of(-1) == (-1, -1)


@pytest.mark.usefixtures("small_parts")
def test_what_is_written_meanwhile_is_within_the_folder(tmp_path: Path) -> None:
    folder, most = tmp_path / "parts", 0

    def look(done: int, total: int) -> None:
        nonlocal most
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert all(folder in path.parents for path in files)
        assert not (folder / "index.json").exists()
        most = max(most, sum(path.stat().st_size for path in files))

    vertices, faces = sphere(4)
    bvh.partition((vertices, faces), folder, memory="50MB", progress=look)
    # Two spilled copies, or one and some parts, whose files are a page each and more.
    assert most > 200 * len(faces)
    assert not (folder / "unfinished").exists()
