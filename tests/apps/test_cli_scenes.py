"""Commands on scenes: what they tell and write, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Camera, Scene
from bvh.apps.cli.camera_options import camera_of
from bvh.pictures.rendering import render
from tests.commands import Run, strict_json

pytest.importorskip("typer")
pytest.importorskip("rich")
image = pytest.importorskip("PIL.Image")

NAMES = ("left [red]", "right", "mirrored")
VIEW = ("--eye", "0,0,9", "--target", "0,0,0", "--up", "y", "--size", "90x60")
LOOK = Camera.look_at([0, 0, 9], [0, 0, 0], [0, 1, 0], 35.0, 90, 60)


def graph() -> trimesh.Scene:
    """Return two boxes beside each other and a pyramid, mirrored."""
    scene = trimesh.Scene()
    parts = {"box": trimesh.creation.box(), "cone": trimesh.creation.cone(0.5, 1.0, sections=5)}
    for name, geometry, x in zip(NAMES, ("box", "box", "cone"), (-1.5, 0.0, 1.5), strict=True):
        matrix = np.diag([-1.0 if name == "mirrored" else 1.0, 1.0, 1.0, 1.0])
        matrix[0, 3] = x
        if geometry not in scene.geometry:
            scene.add_geometry(parts[geometry], name, geometry, transform=matrix)
        else:
            scene.graph.update(frame_to=name, matrix=matrix, geometry=geometry)
    return scene


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with the scene."""
    graph().export(tmp_path / "scene.glb")
    return tmp_path / "scene.glb"


def test_info(run: Run, path: Path) -> None:
    """Instances, and triangles placed and stored; the same of a saved scene."""
    assert run("build", path, "-o", "saved.bvh")[0] == 0
    for given in (path, "saved.bvh"):
        code, out, err = run("info", given, "--json")
        told = strict_json(out)
        assert (code, err) == (0, "")
        assert [told[k] for k in ("instances", "leaves", "trees")] == [3, 3, 2]
        assert (told["triangles"], told["stored_triangles"]) == (34, 22)
        assert {one["name"]: one["triangles"] for one in told["members"]} == dict(
            zip(NAMES, (12, 12, 10), strict=True)
        )
        assert told["lower"] == bvh.load_scene(path).bounds[0].tolist()
        assert ("watertight" in told) == (given == path)
        code, out, err = run("info", given)
        assert (code, err) == (0, "") and "triangles 34" in " ".join(out.split())
        assert all(name in out for name in NAMES)
        assert told["shown_triangles"] == 34 and "tree_stats" not in told
        code, out, _ = run("info", given, "--details")
        assert code == 0 and len(out.split("build\n")[1].split("\n\n")[0].splitlines()) == 2
        told = strict_json(run("info", given, "--json", "--details")[1])
        assert sorted((each["placed"], each["primitives"]) for each in told["tree_stats"]) \
            == [(1, 10), (2, 12)]  # fmt: skip
        assert told["hidden"] == 0 and told["levels"] == 1 and told["depth"] > 1
    told = strict_json(run("info", path, "--flatten", "--json")[1])
    assert told["triangles"] == 34


def test_info_lists_no_more_than_fits(run: Run) -> None:
    """JSON has all."""
    scene = Scene()
    tree = BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    scene.add_many(tree, np.repeat(np.eye(4)[None], 25, axis=0))
    scene.save("many.bvh")
    code, out, _ = run("info", "many.bvh")
    assert code == 0 and "and 5 more" in out
    assert len(strict_json(run("info", "many.bvh", "--json")[1])["members"]) == 25
    BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]).save("boxes.bvh")
    assert strict_json(run("info", "boxes.bvh", "--json")[1])["boxes"] == 1


def test_build(run: Run, path: Path) -> None:
    """It keeps instances, or makes one mesh of them."""
    code, out, err = run("build", path, "-o", "a.bvh", "--quality", "high")
    assert (code, err) == (0, "") and "3 instances, 34 triangles" in out
    scene = bvh.load("a.bvh", audit=True)
    assert isinstance(scene, Scene) and {one.name for one in scene} == set(NAMES)
    for given in (path, "a.bvh"):
        code, out, _ = run("build", given, "-o", "b.bvh", "--flatten")
        tree = bvh.load("b.bvh")
        assert code == 0 and isinstance(tree, BVH) and len(tree) == 34
        assert np.array_equal(tree.vertices, bvh.load_scene(path).flattened()[0])
    code, _, err = run("build", "a.bvh", "-o", "c.bvh")
    assert code == 2 and "saved before" in err and not Path("c.bvh").exists()


@pytest.mark.parametrize("ending", [".npz", ".csv"])
def test_cast(ending: str, run: Run, path: Path) -> None:
    """Hits have an instance and a leaf, bit for bit those of the API."""
    code, _, err = run("cast", path, *VIEW, "-o", f"hits{ending}")
    assert (code, err) == (0, "")
    wanted = bvh.load_scene(path).closest_hit(*(a.reshape(-1, 3) for a in LOOK.rays()))
    columns = ("t", "prim_id", "u", "v", "front", "instance_id", "leaf")
    if ending == ".npz":
        with np.load("hits.npz") as file:
            got = dict(file)
        assert got["leaf"].dtype == np.int32
    else:
        rows = np.loadtxt("hits.csv", delimiter=",", skiprows=1)
        names = Path("hits.csv").read_text().splitlines()[0].split(",")
        got = dict(zip(names, rows.T, strict=True))
    assert tuple(got) == columns and set(np.unique(got["instance_id"])) == {-1, 0, 1, 2}
    for name in columns:
        assert np.array_equal(got[name], getattr(wanted, name), equal_nan=name in "uv"), name
    code, _, _ = run("cast", path, *VIEW, "-o", f"flat{ending}", "--flatten")
    assert code == 0
    if ending == ".npz":
        with np.load("flat.npz") as file:
            assert tuple(file) == columns[:5] and np.array_equal(file["t"], wanted.t)


@pytest.mark.parametrize("shade", ["normals", "clay", "instance", "cost"])
def test_render(shade: str, run: Run, path: Path) -> None:
    """The picture is that of the API; so it is of a saved scene."""
    scene = bvh.load_scene(path)
    wanted = render(scene, LOOK, shade, samples=2).pixels
    run("build", path, "-o", "saved.bvh")
    for given in (path, "saved.bvh"):
        code, out, err = run("render", given, "-o", "a.png", "--shade", shade, *VIEW)
        assert (code, err) == (0, "") and "3 instances, 34 triangles" in out
        assert np.array_equal(np.asarray(image.open("a.png")), wanted)


def test_what_is_up(run: Run, path: Path) -> None:
    """Y in glTF, also when that has been saved, else z; or whatever is asked for."""
    run("build", path, "-o", "saved.bvh")
    scene = bvh.load_scene(path)
    for given, options, up in (
        (path, (), [0, 1, 0]),
        ("saved.bvh", (), [0, 1, 0]),
        ("saved.bvh", ("--up", "z"), [0, 0, 1]),
        (path, ("--up", "-x"), [-1, 0, 0]),
        (path, ("--up=0,0.5,1",), [0, 0.5, 1]),
    ):
        camera = Camera.framing(scene, up=up, width=40, height=30)
        assert run("render", given, "-o", "a.png", "--size", "40x30", *options)[0] == 0
        pixels = render(scene, camera, samples=2).pixels
        assert np.array_equal(np.asarray(image.open("a.png")), pixels)


def test_cameras() -> None:
    """Those of options are the API's."""
    bounds = np.array([[-2.0, -1.0, 0.0], [2.0, 1.0, 3.0]])
    box = bvh.BVH.from_boxes(*bounds[:, None])
    wanted = Camera.orthographic([1, 2, 3], [0, 0, 0], [0, 1, 0], 4.0, 40, 30)
    ortho = {"ortho": 4.0, "size": "40x30"}
    assert camera_of(box, "y", eye="1,2,3", target="0,0,0", **ortho) == wanted
    framed = camera_of(box, "y", **ortho)
    assert not framed.perspective and framed.project(bounds.mean(axis=0))[2] > 0


RENDER = "render scene.glb -o x.png"
ERRORS = {
    "render missing.glb -o x.png": "missing.glb",
    f"{RENDER} --up w": "--up",
    f"{RENDER} --ortho 0": "view_height",
    f"{RENDER} --ortho 2 --fov 30": "--fov",
    f"{RENDER} --shade shiny": "shade",
    "info nothing.gltf": "no triangles",
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("line", ERRORS)
def test_errors(line: str, run: Run, path: Path, tmp_path: Path) -> None:
    """One line that names what is wrong, and exit code 2."""
    (tmp_path / "nothing.gltf").write_text('{"asset": {"version": "2.0"}, "scenes": [{}]}')
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    lines = err.strip("\n").split("\n")
    assert len(lines) == 1 and lines[0].startswith("bvh: "), err
    assert ERRORS[line] in lines[0]


@pytest.mark.filterwarnings("default::bvh.BVHWarning")
def test_warnings_are_lines(run: Run, path: Path) -> None:
    """What is left out of a scene is told without where in the code."""
    scene = graph()
    scene.add_geometry(trimesh.PointCloud(np.eye(3)), node_name="dots")
    scene.export(path)
    code, out, err = run("info", path)
    assert code == 0 and "left [red]" in out
    assert err.startswith("bvh: node 'dots' is left out") and err.count("\n") == 1
