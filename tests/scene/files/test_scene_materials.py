"""Materials of saved scenes: colours and images come back, and files are not trusted for them."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import Scene
from bvh.io.materials import Material
from bvh.io.trimesh_scenes import Attributes
from bvh.pictures import render
from tests.cases.frozen_files import saved_scene
from tests.cases.saved_scenes import SceneParts
from tests.cases.saved_trees import bytes_of, tree_of

Image = pytest.importorskip("PIL.Image")
Rng = np.random.Generator


def scene_of(rng: Rng) -> Scene:
    """Return a scene with materials of all kinds; two share an image."""
    image = Image.fromarray(rng.integers(0, 256, (6, 5, 4), np.uint8).view(), "RGBA")
    looks = [
        Material(np.array([0.1, 1.0, 0.3]), image, linear=True),
        Material(np.ones(3), image, rng.integers(0, 256, (36, 3), np.uint8)),
        Material(np.zeros(3), face_colors=rng.integers(0, 256, (12, 3), np.uint8)),
        Material(np.ones(3), Image.new("CMYK", (3, 2), (9, 8, 7, 6))),
        None,
    ]
    inner, scene = Scene(), Scene()
    for k, look in enumerate(looks):
        part = inner if k % 2 else scene
        tree = tree_of("triangles", rng, 12)
        part.add(tree, name="é" * k)
        uv = rng.random((36, 2)) if k < 3 else None
        part._attributes[id(tree)] = tree, Attributes(None, uv, look)
    scene.add(inner)
    scene.add(tree_of("boxes", rng, 3))
    return scene


def looks_of(scene: Scene) -> list[Any]:
    """Return all that is known of the materials of a scene's leaves."""
    found: list[Any] = []
    for tree in scene.leaves.trees:
        look, image = scene.attributes(tree).material, None
        if look is not None and look.image is not None:
            rgb = look.image if look.image.mode != "CMYK" else look.image.convert("RGB")
            image = rgb.mode, rgb.size, rgb.tobytes()
        arrays = () if look is None else (look.factor, look.vertex_colors, look.face_colors)
        shown = [None if a is None else (a.dtype.str, a.tolist()) for a in arrays]
        found.append((shown, image, look is not None and look.linear))
    return found


@pytest.mark.parametrize("mmap", [False, True])
def test_materials_come_back(mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """Read and mapped; saved again, it is the same file."""
    scene, path = scene_of(rng), tmp_path / "scene.bvh"
    scene.save(path)
    again = bvh.load(path, mmap=mmap)
    assert isinstance(again, Scene) and looks_of(again) == looks_of(scene)
    found = [again.attributes(tree).material for tree in again.leaves.trees]
    images = {id(one.image) for one in found if one is not None and one.image is not None}
    assert len(images) == 2
    before = path.read_bytes()
    assert before[8:12] == b"\4\0\0\0" and SceneParts(before).joined() == before
    again.save(path)
    assert path.read_bytes() == before
    for part in (scene, scene[3].child):
        part._attributes = {k: (t, a._replace(material=None)) for k, (t, a) in
                            part._attributes.items()}  # fmt: skip
    scene.save(path)
    assert looks_of(bvh.load(path, mmap=mmap)) == looks_of(scene)


def test_pictures_are_the_same(tmp_path: Path) -> None:
    """Of a file that trimesh reads, as it is and saved."""
    box = trimesh.creation.box()
    uv = box.vertices[:, :2] + 0.5
    image = Image.effect_mandelbrot((64, 64), (-2, -1, 1, 1), 20).convert("RGB")
    look = trimesh.visual.material.PBRMaterial(baseColorTexture=image)
    box.visual = trimesh.visual.TextureVisuals(uv=uv, material=look)
    painted = trimesh.creation.icosphere(subdivisions=1)
    painted.visual.face_colors = np.arange(240, dtype=np.uint8).reshape(80, 3)
    painted.apply_translation([2, 0, 0])
    trimesh.Scene([box, painted]).export(tmp_path / "a.glb")
    scene = bvh.load_scene(tmp_path / "a.glb")
    scene.save(tmp_path / "a.bvh")
    camera = bvh.Camera.framing(scene, width=32, height=32)
    pictures = [
        render(one, camera, "material").pixels
        for one in (scene, bvh.load(tmp_path / "a.bvh", mmap=True))
    ]
    assert np.array_equal(*pictures) and len(np.unique(pictures[0].reshape(-1, 3), axis=0)) > 50


def png(pixels: bytes, width: int, height: int) -> bytes:
    """Return an RGB image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def frozen(rng: Rng, spoil: Any = lambda parts: parts) -> bytes:
    """Return a file with a painted tree that has an image, and one without either."""
    trees = [tree_of("triangles", rng, 2), tree_of("triangles", rng, 2)]
    files = [bytes_of(tree) for tree in trees]
    image = png(b"\0" + bytes(range(6)), 2, 1)
    record = struct.pack("<3d4BI", 0.25, 0.5, 1.0, 1, 1, 1, 0, 1)
    parts = [struct.pack("<IQ", 1, len(image)), record, image, bytes(range(24))]
    blob = b"".join(spoil(parts))
    tables = {
        "scenes": [(2, 2, 0)], "ids": [0, 1], "children": [0, 1],
        "maps": np.tile(np.eye(3, 4).reshape(12), (2, 1)), "masks": [1, 1], "visible": [1, 1],
        "named": [0, 1], "lengths": [0, 3], "text": list(b"abc" + blob),
        "trees": [(len(files[0]), 0, 0, 1, 0), (len(files[1]), 0, 0, 0, 0)],
        "normals": np.empty((0, 3)), "uv": np.empty((0, 2)),
    }  # fmt: skip
    return saved_scene(tables, files)


@pytest.mark.unaudited
def test_a_frozen_file_is_read(tmp_path: Path, rng: Rng) -> None:
    """As it was written first, byte by byte; a newer version is refused."""
    path, data = tmp_path / "old.bvh", frozen(rng)
    path.write_bytes(data)
    for mmap in (False, True):
        scene = bvh.load(path, mmap=mmap)
        assert isinstance(scene, Scene) and scene[1].name == "abc"
        look = scene.attributes(scene[0].child).material
        assert look is not None and look.factor.tolist() == [0.25, 0.5, 1.0] and look.linear
        assert look.image.tobytes() == bytes(range(6)) and look.image.size == (2, 1)
        assert look.vertex_colors.tolist() == np.arange(18).reshape(6, 3).tolist()
        assert look.face_colors.tolist() == np.arange(18, 24).reshape(2, 3).tolist()
        assert scene.attributes(scene[1].child).material is None
    path.write_bytes(data[:8] + b"\5" + data[9:])
    with pytest.raises(ValueError, match=r"version 5; this version of bvh reads 1 to 4"):
        bvh.load(path)


def changed(part: int, at: int, value: bytes) -> Any:
    """Return what writes bytes into a part of the materials."""

    def spoil(parts: list[bytes]) -> list[bytes]:
        parts[part] = parts[part][:at] + value + parts[part][at + len(value) :]
        return parts

    return spoil


LARGE = png(b"", 2**15, 2**15)
HOSTILE: dict[str, tuple[Any, str]] = {
    "nothing": (lambda parts: [], "cut off"),
    "many images": (changed(0, 0, b"\xff\xff\xff\xff"), "cut off"),
    "large image": (changed(0, 4, b"\xff" * 8), "cut off"),
    "unused image": (
        lambda parts: [
            struct.pack("<I2Q", 2, len(parts[2]), len(parts[2])), parts[1], 2 * parts[2], parts[3]
        ],
        "an image is not used",
    ),
    "no colours": (lambda parts: parts[:3], "cut off"),
    "more": (lambda parts: [*parts, b"\0"], "something behind its materials"),
    "no image": (changed(1, 28, b"\2"), "cannot have"),
    "not a number": (changed(1, 0, struct.pack("<d", np.nan)), "cannot have"),
    "bright": (changed(1, 8, struct.pack("<d", 1.5)), "cannot have"),
    "flag": (changed(1, 25, b"\2"), "cannot have"),
    "padding": (changed(1, 27, b"\1"), "cannot have"),
    "no PNG": (changed(2, 0, b"GIF89a"), "an image in it cannot be opened"),
    "bomb": (
        lambda parts: [struct.pack("<IQ", 1, len(LARGE)), parts[1], LARGE, parts[3]],
        "an image in it cannot be opened: .*decompression bomb",
    ),
}  # fmt: skip


@pytest.mark.unaudited
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_materials(name: str, tmp_path: Path, rng: Rng) -> None:
    """Checksums are right, and what is said cannot be."""
    spoil, match = HOSTILE[name]
    path = tmp_path / "bad.bvh"
    path.write_bytes(frozen(rng, spoil))
    for mmap in (False, True):
        with pytest.raises(ValueError, match=rf"bad\.bvh: is not valid: .*{match}"):
            bvh.load(path, mmap=mmap)


def test_images_that_cannot_be_had(
    tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged image is not saved, and without Pillow there is none: both are told here."""
    scene, path = Scene(), tmp_path / "scene.bvh"
    tree = tree_of("triangles", rng, 2)
    scene.add(tree)
    (tmp_path / "cut.png").write_bytes(png(rng.bytes(3010), 100, 10)[:-200])
    with Image.open(tmp_path / "cut.png") as image:
        look = Material(np.full(3, 0.5), image)
        scene._attributes[id(tree)] = tree, Attributes(material=look)
        with pytest.warns(bvh.BVHWarning, match="an image cannot be saved: ") as told:
            scene.save(path)
        assert told[0].filename == __file__
    again = bvh.load(path)
    assert isinstance(again, Scene)
    found = again.attributes(again[0].child).material
    assert found is not None and found.image is None and found.factor.tolist() == [0.5] * 3
    scene_of(rng).save(path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.warns(bvh.BVHWarning, match=r"need Pillow: pip install 'raybvh\[cli\]'") as told:
        again = bvh.load(path)
    assert told[0].filename == __file__
    assert isinstance(again, Scene) and len(looks_of(again)) == 6
