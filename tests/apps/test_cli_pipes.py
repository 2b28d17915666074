"""`bvh cast` in pipes: rays from standard input, hits and nothing else to standard output."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import trimesh

import bvh
from tests.commands import Run

pytest.importorskip("typer")
pytest.importorskip("rich")

RAYS = np.array([[0.1, 0.2, 9, 0, 0, -1], [5, 5, 9, 0, 0, -1], [0.3, -0.1, -9, 0, 0, 2]])
NAMES = "ox,oy,oz,dx,dy,dz\n"


def text_of(rays: np.ndarray, separator: str = ",") -> str:
    """Return rays as lines of text."""
    stream = io.StringIO()
    np.savetxt(stream, rays, "%.17g", separator)
    return stream.getvalue()


def npy_of(rays: np.ndarray) -> bytes:
    """Return rays as a .npy file."""
    stream = io.BytesIO()
    np.save(stream, rays)
    return stream.getvalue()


BOUNDED = np.column_stack([RAYS, [0, 0, 0], [1, 50, 50]])
INPUTS = {
    "csv": text_of(RAYS).encode(),
    "csv with names": (NAMES + text_of(RAYS)).encode(),
    "csv of Windows": (NAMES + text_of(RAYS)).replace("\n", "\r\n").encode("utf-8-sig"),
    "text": text_of(RAYS, " ").encode(),
    "text with names": (NAMES.replace(",", "\t") + text_of(RAYS, "\t")).encode(),
    "npy": npy_of(RAYS),
    "npy of float32": npy_of(RAYS.astype(np.float32).astype(np.float64)),
    "npy with bounds": npy_of(BOUNDED),
    "csv with bounds": text_of(BOUNDED).encode(),
}


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    """Return a file with a ball."""
    trimesh.creation.icosphere(subdivisions=1).export(tmp_path / "ball.ply")
    return tmp_path / "ball.ply"


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put data on standard input."""
    stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)


@pytest.mark.parametrize("kind", INPUTS)
def test_hits_alone_go_to_standard_output(
    kind: str, run: Run, mesh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are those of a file of hits; what is told about them is on standard error."""
    give(monkeypatch, INPUTS[kind])
    code, out, err = run("cast", mesh, "--rays", "-", "-o", "-")
    bounds = (0.0, [1, 50, 50]) if "bounds" in kind else ()
    wanted = bvh.BVH.from_mesh(trimesh.load(mesh)).closest_hit(RAYS[:, :3], RAYS[:, 3:], *bounds)
    lines = out.splitlines()
    assert code == 0 and lines[0] == "t,prim_id,u,v,front" and len(lines) == 4
    table = np.loadtxt(lines[1:], delimiter=",")
    if "float32" not in kind:
        assert np.array_equal(table[:, 0], wanted.t)
    assert np.array_equal(table[:, 1], wanted.prim_id)
    assert err.startswith("Hits(") and "rays" in err


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "must have 6 or 8 columns"),
        (b"1,2,3\n", "must have 6 or 8 columns"),
        (b"1,2,3,4,5,six\n", "cannot read rays from standard input"),
        (b"\x93NUMPY\x01\x00", "cannot read rays from standard input"),
        (b"\xff\xfe1,2", "cannot read rays from standard input"),
    ],
)
def test_wrong_input(
    data: bytes, told: str, run: Run, mesh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line on standard error, and nothing for who reads the pipe."""
    give(monkeypatch, data)
    code, out, err = run("cast", mesh, "--rays", "-", "-o", "-")
    assert (code, out) == (2, "") and told in err and err.count("\n") == 1


def test_a_terminal_is_not_waited_for(
    run: Run, mesh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who forgot the pipe is told so."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    code, out, err = run("cast", mesh, "--rays", "-")
    assert (code, out) == (2, "") and "not a pipe" in err


@pytest.mark.parametrize(
    ("unbuffered", "times"),
    [(False, 1_600), *(pytest.param(way, 6_400, marks=pytest.mark.long) for way in (False, True))],
)
def test_a_real_pipe(unbuffered: bool, times: int, mesh: Path) -> None:
    """Between processes, whole; a reader that leaves early is no error to talk about."""
    command = [sys.executable, *["-u"] * unbuffered, "-m", "bvh", "cast", str(mesh), "-o", "-"]
    root = Path(bvh.__file__).parents[1]
    many = INPUTS["csv"] * times
    done = subprocess.run(
        [*command, "--rays", "-"], input=many, capture_output=True, check=True, cwd=root
    )
    assert done.stdout.count(b"\n") == 3 * times + 1
    assert f"Hits({2 * times} of {3 * times} rays hit".encode() in done.stderr
    with subprocess.Popen(
        [*command, "--size", "160x120"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"t,prim_id")
        process.stdout.close()
        assert b"bvh:" not in process.stderr.read()
    assert process.returncode == 1


@pytest.mark.parametrize("axis", ["x", "y", "z", "-x", "-y", "-z", "Y", "+y"])
def test_up_takes_names_of_axes(axis: str, run: Run, mesh: Path) -> None:
    """After a space, too, where a minus might begin another option."""
    name = axis.lower().removeprefix("+")
    direction = ",".join(map(str, (np.eye(3)["xyz".index(name[-1])] * (1 - 2 * ("-" in name)))))
    for number, up in enumerate((axis, direction)):
        told = run("render", mesh, "-o", f"{number}.png", "--size", "16x12", f"--up={up}")
        assert told[0] == 0, told
    assert Path("0.png").read_bytes() == Path("1.png").read_bytes()
    assert run("cast", mesh, "--size", "4x4", "--up", axis)[0] == 0


def test_up_names_the_axes(run: Run, mesh: Path) -> None:
    """What is neither an axis nor a direction."""
    code, _, err = run("cast", mesh, "--up", "w")
    assert code == 2 and "three numbers such as 0,0,1, or one of x, y, z, -x" in err


def test_standard_output_that_is_closed(
    run: Run, mesh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a shell's ``>&-``: an error of one line, before anything is cast."""
    monkeypatch.setattr(sys, "stdout", None)
    code, _, err = run("cast", mesh, "-o", "-")
    assert code == 2 and err.startswith("bvh: --output - writes to standard output")
