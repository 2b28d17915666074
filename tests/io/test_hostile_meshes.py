"""Files of meshes that would take memory or time without end: refused, and the limits raised."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.io.untrusted_files import Allowance, NamedFiles, TooLarge
from tests.cases.hostile_meshes import FACE, LIMIT, NAMES, gltf, write_all, zipped
from tests.children import answer, start

# Reads files in turn; each has seconds, and all of them have less memory than one would take.
READER = """
import json, logging, os, resource, signal
import trimesh
from bvh.io.mesh_files import mesh_of_file

class Late(BaseException):
    pass

def late(*_):
    raise Late
logging.disable()
signal.signal(signal.SIGALRM, late)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_AS, 2 * (4 << 30,))
said = {}
for name, (path, _) in json.loads(os.environ["FILES"]).items():
    signal.alarm(10)
    try:
        said[name] = repr(mesh_of_file(path))
    except ValueError as error:
        said[name] = str(error)
    except BaseException as error:
        said[name] = repr(error)
    signal.alarm(0)
said["taken"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What was said of each file, its path, and what is to be said; and the memory that it took."""
    pytest.importorskip("resource")
    files = write_all(tmp_path_factory.mktemp("hostile"))
    child = start(READER, FILES=json.dumps(files), BVH_MAX_UNPACKED=LIMIT)
    found = answer(child)
    yield {name: (found[name], *files[name]) for name in files} | {"taken": found["taken"]}


@pytest.mark.parametrize("name", NAMES)
def test_refusals(name: str, said: dict[str, Any]) -> None:
    """Each is a ValueError that names the file, and the limit if it is about that."""
    message, path, match = said[name]
    assert path in message and re.search(match, message), message


def test_memory(said: dict[str, Any]) -> None:
    """All of that took little more than what files may unpack to, in kilobytes."""
    assert said["taken"] << 10 < 6 * LIMIT


def test_a_limit_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of archives, of instances that become one mesh, and by nonsense."""
    paths = [tmp_path / "a.zip", tmp_path / "a.gltf"]
    paths[0].write_bytes(zipped({"a.obj": b"#" * 20_000 + b"\n" + FACE}))
    parts = {"primitives": [{"attributes": {"POSITION": 0}}] * 20}
    nodes, scenes = [{"mesh": 0}] * 50, [{"nodes": [*range(50)]}]
    paths[1].write_bytes(gltf(meshes=[parts], nodes=nodes, scenes=scenes))
    assert len(bvh.BVH.from_file(paths[0])) == 1 and len(bvh.BVH.from_file(paths[1])) == 1_000
    monkeypatch.setenv("BVH_MAX_UNPACKED", "1000")
    for path in paths:
        with pytest.raises(ValueError, match=r"a\.(zip|gltf).* over 1000 bytes more than 8"):
            bvh.BVH.from_file(path)
        with pytest.raises(ValueError, match=r"a\.(zip|gltf).* over 1000 bytes more than 8"):
            bvh.partition(path, tmp_path / "parts")
    monkeypatch.setenv("BVH_MAX_UNPACKED", "20000")
    assert len(bvh.BVH.from_file(paths[0])) == 1 and len(bvh.load_scene(paths[1])) == 1_000
    monkeypatch.setenv("BVH_MAX_UNPACKED", "1 GB")
    with pytest.raises(ValueError, match=r"BVH_MAX_UNPACKED must be a number of bytes.*'1 GB'"):
        bvh.load_scene(paths[0])


def test_names_in_latin_1(tmp_path: Path) -> None:
    """JSON has to be UTF-8, and names that are not are read all the same."""
    data = gltf(nodes=[{"mesh": 0, "name": "Moebel"}]).replace(b"oe", b"\xf6")
    (tmp_path / "a.gltf").write_bytes(data)
    assert [one.name for one in bvh.load_scene(tmp_path / "a.gltf")] == ["Möbel"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("name", ["Möbel", ""])
def test_encodings(name: str, encoding: str, tmp_path: Path) -> None:
    """What Python recognises of JSON is read, and checked: whether names change or not."""
    text = gltf(nodes=[{"mesh": 0, "name": name}]).decode()
    (tmp_path / "a.gltf").write_bytes(text.encode(encoding))
    assert bvh.load_scene(tmp_path / "a.gltf")[0].name == (name or "0")
    (tmp_path / "a.gltf").write_bytes(text.replace('"count": 3', '"count": -3').encode(encoding))
    with pytest.raises(ValueError, match="count must be an integer from 0 up"):
        bvh.load_scene(tmp_path / "a.gltf")


def test_archives(tmp_path: Path) -> None:
    """What trimesh reads from them, with the materials that files in them name."""
    box, ball = trimesh.creation.box(), trimesh.creation.icosphere(subdivisions=1)
    files = {
        "of/box.ply": box.export(file_type="ply"), "ball.stl": ball.export(file_type="stl"),
        "two.glb": trimesh.Scene({"b": box, "c": ball}).export(file_type="glb"), "x.txt": b"x",
        "bad.obj": b"f 1 2 3", "m.obj": b"mtllib m.mtl\nusemtl m\n" + FACE,
        "m.mtl": b"newmtl m\nKd 1 0 0\n",
    }  # fmt: skip
    (tmp_path / "a.zip").write_bytes(zipped(files))
    left_out = r"bad\.obj, which is in an archive, is left out: line 1: 1 is no index of v"
    with pytest.warns(bvh.BVHWarning, match=left_out):
        found = bvh.load_scene(tmp_path / "a.zip")
    with pytest.warns(bvh.BVHWarning, match=left_out):
        tree = bvh.BVH.from_file(tmp_path / "a.zip")
    wanted = trimesh.load(tmp_path / "a.zip", process=False)
    for mesh, one in zip(wanted.dump(), found, strict=True):
        assert np.array_equal(mesh.vertices, one.child.vertices)
        assert np.array_equal(mesh.faces, one.child.faces)
    material = found_material(found)
    assert material is not None and material.factor.tolist() == [1.0, 0.0, 0.0]
    # Into one mesh, as trimesh does.
    whole = trimesh.util.concatenate(wanted.dump())
    assert np.array_equal(tree.vertices, whole.vertices)
    assert np.array_equal(tree.faces, whole.faces)


def found_material(scene: bvh.Scene) -> Any:
    """Return the material of the last mesh."""
    return scene.attributes(scene[int(scene.ids[-1])].child).material


def test_files_that_are_named(tmp_path: Path) -> None:
    """A file that is named twice is read once; one outside of the folder, or in none, is not."""
    data = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    (tmp_path / "b").mkdir()
    path = tmp_path / "b" / "a.gltf"
    (path.parent / "a b.bin").write_bytes(data)
    (tmp_path / "c.bin").write_bytes(data)
    (path.parent / "link").symlink_to(tmp_path / "c.bin")
    named = NamedFiles(str(path), Allowance(str(tmp_path / "c.bin")))
    assert named.get("a b.bin") is named["./a b.bin "] and named["a b.bin"] == data
    for uri, kind in (
        ("a b.bin", None), ("../c.bin", FileNotFoundError), ("link", FileNotFoundError),
        ("../b", IsADirectoryError), (str(tmp_path / "c.bin"), FileNotFoundError),
        ("/dev/zero", FileNotFoundError), ("", IsADirectoryError), ("no", FileNotFoundError),
    ):  # fmt: skip
        path.write_bytes(gltf(buffers=[{"uri": uri, "byteLength": 36}] * 2))
        if kind is None:
            assert len(bvh.BVH.from_file(path)) == 1
            continue
        with pytest.raises(kind):
            named.get(uri)
        with pytest.raises(ValueError, match=r"cannot read .*a\.gltf as a mesh"):
            bvh.BVH.from_file(path)
    assert named.refused is None


def test_holes_of_a_file_allow_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is as large as what it takes on the disk."""
    monkeypatch.setenv("BVH_MAX_UNPACKED", "1000")
    path = tmp_path / "a.zip"
    path.write_bytes(b"x")
    os.truncate(path, 1 << 30)
    if path.stat().st_blocks > 1 << 16:
        pytest.skip("this disk stores holes")
    with pytest.raises(TooLarge, match="it would take over 1000 bytes"):
        Allowance(str(path)).take(1 << 20, "it")


def test_text_of_an_unknown_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """trimesh guesses encodings with a library that few have."""
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    (tmp_path / "a.xyz").write_bytes(b"1 2 3 \xff\xfe\n")
    with pytest.raises(ValueError, match=r"cannot read .*a.xyz as a mesh: its text is not UTF-8"):
        bvh.BVH.from_file(tmp_path / "a.xyz")
