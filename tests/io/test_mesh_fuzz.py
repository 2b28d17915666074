"""Files of meshes at random: what is written is read, and damage is refused or read as others do.

BVH_FUZZ_SEED starts the long run, BVH_FUZZ_SECONDS bounds it (60 by default).
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.io.formats import text_lines
from bvh.io.formats.file_meshes import FileMesh
from bvh.io.mesh_files import READERS
from tests.cases.written_meshes import WRITERS, Written, spoiled
from tests.oracles import mesh_files

SECONDS = float(os.environ.get("BVH_FUZZ_SECONDS", "60"))
ENDINGS = sorted(WRITERS)
SLOW = {".obj": mesh_files.read_obj, ".off": mesh_files.read_off, ".stl": mesh_files.read_stl}
if importlib.util.find_spec("plyfile"):
    SLOW[".ply"] = mesh_files.by_plyfile
HAS_TINY = importlib.util.find_spec("tinyobjloader") is not None
HAS_VTK = importlib.util.find_spec("pyvista") is not None

Rng = np.random.Generator


class Nothing:
    """The files beside a file that has none."""

    def get(self, name: str) -> bytes:
        raise FileNotFoundError(name)


def ours(ending: str, data: bytes) -> FileMesh:
    return READERS[ending](data, Nothing())


def polygons(mesh: FileMesh) -> list[list[int]]:
    ends = zip(mesh.offsets[:-1].tolist(), mesh.offsets[1:].tolist(), strict=True)
    return [mesh.corners[begin:end].tolist() for begin, end in ends]


def same_points(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other, equal_nan=True))


def check_valid(ending: str, made: Written) -> None:
    """Check that a file holds what was written."""
    found = ours(ending, made.data)
    assert same_points(found.points, made.array())
    assert polygons(found) == made.faces
    ids = np.zeros(len(made.faces), int) if found.part_ids is None else found.part_ids
    assert [found.parts[k].name for k in ids] == made.names
    if ending in SLOW:
        points, faces = SLOW[ending](made.data)
        assert same_points(points, made.array()) and faces == made.faces


def check_spoiled(ending: str, data: bytes) -> str:
    """Check that a damaged file is refused, or read as the slow reader does; return which."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = ours(ending, data)
    except ValueError:
        found = None
    try:
        wanted = SLOW[ending](data)
    except Exception:
        wanted = None
    if found is not None and wanted is not None:
        assert same_points(found.points, wanted[0]) and polygons(found) == wanted[1]
        return "warned" if told else "same"
    # plyfile is another's, and control characters are no white space for a number.
    is_text = not any(byte < 32 and byte not in b"\t\n\v\f\r" for byte in data)
    if ending == ".obj" or ending == ".off" or (ending == ".stl" and is_text):
        assert (found is None) == (wanted is None) or not is_text
    return "refused" if found is None else "only ours"


def check_file(path: Path, made: Written) -> None:
    """Check the tree and the scene of a file, which agree, and what other libraries read."""
    path.write_bytes(made.data)
    tree = bvh.BVH.from_file(path)
    assert same_points(tree.vertices, made.array())
    ids = np.atleast_1d(tree.face_of(np.arange(len(tree)))).tolist()
    assert ids == sorted(ids)
    for row, corners in zip(ids, tree.faces.tolist(), strict=True):
        assert set(corners) <= set(made.faces[row])
    scene, triangles = bvh.load_scene(path), tree.vertices[tree.faces]
    names = np.array([made.names[row] or path.name for row in ids], object)
    count = 0
    for label in dict.fromkeys(names):
        own = triangles[names == label]
        parts = [one for one in scene if re.fullmatch(re.escape(label) + r"(_\d+)?", one.name)]
        found = [one.child.vertices[one.child.faces] for one in parts]
        if len(found) == 1:
            assert same_points(found[0], own)
            rows = np.asarray(parts[0].child.face_of(np.arange(len(own))))
            assert (np.diff(rows) >= 0).all()
        count += sum(map(len, found))
    assert count >= len(tree) == sum(len(one.child) for one in scene)
    if made.is_plain and path.suffix == ".obj" and HAS_TINY:
        points, faces, given = mesh_files.by_tinyobjloader(path)
        assert np.allclose(points, made.array(), 1e-5, 1e-6) and faces == made.faces
        assert given == [name or "" for name in made.names]
    if made.is_plain and path.suffix in (".off", ".stl") and HAS_VTK:
        points, faces = mesh_files.by_vtk(path)
        assert np.allclose(points, made.array(), 1e-6, 1e-30) and faces == made.faces


def run(ending: str, rng: Rng, folder: Path, count: int | None, seconds: float) -> int:
    """Write and spoil files, by their number or for some seconds."""
    end, done, seen = time.monotonic() + seconds, 0, Counter[str]()
    while done < count if count is not None else time.monotonic() < end:
        seed = int(rng.integers(2**62))
        own = np.random.default_rng(seed)
        made = WRITERS[ending](own)
        with pytest.MonkeyPatch.context() as patch:
            # Lines are read in pieces, which should not matter.
            patch.setattr(text_lines, "PIECE", int(own.choice([16, 64, 1 << 22])))
            try:
                check_valid(ending, made)
                if ending in SLOW:
                    seen[check_spoiled(ending, spoiled(made.data, own))] += 1
                if done % 50 == 0 and any(len({*face}) > 2 for face in made.faces):
                    check_file(folder / f"mesh{ending}", made)
            except Exception as error:
                raise AssertionError(f"{ending}, seed {seed}: {error}\n{made.data!r}") from error
        done += 1
    print(f"{done} files {ending}, as many spoiled: {dict(seen)}")
    return done


@pytest.mark.parametrize("ending", ENDINGS)
def test_some(ending: str, rng: Rng, tmp_path: Path) -> None:
    run(ending, rng, tmp_path, 60, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_many(ending: str, rng: Rng, tmp_path: Path) -> None:
    run(ending, rng, tmp_path, None, SECONDS / len(ENDINGS))
