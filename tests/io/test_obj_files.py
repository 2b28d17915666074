"""OBJ files as programs write them: in the order of the file, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.pictures import render
from tests.cases.written_meshes import DOWN, FACE, GRID, car, names_of, written


@pytest.mark.parametrize("piece", [8, 1 << 22])
def test_negative_indices(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count back from their line, wherever a piece of the file ends."""
    monkeypatch.setattr("bvh.io.formats.text_lines.PIECE", piece)
    low = FACE.replace(" 0\n", " -9\n")
    path = written(tmp_path / "a.obj", f"{FACE}f -3 -2 -1\n{low}f -3 -2 -1\n")
    tree = bvh.BVH.from_file(path)
    assert tree.faces.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tree.closest_hit([0.2, 0.2, 5.0], DOWN).t == 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f 0 1 2", "line 5: 0 is no index of v: 3 are before"),
        ("f 1 2 4", "line 5: 4 is no index of v: the file has 3"),
        ("f 1 2 -4", "line 5: -4 is no index of v: 3 are before"),
        ("f 1 2 99999999999", "line 5: 99999999999 is no index of v"),
        ("f 1 2 3.5", "line 5: '1 2 3.5' are not numbers"),
        ("f 1 2 3/1/1/1", "line 5: '3/1/1/1' is no corner of a face"),
        ("f 1 2 /1", "line 5: '/1' is no corner of a face"),
        ("v 1 2", "line 5: v must have 3 to 8 numbers, got 2"),
        ("f 1 \\\n2 3\nf 1 \\\n2 \\\n4", "line 7: 4 is no index of v: the file has 3"),
        ("v 1 2 1,5", "line 5: '1 2 1,5' are not numbers"),
        ("v# 1 2 3", "line 5: v must have 3 to 8 numbers, got 0"),
        ("vt 1/ 2", "line 5: '1/ 2' are not numbers"),
        ("vn 1 2 3 4", "line 5: vn must have 3 numbers, got 4"),
        ("l 1 2", "it holds no faces, but elements l"),
        ("curv 0 1 1 2\nsurf 0 1 0 1 1 2", "it holds no faces, but elements curv, surf"),
    ],
)
def test_bad_lines_of_obj(text: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.obj", f"# box\n{FACE}{text}\n")
    for read in (bvh.BVH.from_file, bvh.load_scene):
        with pytest.raises(ValueError, match=rf"cannot read .*a\.obj as a \w+: {message}"):
            read(path)


@pytest.mark.parametrize(
    "face", ["f 1/1 2/1 3/1", "f 1//0 2//1 3//1", "f 1/9/-9 2/99999999999/1 3/1/1"]
)
def test_wrong_indices_of_normals_are_ignored(face: str, tmp_path: Path) -> None:
    """Programs that drop normals leave their indices behind; the face is as it was."""
    path = written(tmp_path / "a.obj", f"{FACE}{face}\n")
    with pytest.warns(bvh.BVHWarning, match="corners of an OBJ file have wrong indices of v[tn]"):
        tree = bvh.BVH.from_file(path)
    assert tree.faces.tolist() == [[0, 1, 2]]
    with pytest.warns(bvh.BVHWarning, match="wrong indices"):
        assert bvh.load_scene(path).closest_hit([0.2, 0.2, 5.0], DOWN).t == 5.0


def test_normals_beside_a_wrong_index_stay(tmp_path: Path) -> None:
    """Only the corner that has a wrong index has no texture coordinates."""
    text = f"{FACE}vt 0 0\nvt 1 0\nf 1/1 2/2 3/7\nf 1/1 2/2 3/1\n"
    with pytest.warns(bvh.BVHWarning, match="1 corners of an OBJ file have wrong indices of vt"):
        scene = bvh.load_scene(written(tmp_path / "a.obj", text))
    assert scene[0].child.faces.shape == (2, 3)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("o wheel\nF\no door\nF\no glass\nF", ["wheel", "door", "glass"]),
        ("g wheel\nF\ng door\nF\ng wheel\nF", ["wheel", "door"]),
        # Objects of one group have their own name, others those of the groups.
        ("o wheel\ng default\nF\no door\ng default\nF", ["wheel", "door"]),
        ("o car\ng wheel\nF\ng door\nF", ["wheel", "door"]),
        ("o car\nF\ng wheel\nF\no van\ng wheel\nF\ng door\nF", ["car", "wheel", "wheel_1", "door"]),
        ("o empty\no wheel\nusemtl a\nF\nusemtl b\nF", ["wheel"]),
        ("g\nF\ng left wheel\nF", ["a.obj", "left wheel"]),
        ("F", ["a.obj"]),
        ("o wheel\nF", ["wheel"]),
    ],
)
def test_names_of_parts(text: str, names: list[str], tmp_path: Path) -> None:
    parts = text.split("F")
    content = "".join(
        f"{part}\n{FACE.replace(' 0 0 0', f' 0 0 {z}')}f -3 -2 -1\n"
        for z, part in enumerate(parts[:-1])
    )
    path = written(tmp_path / "a.obj", content)
    assert names_of(path) == names
    assert len(bvh.BVH.from_file(path)) == len(parts) - 1
    if "default" in text:
        scene = bvh.load_scene(path)
        assert scene.name_of(scene.closest_hit([0.1, 0.1, 9.0], DOWN).leaf) in names


def test_order_and_materials(tmp_path: Path) -> None:
    """Faces keep their order, also in each part; materials without an image do not divide parts."""
    path = car(tmp_path)
    tree, scene = bvh.BVH.from_file(path), bvh.load_scene(path)
    assert np.array_equal(tree.vertices, GRID)
    hits = tree.closest_hit([[k + 0.6, 0.3, 5.0] for k in range(5)], DOWN)
    assert tree.face_of(hits.prim_id).tolist() == [0, 1, 2, 3, 4]
    assert [one.name for one in scene] == ["door", "door_1", "roof", "roof_1"]
    found = scene.closest_hit([[k + 0.6, 0.3, 5.0] for k in range(5)], DOWN)
    assert found.leaf.tolist() == [0, 0, 1, 2, 3] and np.array_equal(found.t, hits.t)
    assert scene.face_of(found.leaf, found.prim_id).tolist() == [0, 1, 0, 0, 0]
    looks: list[Any] = [scene.attributes(one.child).material for one in scene]
    assert looks[0].face_colors.tolist() == [[0, 0, 255]] * 2 + [[0, 255, 0]]
    assert looks[1].image.size == (2, 2) and looks[2].factor.tolist() == [0.0, 1.0, 0.0]
    assert looks[3] is None
    # One line may name several libraries, of which some are missing.
    (path.parent / "a b.mtl").rename(path.parent / "c.mtl")
    path.write_text(path.read_text().replace("a b.mtl", "missing.mtl c.mtl"))
    again = bvh.load_scene(path)
    assert again.attributes(again[2].child).material.factor.tolist() == [0.0, 1.0, 0.0]
    camera = bvh.Camera.framing(scene, width=200, height=40)
    pixels = render(scene, camera, "material").pixels.reshape(-1, 3)
    for channel in range(3):
        # Pure colours, however they are lit.
        pure = (np.delete(pixels, channel, axis=1) == 0).all(axis=1)
        assert (pixels[pure, channel] > 50).any()


def test_seams(tmp_path: Path) -> None:
    """A vertex with two texture coordinates comes again behind all others, for pictures alone."""
    text = FACE + "v 9 9 9\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nvt 0.5 0.5\nvn 0 0 1\n"
    path = written(tmp_path / "a.obj", text + "f 1/1/1 2/2/1 3/3/1\nf 2/4/1 5/1/1 3/3/1\n")
    tree, child = bvh.BVH.from_file(path), bvh.load_scene(path)[0].child
    assert tree.faces.tolist() == [[0, 1, 2], [1, 4, 2]] and len(tree.vertices) == 5
    assert child.faces.tolist() == [[0, 1, 2], [5, 4, 2]] and len(child.vertices) == 6
    known = bvh.load_scene(path).attributes(bvh.load_scene(path)[0].child)
    assert known.uv is None
    scene = bvh.load_scene(path)
    known = scene.attributes(scene[0].child)
    assert known.uv is not None and known.vertex_normals is not None
    assert known.uv[[0, 1, 2, 4, 5]].tolist() == [[0, 0], [1, 0], [0, 1], [0, 0], [0.5, 0.5]]
    assert np.isnan(known.uv[3]).all()
    scene.save(tmp_path / "a.bvh")
    again = bvh.load(tmp_path / "a.bvh")
    assert isinstance(again, bvh.Scene)
    assert np.array_equal(again.attributes(again[0].child).uv, known.uv, equal_nan=True)


def test_colours_of_vertices(tmp_path: Path) -> None:
    """From 0 to 1, or bytes; of a part whose vertices all have some."""
    for scale in (1, 255):
        colours = [f"v {x} {y} 0 {scale * x} {scale * y} 0\n" for x, y in ((0, 0), (1, 0), (0, 1))]
        text = f"o a\n{''.join(colours)}f 1 2 3\no b\n{FACE}f 4 5 6\n"
        scene = bvh.load_scene(written(tmp_path / "a.obj", text))
        looks: list[Any] = [scene.attributes(one.child).material for one in scene]
        assert looks[0].vertex_colors.tolist() == [[0, 0, 0], [255, 0, 0], [0, 255, 0]]
        assert looks[1] is None


def test_other_elements(tmp_path: Path) -> None:
    """Lines, points, and lines of unknown kinds are left out with a warning."""
    for line, message in (
        ("l 1 2\np 3", "elements of an OBJ file are left out: l, p"),
        ("w 1 2 3", "lines of unknown kinds of an OBJ file are left out: 'w'"),
    ):
        path = written(tmp_path / "a.obj", f"{FACE}{line}\nf 1 2 3\n")
        with pytest.warns(bvh.BVHWarning, match=message) as told:
            assert len(bvh.BVH.from_file(path)) == 1
        assert told[0].filename == __file__


def test_lines_of_obj(tmp_path: Path) -> None:
    """Joined lines, remarks and line ends of all systems."""
    text = "v 0 0 \\\n 0\nv 1 0 0 # right\n#f 1 2 3 \\\n\tv 0 1 0\nf 1 \\\n2 \\\n3#4\n"
    old = f"{FACE}f 1 2 \\\n3\n".replace("\n", "\r")
    for content in (text, text.replace("\n", "\r\n"), old, f"\ufeff{text}"):
        tree = bvh.BVH.from_file(written(tmp_path / "a.obj", content))
        assert tree.faces.tolist() == [[0, 1, 2]] and tree.vertices[2].tolist() == [0, 1, 0]
