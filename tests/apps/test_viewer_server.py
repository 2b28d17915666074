"""`view` and its handle, and the command: what they serve, refuse and leave behind."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Scene, Viewer, view
from tests.commands import Run

TREE = BVH.from_mesh(trimesh.creation.icosphere(subdivisions=1))


def get(url: str) -> str:
    """Return what a page consists of, without asking any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        return str(answer.read().decode())


def test_a_page_is_served_until_it_is_closed() -> None:
    """The page is whole and local; closing ends it, as often as one likes."""
    pytest.importorskip("viser")
    with view(TREE, port=0) as viewer:
        assert viewer.url == f"http://127.0.0.1:{viewer.port}"
        page = get(viewer.url)
        assert "<html" in page and 'src="http' not in page and 'href="http' not in page
        assert f'<iframe src="{viewer.url}"' in viewer._repr_html_()
        assert viewer.url in repr(viewer) and not viewer.closed
        assert viewer.pick is viewer.selection is viewer.camera is None
        # The same port is taken: the next one is found.
        with view(TREE, port=viewer.port) as other:
            assert other.port != viewer.port
    assert viewer.closed and "iframe" not in viewer._repr_html_() and "closed" in repr(viewer)
    viewer.close()
    viewer.wait()
    with pytest.raises(OSError):
        get(viewer.url)


def test_what_can_be_shown() -> None:
    """Meshes, pairs, trees, boxes, scenes of both kinds, and nothing at all."""
    pytest.importorskip("viser")
    ball = trimesh.creation.icosphere(subdivisions=1)
    scene = Scene()
    scene.add(TREE)
    sources: list[Any] = [
        ball, (ball.vertices, ball.faces), TREE, BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]),
        scene, trimesh.Scene(ball), Scene(),
    ]  # fmt: skip
    for source in sources:
        with view(source, port=0, up=[0, 2, 0]) as viewer:
            assert len(viewer.scene.leaves) == (0 if source is sources[-1] else 1)
    assert viewer.scene is sources[-1]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"up": "w"}, ValueError, "up must be one of x, y, z"),
        ({"up": [0, 0, 0]}, ValueError, "up must not be zero"),
        ({"up": [0, 0]}, ValueError, "up must be three finite numbers"),
        ({"up": [0, np.nan, 0]}, ValueError, "up must be three finite numbers"),
        ({"host": ""}, ValueError, "host must be an address"),
        ({"port": 70000}, ValueError, "port must be at most 65535"),
        ({"port": -1}, ValueError, "port must be at least"),
        ({"port": 80.5}, TypeError, "port must be an integer"),
        ({"max_faces": 0}, ValueError, "max_faces must be at least 1"),
        ({"threads": 0}, ValueError, "threads"),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], told: str) -> None:
    """What is wrong is named before anything is served."""
    with pytest.raises(error, match=told):
        view(TREE, **options)
    with pytest.raises(TypeError, match="mesh must be"):
        view("mesh.ply")
    # Of a scene it was looked at when a page was opened, which then stayed empty.
    with pytest.raises(TypeError, match="title must be a string or None, got 3"):
        view(Scene(), title=3)  # type: ignore[arg-type]


def test_without_viser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra to install is named; `import bvh` needs none."""
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match=r'pip install "raybvh\[view\]"'):
        view(TREE)
    code = "import bvh, sys; assert 'viser' not in sys.modules; bvh.view"
    root = Path(bvh.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[Viewer]:
    """Return the viewers that were waited for: each time Ctrl-C is pressed at once."""
    found: list[Viewer] = []

    def wait(viewer: Viewer) -> None:
        assert not viewer.closed
        found.append(viewer)
        raise KeyboardInterrupt

    monkeypatch.setattr(Viewer, "wait", wait)
    return found


def test_command(
    run: Run, waited: list[Viewer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and saved trees are shown; the address is printed, and opened unless told not to."""
    pytest.importorskip("viser")
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    trimesh.creation.icosphere(subdivisions=1).export(tmp_path / "ball.ply")
    TREE.save(tmp_path / "ball.bvh")
    for name in ("ball.ply", "ball.bvh"):
        code, out, err = run("view", name, "--port", 0, "--no-open")
        viewer = waited.pop()
        assert (code, err) == (0, "") and out == f"{name}: {viewer.url}  (Ctrl-C ends)\n"
        assert viewer.closed and len(viewer.scene.leaves) == 1 and not opened
    assert run("view", "ball.ply", "--port", 0, "--up", "0,1,1")[0] == 0
    assert opened == [waited.pop().url]


def test_command_refuses(run: Run, tmp_path: Path) -> None:
    """Errors are a line, with exit code 2."""
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    trimesh.creation.box().export(tmp_path / "box.ply")
    for arguments, told in [
        (("view", "none.ply"), "no such file"),
        (("view", "box.ply", "--up", "q"), "--up must be three numbers"),
        (("view", "box.ply", "--host", ""), "host must be an address"),
    ]:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "") and told in err and err.count("\n") == 1
