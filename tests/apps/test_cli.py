"""The command line: what it prints and writes, and how it fails."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trimesh import Trimesh

import bvh
import bvh.apps.cli
from bvh.io.mesh_files import read_file
from bvh.pictures.rendering import render
from bvh.pictures.shading import SHADES
from bvh.runtime.arguments import number_of
from bvh.runtime.compiler.kernel_cache import cache_directory
from meshes.sphere import geodesic_sphere
from tests.commands import Run

pytest.importorskip("typer")
pytest.importorskip("rich")
image = pytest.importorskip("PIL.Image")

FIELDS = ("t", "prim_id", "u", "v", "front")


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    """Return a file with a sphere."""
    path = tmp_path / "sphere.ply"
    Trimesh(*geodesic_sphere(6), process=False).export(path)
    return path


def tree_of(path: Path) -> bvh.BVH:
    """Build what the command builds."""
    return bvh.BVH.from_mesh(read_file(path, "a mesh"))


def test_info(run: Run, mesh: Path) -> None:
    """As a table and as JSON."""
    tree = tree_of(mesh)
    code, out, err = run("info", mesh)
    assert (code, err.strip()) == (0, "")
    words = "triangles 720", "vertices 362", "watertight yes", "SAH cost", "0 of them ignored"
    assert all(each in " ".join(out.split()) for each in words)
    code, out, err = run("info", "--json", mesh)
    assert (code, err.strip()) == (0, "")
    told, stats = json.loads(out), tree.stats()
    assert (told["file"], told["triangles"], told["vertices"]) == (str(mesh), 720, 362)
    assert [told["lower"], told["upper"]] == tree.bounds.tolist()
    assert told["watertight"] is True
    for name in ("nodes", "leaves", "depth", "largest_leaf", "sah_cost", "bytes", "ignored"):
        assert told[name] == getattr(stats, name)


def test_info_on_a_mesh_of_nothing(run: Run, tmp_path: Path) -> None:
    """Its bounds are null in JSON."""
    (tmp_path / "nothing.obj").write_text("v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    code, out, _ = run("info", "--json", "nothing.obj")
    assert code == 0
    told = json.loads(out)
    assert (told["triangles"], told["ignored"], told["lower"]) == (1, 1, [None] * 3)
    code, out, _ = run("info", "nothing.obj")
    assert code == 0 and "nan" in out
    code, _, err = run("render", "nothing.obj", "-o", "nothing.png")
    assert code == 2 and "--eye" in err
    code, _, _ = run("render", "nothing.obj", "-o", "nothing.png", "--size", "4x4",
                     "--eye", "0,0,5", "--target", "0,0,0", "--up", "0,1,0")  # fmt: skip
    assert code == 0 and (tmp_path / "nothing.png").is_file()


def write_rays(path: Path, rays: np.ndarray, header: str = "") -> None:
    """Write rays as .npy or .csv."""
    if path.suffix == ".npy":
        np.save(path, rays)
    else:
        np.savetxt(path, rays, "%.17g", ",", header=header, comments="")


def read_hits(path: Path) -> dict[str, np.ndarray]:
    """Read what `cast` wrote."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    with path.open() as file:
        names = file.readline().strip().split(",")
    return dict(zip(names, np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2).T, strict=True))


def assert_hits(path: Path, wanted: bvh.Hits) -> None:
    """Compare a file with an answer, bit for bit."""
    got = read_hits(path)
    assert tuple(got) == FIELDS
    for name in FIELDS:
        array = np.asarray(getattr(wanted, name))
        assert np.array_equal(got[name].astype(array.dtype), array, equal_nan=name in "tuv"), name
        assert path.suffix == ".csv" or got[name].dtype == array.dtype


def some_rays(rng: np.random.Generator, n: int = 50) -> np.ndarray:
    """Return rays with ranges, one a row; some of them are not finite."""
    rays = rng.normal(size=(n, 8))
    rays[:, 6:] = np.sort(rays[:, 6:] * 3, axis=1)
    rays[::5, 6], rays[::4, 7], rays[7, 2] = -np.inf, np.inf, np.nan
    return rays


@pytest.mark.parametrize("output", ["hits.npz", "hits.csv"])
@pytest.mark.parametrize("columns", [6, 8])
@pytest.mark.parametrize(
    ("name", "header"),
    [("rays.npy", ""), ("rays.csv", ""), ("rays.csv", "ox,oy,oz,dx,dy,dz,low,high")],
)
def test_cast(
    name: str, header: str, columns: int, output: str, run: Run, mesh: Path, tmp_path: Path,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Rays from a file give what the API gives."""
    rays = some_rays(rng)[:, :columns]
    write_rays(tmp_path / name, rays, header and ",".join(header.split(",")[:columns]))
    code, out, err = run("cast", mesh, "--rays", name, "-o", output)
    assert (code, err.strip()) == (0, "")
    ranges = (rays[:, 6], rays[:, 7]) if columns == 8 else ()
    wanted = tree_of(mesh).closest_hit(rays[:, :3], rays[:, 3:6], *ranges)
    assert repr(wanted) in out and "50 rays in" in out
    assert_hits(tmp_path / output, wanted)


def test_cast_takes_rays_as_they_come(run: Run, mesh: Path, tmp_path: Path) -> None:
    """One ray, no rays, integers, float32, spaces, and infinity in all its spellings."""
    tree = tree_of(mesh)
    one = np.array([[0, 0, 5, 0, 0, -1]])
    for rays in (one, one.astype(np.float32), np.asfortranarray(np.repeat(one, 3, 0)), one[:0]):
        np.save(tmp_path / "rays.npy", rays)
        for output in ("hits.npz", "hits.csv")[: 2 if len(rays) else 1]:
            code, _, err = run("cast", mesh, "--rays", "rays.npy", "-o", output)
            assert (code, err.strip()) == (0, "")
            assert_hits(tmp_path / output, tree.closest_hit(rays[:, :3], rays[:, 3:6]))
    for infinity in ("inf", "INF", "+inf", "Infinity", "1e400"):
        line = f"0, 0,5,0,0,-1e0,-1E-3,{infinity}\n"
        (tmp_path / "rays.csv").write_text(line + "9,9,9,0,0,1,0,1\n")
        assert run("cast", mesh, "--rays", "rays.csv", "-o", "hits.npz")[0] == 0
        with np.load(tmp_path / "hits.npz") as hits:
            assert hits["prim_id"].shape == (2,), infinity
            assert hits["prim_id"][0] >= 0


def test_cast_with_a_camera(run: Run, mesh: Path, tmp_path: Path) -> None:
    """One that frames the mesh, or one of the options."""
    tree = tree_of(mesh)
    framing = bvh.Camera.framing(tree, width=20, height=15)
    code, out, _ = run("cast", mesh, "--size", "20x15", "-o", "hits.npz", "--threads", 1)
    wanted = tree.closest_hit(*(a.reshape(-1, 3) for a in framing.rays()))
    assert code == 0 and wanted.mask.any() and not wanted.mask.all()
    assert_hits(tmp_path / "hits.npz", wanted)
    options = ("--eye", "3,0,0.5", "--target", "0,0.25,0", "--up=0,-1,1e-1", "--fov", 50)
    camera = bvh.Camera.look_at([3, 0, 0.5], [0, 0.25, 0], [0, -1, 0.1], 50, 20, 15)
    code, out, _ = run("cast", mesh, "--size", "20X15", "-o", "hits.csv", *options)
    assert code == 0
    assert_hits(tmp_path / "hits.csv", tree.closest_hit(*(a.reshape(-1, 3) for a in camera.rays())))
    code, out, _ = run("cast", mesh, "--size", "20x15")
    assert code == 0 and repr(wanted) in out


@pytest.mark.parametrize("shade", [shade for shade in SHADES if shade != "uv"])
def test_render(shade: str, run: Run, mesh: Path, tmp_path: Path) -> None:
    """The picture is that of the API, and shows the mesh before the sky."""
    arguments = ("--shade", shade, "--size", "48x32", "--samples", 2, "--threads", 2)
    code, out, err = run("render", mesh, "-o", "picture.png", *arguments)
    assert (code, err.strip()) == (0, "")
    assert "picture.png: 48 x 32 pixels, " in out and "720 triangles" in out
    pixels = np.asarray(image.open(tmp_path / "picture.png"))
    assert (pixels.shape, pixels.dtype) == ((32, 48, 3), np.uint8)
    tree = tree_of(mesh)
    camera = bvh.Camera.framing(tree, width=48, height=32)
    wanted = render(tree, camera, shade, samples=2)
    assert np.array_equal(pixels, wanted.pixels) and number_of(wanted.rays, "rays", ",") in out
    sky, middle = pixels[16, :4].astype(int), pixels[12:20, 20:28].reshape(-1, 3).astype(int)
    assert np.abs(middle.mean(axis=0) - sky.mean(axis=0)).max() > 20
    assert len(np.unique(middle, axis=0)) > 3


def npy(array: np.ndarray, **options: Any) -> bytes:
    """Return the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def zipped() -> bytes:
    """Return the bytes of a .npz file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("rays.npy", npy(np.ones((2, 6))))
    return file.getvalue()


FILES = {
    "broken.ply": b"ply\nformat ascii 1.0\nelement vertex nonsense\n",
    "empty.ply": b"",
    "mesh.unknown": b"solid",
    "five.npy": npy(np.ones((3, 5))),
    "seven.csv": b"1,2,3,4,5,6,7\n",
    "flat.npy": npy(np.ones(6)),
    "ragged.csv": b"1,2,3,4,5,6\n1,2,3\n",
    "words.csv": b"1,2,3,4,5,6\n1,2,3,4,5,six\n",
    "semicolons.csv": b"1;2;3;4;5;6\n",
    "header.csv": b"ox,oy,oz,dx,dy,dz\n",
    "binary.csv": b"\xff\xfe\x00\x81",
    "empty.csv": b"",
    "empty.npy": b"",
    "short.npy": npy(np.ones((3, 6)))[:-8],
    "zip.npy": zipped(),
    "objects.npy": npy(np.ones((2, 6), object), allow_pickle=True),
    "complex.npy": npy(np.ones((2, 6), complex)),
    "strings.npy": npy(np.full((2, 6), "one")),
    "good.npy": npy(np.ones((2, 6))),
}
RENDER, CAST = "render sphere.ply -o x.png", "cast sphere.ply"
ERRORS = {
    "info missing.ply": "missing.ply",
    "info .": "holds no index.json",
    "build . -o x.bvh": "no such file",
    "info broken.ply": "broken.ply",
    "info empty.ply": "empty.ply",
    "info mesh.unknown": "mesh.unknown",
    **{f"{RENDER} --size {size}": "size" for size in ("800", "axb", "8x8x8", "8.5x8", "x")},
    f"{RENDER} --size 0x10": "width",
    f"{RENDER} --size 10x-1": "height",
    **{f"{RENDER} --eye {eye}": "--eye" for eye in ("1,2", "a,b,c", "1,2,3,4", "1;2;3", ",,")},
    f"{RENDER} --eye 0,0,nan": "eye",
    f"{RENDER} --eye 1,2,3 --target 1,2": "--target",
    f"{RENDER} --target 1,2,3": "--eye",
    f"{RENDER} --eye 1,2,3 --target 1,2,3": "target",
    f"{RENDER} --eye 0,0,3 --target 0,0,0": "up",
    f"{RENDER} --up 0,0": "--up",
    f"{RENDER} --up 0,0,0": "up",
    f"{RENDER} --fov 0": "fov",
    f"{RENDER} --fov 180": "fov",
    f"{RENDER} --fov nan": "fov",
    f"{RENDER} --shade shiny": "shade",
    f"{RENDER} --shade claw": "did you mean 'clay'?",
    "render sphere.ply -o x.unknown": "x.unknown",
    "render sphere.ply -o picture": "picture",
    "render sphere.ply -o no/x.png": "no such folder",
    "render sphere.ply -o folder.png --size 4x4": "folder.png",
    "render missing.ply -o x.png": "missing.ply",
    f"{CAST} -o hits.txt": ".npz or .csv",
    f"{CAST} -o hits": ".npz or .csv",
    f"{CAST} --rays good.npy -o no/hits.npz": "no",
    f"{CAST} --rays good.npy -o no/hits.csv": "no",
    f"{CAST} --rays good.npy -o folder.npz": "folder.npz",
    f"{CAST} --rays missing.npy": "missing.npy",
    **{f"{CAST} --rays {name}": name for name in FILES
       if name.endswith((".npy", ".csv")) and name != "good.npy"},
}  # fmt: skip


@pytest.mark.filterwarnings("error")  # They would be more lines on stderr.
@pytest.mark.parametrize("line", ERRORS)
def test_errors(line: str, run: Run, mesh: Path, tmp_path: Path) -> None:
    """One line on stderr that names what is wrong, exit code 2, and no traceback."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    for name in ("folder.png", "folder.npz"):
        (tmp_path / name).mkdir()
    code, out, err = run(*line.split())
    assert code == 2
    lines = err.strip("\n").split("\n")
    assert len(lines) == 1 and lines[0].startswith("bvh: "), err
    assert ERRORS[line] in lines[0]
    assert "rays hit" not in out
    assert not (tmp_path / "x.png").exists() and not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "line", ["info", "cast m --threads one", "render m", "fly m", "info --fly m"]
)
def test_usage_errors(line: str, run: Run) -> None:
    """Wrong options are told with the usage."""
    code, out, err = run(*line.split())
    assert (code, out) == (2, "") and "Usage" in err and "Traceback" not in err


def test_help_and_version(run: Run) -> None:
    """Every command is listed."""
    code, out, _ = run("--help")
    assert code == 0 and all(name in out for name in ("info", "cast", "render", "warmup"))
    assert run("--version")[:2] == (0, f"raybvh {bvh.__version__}\n")
    for name in ("info", "cast", "render", "warmup"):
        assert run(name, "--help")[0] == 0
    command = [sys.executable, "-m", "bvh", "--version"]
    root = Path(bvh.__file__).parents[1]
    told = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert (told.returncode, told.stdout, told.stderr) == (0, f"raybvh {bvh.__version__}\n", "")


@pytest.mark.long
def test_warmup(run: Run) -> None:
    """It tells where the kernels are."""
    code, out, err = run("warmup")
    assert (code, err.strip()) == (0, "")
    folder = cache_directory()
    where = re.escape("memory only" if folder is None else str(folder.parent))
    assert re.fullmatch(rf"kernels ready after \d+\.\d s, stored in {where}\n", out)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named(missing: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says what to install."""

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    # Imported anew, it would stay the attribute of its package.
    monkeypatch.setattr(bvh.apps, "cli", sys.modules["bvh.apps.cli"])
    for name in list(sys.modules):
        if name.startswith("bvh.apps.cli") or name.split(".")[0] == missing:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    code, out, err = run("--version")
    assert (code, out) == (2, "")
    assert err == f'bvh: the command line needs {missing}: pip install "raybvh[cli]"\n'


def test_interruption(run: Run, mesh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is exit code 130, without a traceback."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bvh.BVH, "from_mesh", interrupt)
    code, out, err = run("info", mesh)
    assert (code, out) == (130, "")
    assert err.strip() in ("", "bvh: interrupted")


def test_info_and_saved_trees(run: Run, mesh: Path) -> None:
    """Build once; the other commands take the tree for the mesh, and answer the same."""
    code, out, err = run("build", mesh, "-o", "sphere.bvh", "--quality", "high")
    assert (code, err.strip()) == (0, "") and "sphere.bvh: 720 triangles" in out
    tree = bvh.load("sphere.bvh", audit=True)
    for given in ("sphere.bvh", mesh):
        code, out, _ = run("info", given)
        assert code == 0 and "SAH cost" in out
    code, out, _ = run("info", "sphere.bvh", "--json")
    told = json.loads(out)
    assert code == 0 and told["leaf_sizes"] == list(tree.stats().leaf_sizes)
    assert told["build_seconds"] == tree.stats().build_seconds
    for given, picture in (("sphere.bvh", "a.png"), (mesh, "b.png")):
        assert run("render", given, "-o", picture, "--size", "40x30")[0] == 0
        assert run("cast", given, "-o", f"{picture}.npz", "--size", "40x30")[0] == 0
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()
    first, second = read_hits(Path("a.png.npz")), read_hits(Path("b.png.npz"))
    assert all(np.array_equal(first[name], second[name], equal_nan=True) for name in FIELDS)
    data = bytearray(Path("sphere.bvh").read_bytes())
    data[-1] ^= 1
    Path("bad.bvh").write_bytes(data)
    code, _, err = run("info", "bad.bvh")
    assert code == 2 and "bad.bvh: is damaged" in err
    bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]).save("boxes.bvh")
    assert run("info", "boxes.bvh")[0] == 0
    assert run("render", "boxes.bvh", "-o", "c.png", "--size", "40x30")[0] == 0
    assert run("build", mesh, "-o", "no/x.bvh")[0] == 2
    assert run("build", mesh, "-o", "x.bvh", "--quality", "best")[0] == 2
    # The mesh itself stays, by whatever name it is given.
    code, _, err = run("build", mesh, "-o", Path(mesh).absolute())
    assert code == 2 and "is the file to read" in err


@pytest.mark.parametrize(("name", "writer"), [("a.npz", "savez_compressed"), ("a.csv", "savetxt")])
def test_no_half_hits(name: str, writer: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens, the old file stays as it was and nothing else is left behind."""
    bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]).save("box.bvh")
    cast = ("cast", "box.bvh", "-o", name, "--size", "4x4")
    assert run(*cast)[0] == 0
    before = Path(name).read_bytes()

    def interrupt(file: Any, *_: Any, **__: Any) -> None:
        Path(name).write_bytes(b"half") if file == Path(name) else file.write(b"half")
        raise OSError("no more room")

    monkeypatch.setattr(np, writer, interrupt)
    code, _, err = run(*cast)
    assert code == 2 and "no more room" in err and Path(name).read_bytes() == before
    assert {path.name for path in Path().iterdir()} == {"box.bvh", name}
