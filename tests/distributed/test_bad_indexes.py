"""Indexes of parts: edited, hostile, and those of other files; none leads to a wrong answer."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed import part_folder
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import sphere
from tests.cases.partitions import parts_of

RAY = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two parts, the halves of a sphere; `RAY` hits that on the right."""
    vertices, faces = sphere(2)
    right = vertices[faces].mean(axis=1)[:, 0] > 0
    parts_of(tmp_path / "parts", vertices, faces, right.astype(np.int64))
    return tmp_path / "parts"


def content_of(folder: Path) -> Any:
    return json.loads((folder / "index.json").read_text())


def write(folder: Path, content: Any, *, signed: bool) -> None:
    """Write an index, with the checksum that its content has if it is signed."""
    if signed:
        content["digest"] = part_folder.index_digest(content)
    (folder / "index.json").write_text(json.dumps(content))


def leaves(content: Any) -> list[tuple[Any, Any]]:
    """Return where each value of an index is: its list or object, and its key there."""
    found = []
    for key in content if isinstance(content, dict) else range(len(content)):
        value = content[key]
        found += leaves(value) if isinstance(value, dict | list) else [(content, key)]
    return found


def test_every_value_is_covered_by_the_checksum(folder: Path) -> None:
    content = content_of(folder)
    count = len(leaves(content))
    assert count > 25
    for k in range(count):
        changed = copy.deepcopy(content)
        holder, key = leaves(changed)[k]
        value = holder[key]
        holder[key] = value + "0" if isinstance(value, str) else (value or 0) * 0.75 + 1
        write(folder, changed, signed=False)
        with pytest.raises(ValueError, match=r"index\.json"):
            bvh.load(folder)
    write(folder, content, signed=False)
    assert bvh.load(folder).closest_hit(*RAY).prim_id >= 0


def test_a_box_that_is_too_small(folder: Path) -> None:
    """No ray would find the part, and no file would be opened that could tell."""
    content = content_of(folder)
    for part in content["parts"]:
        part["bounds"] = [50.0, 50.0, 50.0, 51.0, 51.0, 51.0]
    write(folder, content, signed=False)
    with pytest.raises(ValueError, match=r"index\.json.*checksum"):
        bvh.load(folder)


def test_a_box_that_is_not_the_trees(folder: Path) -> None:
    content = content_of(folder)
    content["parts"][1]["bounds"][3] -= 1e-9
    write(folder, content, signed=True)
    with pytest.raises(ValueError, match=r"part 1 \(00001.bvh\).*box"):
        bvh.load(folder).closest_hit(*RAY)


def test_a_box_that_no_ray_meets(folder: Path) -> None:
    """The part would never be opened: its header is looked at when the folder is."""
    content = content_of(folder)
    content["parts"][1]["bounds"] = [50.0, 50.0, 50.0, 51.0, 51.0, 51.0]
    write(folder, content, signed=True)
    with pytest.raises(ValueError, match=r"part 1 \(00001.bvh\) has another box"):
        bvh.load(folder)


def test_a_checksum_of_another_size(folder: Path) -> None:
    """Also one that is right elsewhere."""
    content = content_of(folder)
    content["parts"][1]["tree_header"] = content["parts"][1]["ids_digest"]
    write(folder, content, signed=True)
    with pytest.raises(ValueError, match="a checksum is not one"):
        bvh.load(folder)


def test_counts_that_are_not_the_trees(folder: Path) -> None:
    content = content_of(folder)
    for part, more in zip(content["parts"], (1, -1), strict=True):
        part["triangles"] += more
    write(folder, content, signed=True)
    with pytest.raises(ValueError, match=r"part 0 \(00000.bvh\) has another box, or other"):
        bvh.load(folder)


@pytest.mark.parametrize("what", ["groups", "ids"])
def test_what_was_checked_for_another_index(what: str, tmp_path: Path) -> None:
    """Files that are as they were are checked again for what this index says of them."""
    vertices, faces = sphere(1)
    part = np.arange(len(faces)) % 2
    parts_of(tmp_path, vertices, faces, part, groups=np.arange(len(faces)) % 8).validate()
    content = content_of(tmp_path)
    if what == "groups":
        content["parts"][1]["groups"] = 0
        match = r"part 1 \(00001.bvh\): has other groups than the index says"
    else:
        # As if there were only the first part's triangles.
        content["parts"].pop()
        content["triangles"] = content["sources"][0]["triangles"] = len(faces) // 2
        match = r"part 0 \(00000.npy\): holds ids that are not ascending in 0..15"
    write(tmp_path, content, signed=True)
    with pytest.raises(ValueError, match=match):
        bvh.load(tmp_path).validate()


def test_one_byte(folder: Path, rng: np.random.Generator) -> None:
    path = folder / "index.json"
    text, wanted = path.read_bytes(), bvh.load(folder).closest_hit(*RAY).t
    for at in rng.integers(0, len(text), 200):
        changed = bytearray(text)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            # A space may become another one.
            assert bvh.load(folder).closest_hit(*RAY).t == wanted
        except ValueError as error:
            assert "index.json" in str(error)


HOSTILE: list[Callable[[Any], Any]] = [
    lambda c: c["parts"][0].update(tree_header="../../../../etc/passwd"),
    lambda c: c["parts"][0].update(ids_digest="0" * 31 + "/"),
    lambda c: c["parts"][0].update(ids_digest=5),
    lambda c: c["parts"][0].update(tree_digest=None),
    lambda c: c["parts"][0].update(tree_digest="../" + "0" * 61),
    lambda c: c["parts"][0].update(tree_digest="0" * 32),
    lambda c: c["parts"][0].pop("tree_digest"),
    lambda c: c.update(version=1),
    lambda c: c["parts"][0].update(tree_bytes=-1),
    lambda c: c["parts"][0].update(tree_bytes=10**400),
    lambda c: c["parts"][0].update(tree_bytes=True),
    lambda c: c["parts"][0].update(ids_bytes=0.5),
    lambda c: c["parts"][0].update(triangles=float("nan")),
    lambda c: c["parts"][0].update(bounds=[0.0, 0.0, 0.0, float("nan"), 1.0, 1.0]),
    lambda c: c["parts"][0].update(bounds=[0.0, 0.0, 0.0, float("inf"), 1.0, 1.0]),
    lambda c: c["parts"][0].update(bounds=[0, 0, 0, 10**400, 1, 1]),
    lambda c: c["parts"][0].update(bounds=["0", "0", "0", "1", "1", "1"]),
    lambda c: c["parts"][0].update(bounds=[2.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
    lambda c: c["parts"][0].update(bounds=[0.0] * 7),
    lambda c: c["parts"][0].update(bounds={}),
    lambda c: c["parts"][0].update(more=1),
    lambda c: c["parts"].append(c["parts"][0]),
    lambda c: c["parts"].append(None),
    lambda c: c["sources"][0].update(first=-1),
    lambda c: c["sources"][0].update(first=0.0),
    lambda c: c["sources"][0].update(name=None),
    lambda c: c["sources"][0].update(triangles=2**70),
    lambda c: c["sources"].append({"name": "more", "first": 5, "triangles": 1}),
    lambda c: c.update(triangles=0),
    lambda c: c.update(triangles=str(c["triangles"])),
    lambda c: c.update(version=True),
    lambda c: c.update(version=10**9),
    lambda c: c.update(parts=[]),
]


@pytest.mark.parametrize("change", HOSTILE)
def test_hostile_content(change: Callable[[Any], Any], folder: Path) -> None:
    """Whoever can write an index can write its checksum."""
    content = content_of(folder)
    change(content)
    write(folder, content, signed=True)
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


def test_hostile_files(folder: Path) -> None:
    """The checksums of the index are right, and what they stand for is not."""
    content = content_of(folder)
    path, good = folder / "00001.npy", np.load(folder / "00001.npy")
    pair = good.copy()
    pair[:2] = pair[1], pair[0]
    bad = [good - 5 * len(good), good * 2, pair, good[:-1], good.astype(">i8"), good.reshape(-1, 2)]
    texts = [b"", b"\x93NUMPY", b"PK\x03\x04" + bytes(200), pickle.dumps(good)]
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (%s,), }\n"
    for count in (b"99999999999999", b"-1", b"'x'", b"__import__('os').abort()"):
        line = header % count
        texts.append(b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + bytes(800))
    for ids in [*bad, *texts]:
        if isinstance(ids, bytes):
            path.write_bytes(ids or b"x")
        else:
            np.save(path, ids)
        record = content["parts"][1]
        record["ids_bytes"] = path.stat().st_size
        record["ids_digest"] = part_folder.file_digest(path)
        write(folder, content, signed=True)
        with pytest.raises(ValueError, match=r"part 1 \(00001.npy\)"):
            bvh.load(folder).closest_hit(*RAY)


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b'{"format": "\xe9"}', b"\0" * 50, b"1" * 9999])
def test_what_is_no_text(text: bytes, folder: Path) -> None:
    (folder / "index.json").write_bytes(text)
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", None)])
def test_what_is_no_file(make: Any, folder: Path) -> None:
    if make is None:
        pytest.skip("needs pipes")
    (folder / "index.json").unlink()
    make(folder / "index.json")
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


def test_an_index_of_a_newer_version(folder: Path) -> None:
    write(folder, content_of(folder) | {"version": 4, "digest": "of another kind"}, signed=False)
    with pytest.raises(ValueError, match="has format version 4; this version of bvh reads 3"):
        bvh.load(folder)


def test_an_index_of_another_folder(folder: Path, tmp_path: Path) -> None:
    """Its boxes let no ray through to a part that could tell."""
    vertices, faces = sphere(2)
    parts_of(tmp_path / "other", vertices + 100.0, faces, np.arange(len(faces)) % 2)
    shutil.copy(tmp_path / "other" / "index.json", folder / "index.json")
    with pytest.raises(ValueError, match=r"part 0 \(00000.bvh\)"):
        bvh.load(folder)


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_parts_that_travel_to_where_the_folder_is_another(
    how: str, folder: Path, tmp_path: Path
) -> None:
    """Also after the folder was opened, and its index with it."""
    there = pickle.dumps(Parts(folder))
    if how == "removed":
        shutil.rmtree(folder)
    elif how == "moved":
        folder.rename(tmp_path / "away")
    else:
        vertices, faces = sphere(2)
        shutil.rmtree(folder)
        parts_of(folder, vertices * 0.5, faces, np.arange(len(faces)) % 2)
    with pytest.raises(ValueError, match=r"part 1 \(00001.bvh\)"):
        pickle.loads(there).closest_hit(*RAY)


def test_a_relative_folder_is_meant_as_it_was_opened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    parts, wanted = bvh.load(folder.name), bvh.load(folder).closest_hit(*RAY).t
    monkeypatch.chdir(os.sep)
    for target in (parts, pickle.loads(pickle.dumps(parts))):
        assert target.closest_hit(*RAY).t == wanted
