"""Files of parts: what is missing, damaged or exchanged is named before any answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import sphere
from tests.cases.partitions import parts_of

RAY = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vertices, faces = sphere(2)
    # Every part surrounds the centre, so that no ray can do without any.
    parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    return tmp_path / "parts"


def damage(path: Path, at: int) -> None:
    """Change one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["00001.bvh", "00001.npy"])
@pytest.mark.parametrize("how", ["missing", "cut off", "one byte", "exchanged"])
def test_bad_files_of_a_part(name: str, how: str, folder: Path) -> None:
    path = folder / name
    if how == "missing":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(path.read_bytes()[:-64])
    elif how == "one byte":
        damage(path, path.stat().st_size // 2)
    else:
        shutil.copy(path.with_name(name.replace("1", "2")), path)
    with pytest.raises(ValueError, match=f"part 1 .*{name}"):
        bvh.load(folder).closest_hit(*RAY)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99}, {"version": "x"}, {"format": "else"}, {"parts": 5}, {"triangles": 7},
        {"sources": []}, {"parts": [{"triangles": 1}]}, {"quality": None, "parts": None},
    ],
)  # fmt: skip
def test_bad_index(change: dict[str, Any], folder: Path) -> None:
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": "bvh parts"}'])
def test_index_that_is_no_index(text: str, folder: Path) -> None:
    (folder / "index.json").write_text(text)
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


@pytest.mark.parametrize("key", ["tree_bytes", "bounds", "tree_header", "ids_digest", "triangles"])
def test_index_with_a_wrong_number(key: str, folder: Path) -> None:
    path = folder / "index.json"
    content = json.loads(path.read_text())
    content["parts"][0][key], content["parts"][1][key] = "12", [1, 2]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


def test_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no index\.json"):
        bvh.load(tmp_path)


def test_memory_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("BVH_PARTS_DIR", str(tmp_path / "fetched"))
    vertices, faces = sphere(2)
    parts = bvh.partition((vertices, faces), "memory://city")
    tree = bvh.BVH.from_triangles(vertices, faces)
    for target in (parts, bvh.load("memory://city")):
        assert target.closest_hit(*RAY).t == tree.closest_hit(*RAY).t
    assert len(list((tmp_path / "fetched").iterdir())) == 2
    with pytest.raises(FileExistsError):
        bvh.partition((vertices, faces), "memory://city")
    files = fsspec.filesystem("memory")
    content = files.cat_file("/city/00000.bvh")
    files.pipe_file("/city/00000.bvh", content[:-64])
    monkeypatch.setenv("BVH_PARTS_DIR", str(tmp_path / "again"))
    with pytest.raises(ValueError, match=r"part 0 \(00000.bvh\)"):
        Parts("memory://city").closest_hit(*RAY)
    files.rm("/city", recursive=True)


def test_parts_are_let_go_within_memory(folder: Path) -> None:
    size = (folder / "00000.bvh").stat().st_size
    parts = Parts(folder, memory=2 * size + 100)
    parts.closest_hit(*RAY)
    assert len(parts._open._open) == 2
    assert len(Parts(folder, memory=1)._open._open) == 0
