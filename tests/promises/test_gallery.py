"""The gallery: each script writes its picture, and what the picture says is true."""

from __future__ import annotations

import re
import runpy
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.docs.programs import gallery
from bvh.docs.programs.gallery.__main__ import BESIDE, home

ROOT = Path(__file__).parents[2]
FOLDER = Path(gallery.__file__).parent
# Common modules, and the program that writes all pictures.
SHARED = ("__init__", "__main__", "scenery", "sheet")
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - set(SHARED) | set(BESIDE))

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")


def drawn(name: str, folder: Path, *sizes: Any) -> Any:
    """Draw a small picture, check that there is something in it, and return what is told of it."""
    from PIL import Image

    path = folder / f"{name}.png"
    found = import_module(home(name)).main(path, 240, *sizes)
    with Image.open(path) as image:
        assert image.width == 240
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.std() > 5.0 and (pixels == 255).any()
    return found


FOUND = {
    "leaks": {"bvh": 0, "Open3D": 3}, "thickness": {"thinnest": 5.0, "thickest": 120.0 + 2e-14},
    "deviation": {"float64": 1e-9, "float32": 0.3}, "sun": {"hours": 13.7, "seeing": 0.5},
    "drive": [9, 5, 2], "solid": {"volume": np.float64(4.246977543061953)},
    "selection": {"pick": "left", "rectangle": 4, "lasso": 7},
    "clearances": {"base": 0.5, "hand": 0.1}, "tour": {"faces": 9, "selected": 7},
    "terrain": {"seen": 0.4, "horizon": 2.0}, "clash": {"volume": 2.0, "depth": 0.5},
    "cloud": {"points": 9, "lasso": 4, "gap": 0.1}, "drop_ins": {"rays": 9, "agree": 9},
    "sky_light": {"sky": 0.5, "same": True},
}  # fmt: skip


@pytest.mark.parametrize("names", [[], ["leaks", "sun"], ["sum"]])
def test_command(tmp_path: Path, names: list[str], monkeypatch: Any, capsys: Any) -> None:
    """It draws all pictures, or those that are named, tells of each in words, and lists names."""
    drawn: list[str] = []

    def draw(path: Path) -> Any:
        drawn.append(path.stem)
        return FOUND[path.stem]

    for name in SCRIPTS:
        if name == "sky_light":
            pytest.importorskip("warp")
        monkeypatch.setattr(import_module(home(name)), "main", draw)
    monkeypatch.setattr("sys.argv", ["gallery", str(tmp_path / "new"), *names])
    wrong = names == ["sum"]
    with pytest.raises(SystemExit) if wrong else nullcontext():
        runpy.run_module("bvh.docs.programs.gallery", run_name="__main__")
    out, err = capsys.readouterr()
    assert sorted(drawn) == ([] if wrong else names or SCRIPTS) and ("leaks, " in err) == wrong
    assert len(out.splitlines()) == len(drawn) and not re.search(r"[{}\[\]]|np\.|\d{6}", out)
    assert wrong or "leaks: rays lost: bvh 0, Open3D 3\n" in out


def test_leaks(tmp_path: Path) -> None:
    """No ray of ours is lost."""
    lost = drawn("leaks", tmp_path, 4)
    assert lost["bvh"] == 0


@pytest.mark.long
def test_thickness(tmp_path: Path) -> None:
    """The pins are the thinnest, the plate is as long as it is."""
    found = drawn("thickness", tmp_path)
    assert 4.6 < found["thinnest"] < 6.0
    assert abs(found["thickest"] - 120.0) < 1e-9


def test_thickness_of_a_plate() -> None:
    import trimesh

    plate = bvh.BVH.from_mesh(trimesh.creation.box([4.0, 3.0, 0.25]))
    found = plate.thickness(points_at=[[0.3, 0.4, 0.125], [2.0, 0.1, 0.0]])
    assert np.allclose(found, [0.25, 4.0], rtol=1e-12)


@pytest.mark.long
def test_deviation(tmp_path: Path) -> None:
    """Deviations of centimetres are found to a millimetre by float64, and not by float32."""
    errors = drawn("deviation", tmp_path, 100)
    assert errors["float64"] < 1e-2 < 1e-1 < errors["float32"]


@pytest.mark.long
def test_sun(tmp_path: Path) -> None:
    """The day is a little over thirteen hours long in April; some points see the tower."""
    found = drawn("sun", tmp_path, 1)
    assert 13.0 <= found["hours"] <= 14.0
    assert 0.0 < found["seeing"] < 1.0


@pytest.mark.long
def test_drive(tmp_path: Path) -> None:
    """There are fewer and fewer returns."""
    first, second, third = drawn("drive", tmp_path, 24, 90)
    assert 24 * 90 > first > second > third > 0


def test_solid(tmp_path: Path) -> None:
    """Holes take little of the volume."""
    import trimesh

    from meshes.organic import organic

    found = drawn("solid", tmp_path, 16, 20)
    whole = trimesh.Trimesh(*organic(16), process=False).volume
    assert abs(found["volume"] / whole - 1.0) < 0.1


def test_selection(tmp_path: Path) -> None:
    found = drawn("selection", tmp_path, 6)
    assert found["pick"] == "left"
    assert found["rectangle"] > 0 and found["lasso"] > 0


def test_clearances(tmp_path: Path) -> None:
    """Nothing touches; the hand comes closest, and no vertex of it is closer than that."""
    from bvh.docs.programs.gallery.clearances import NAMES
    from bvh.docs.programs.gallery.scenery import robot, swing, table

    least = drawn("clearances", tmp_path, 7)
    assert tuple(least) == NAMES and 0.0 < least["hand"] == min(least.values()) < 0.2
    points = robot()[3][0]
    matrices = swing(7)[3]
    moved = np.einsum("nij,kj->nki", matrices[:, :3, :3], points) + matrices[:, None, :3, 3]
    assert least["hand"] <= bvh.BVH.from_triangles(*table()).distance(moved).min() + 1e-12


def test_tour(tmp_path: Path) -> None:
    """Frames differ, and the cursor passes over several faces."""
    from PIL import Image

    from bvh.docs.programs.gallery import tour

    path = tmp_path / "tour.webp"
    found = tour.main(path, 160, 4, 6)
    with Image.open(path) as image:
        assert image.n_frames >= 3 * 6 - 1
    assert found["faces"] > 2 and found["selected"] > 2


def test_every_script_has_its_picture_and_its_place() -> None:
    """Scripts are short; the page shows each picture and links to each script."""
    page = (ROOT / "bvh" / "docs" / "gallery.md").read_text()
    pictures = ROOT / "bvh" / "docs" / "pictures"
    if not pictures.is_dir():
        pytest.skip("not a clone of the repository")
    scripts = re.findall(r"\(programs/(?:gallery/)?(\w+)\.py\)", page)
    assert {*scripts} - {*SHARED} == {*SCRIPTS}
    assert set(re.findall(r"\(pictures/(\w+)\.webp\)", page)) == set(SCRIPTS)
    for name in SCRIPTS:
        # A terrain is also a module of functions.
        folder, most = (FOLDER.parent, 90) if name in BESIDE else (FOLDER, 40)
        lines = (folder / f"{name}.py").read_text().splitlines()
        assert sum(map(bool, lines)) <= (60 if name == "tour" else most), name
    sizes = {path.stem: path.stat().st_size for path in pictures.iterdir()}
    assert set(sizes) == set(SCRIPTS)
    assert sum(sizes.values()) - sizes["tour"] < 1.5e6 and sizes["tour"] < 1.5e6


def test_terrain(tmp_path: Path) -> None:
    """The share that is seen, and the horizon, are those of the terrain."""
    found = drawn("terrain", tmp_path, 120)
    assert 0.05 < found["seen"] < 0.95
    assert -10.0 < found["horizon"] < 60.0


@pytest.mark.long
def test_clash(tmp_path: Path) -> None:
    """The depth is at most the radius of the rod, and a wall of it is shared."""
    found = drawn("clash", tmp_path, 24)
    assert 0.0 < found["depth"] < 12.0 and 1000.0 < found["volume"] < 2500.0


@pytest.mark.long
def test_cloud(tmp_path: Path) -> None:
    found = drawn("cloud", tmp_path, 2000)
    assert found["points"] == 2000 > found["lasso"] > 100 and 0.01 < found["gap"] < 1.0


def test_drop_ins(tmp_path: Path) -> None:
    """Three libraries' calls hit the same faces."""
    found = drawn("drop_ins", tmp_path, 12)
    assert found["agree"] == found["rays"] > 1000


@pytest.mark.long
def test_sky_light(tmp_path: Path) -> None:
    """The kernel counts what the CPU does."""
    pytest.importorskip("warp")
    found = drawn("sky_light", tmp_path, 8, 16)
    assert found["same"] and 0.2 < found["sky"] < 0.5
