"""Pages in the browser: where they are served, to whom, and what is left of those that fail."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Scene, view
from bvh.apps.viewer import readouts, window
from bvh.apps.viewer.box_overlay import OFF, TOP, TREE, BoxOverlay
from bvh.apps.viewer.drawing import PageFrame, face_outlines

viser = pytest.importorskip("viser")
client = pytest.importorskip("websockets.sync.client")
websockets = pytest.importorskip("websockets.exceptions")


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a" * 70])
def test_a_host_that_is_not_here_is_refused(host: str) -> None:
    with pytest.raises(OSError, match=f"host '{host}' is "):
        bvh.ray_lab(host=host, port=0)


def test_ports_end() -> None:
    """Beyond the last port there is none to try."""
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 65535))
        except OSError:
            pytest.skip("somebody else has the last port")
        with pytest.raises(OSError, match=r"no port of host '127.0.0.1' is free from 65535"):
            bvh.ray_lab(port=65535)


def connect(page: Any, origin: str | None) -> int:
    """Open the connection that a page of some site would; return the status of the answer."""
    to = page.url.replace("http", "ws")
    spoken = [f"viser-v{viser.__version__}"]
    opened = client.connect(to, origin=origin, subprotocols=spoken, proxy=None, open_timeout=60)
    with opened as connection:
        return int(connection.response.status_code)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1.nip.io:80"],
)
def test_pages_of_other_sites_are_refused(origin: str) -> None:
    """Browsers let any site's page talk to this machine; it must not see what is shown here."""
    with bvh.ray_lab(port=0) as lab:
        with pytest.raises(websockets.InvalidStatus, match="403"):
            connect(lab, origin)
        # A port that ssh forwards has another number; what is no browser tells nothing.
        for own in (lab.url, "http://localhost:9999", "http://[::1]:80", None):
            assert connect(lab, own) == 101


def test_pages_of_any_site_are_let_in_where_the_host_is_open() -> None:
    """Who lets other machines in has pages of any name."""
    with bvh.ray_lab(host="0.0.0.0", port=0) as lab:
        assert connect(lab, "http://here.example") == 101


def test_what_fails_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    served: list[Any] = []
    monkeypatch.setattr(viser, "ViserServer", served.append)
    monkeypatch.setattr(window, "drawing_of", fail)
    with pytest.raises(MemoryError):
        view(Scene(), port=0)
    assert not served


def overlay(scene: Scene, server: Any) -> tuple[BoxOverlay, Any]:
    """Return the boxes of a page, and a session that keeps their lines."""
    lines: dict[str, Any] = {}
    session = SimpleNamespace(
        client=server, scene=scene, pick=None, frame=PageFrame.around(scene.bounds),
        lines=lines, lock=threading.RLock(), marks=SimpleNamespace(
            clear=lambda name: lines.pop(name, None),
            lines=lambda name, points, *_: lines.__setitem__(name, points),
        ),
    )  # fmt: skip
    return BoxOverlay(session), session


def test_boxes_of_scenes_that_are_emptied() -> None:
    """There are none of an empty scene, and the first leaf's where the picked one is gone."""
    scene = Scene()
    ball = BVH.from_mesh(trimesh.creation.icosphere(subdivisions=2))
    ids = [scene.add(ball), scene.add(ball, np.diag([2.0, 2.0, 2.0, 1.0]))]
    with bvh.ray_lab(port=0) as lab:
        for each in (Scene(), scene):
            boxes, session = overlay(each, lab._server)
            choices = (TREE, TOP) if len(each) else (TREE,)
            for choice in choices:
                boxes._of_tree.value = choice
                assert boxes._level.visible == (len(each) > 0) == ("boxes" in session.lines)
        session.pick = SimpleNamespace(leaf=1)
        boxes._of_tree.value = TREE
        far = float(np.abs(session.lines["boxes"]).max())
        scene.remove(ids[1])
        boxes.follow()
        assert float(np.abs(session.lines["boxes"]).max()) < far
        scene.remove(ids[0])
        for choice in (TOP, TREE, OFF):
            boxes._of_tree.value = choice
            assert not boxes._level.visible and "boxes" not in session.lines


def test_a_point_is_shown_as_one() -> None:
    """Its bounds are rounded outward, by almost nothing that may not be blown up."""
    tree = BVH.from_triangles(np.zeros((3, 3)), [[0, 1, 2]])
    scene = Scene()
    scene.add(tree)
    assert PageFrame.around(scene.bounds).scale == 1.0


def test_outlines_have_no_diagonals() -> None:
    """Of a triangle its three sides, of a box its twelve edges, which its label calls a box."""
    box = BVH.from_boxes([[0, 0, 0], [5, 5, 5]], [[1, 2, 3], [6, 6, 6]])
    turned = BVH.from_obbs([[0, 0, 0]], [[1, 2, 3]], [np.diag([2.0, 2.0, 2.0, 1.0])])
    flat = BVH.from_triangles([[0, 0, 0], [3, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    for tree, lengths in ((box, [1, 2, 3]), (turned, [2, 4, 6]), (flat, [3, 4, 5])):
        lines = face_outlines(tree, np.array([0]))
        told = np.sort(np.linalg.norm(lines[:, 1] - lines[:, 0], axis=1))
        assert np.allclose(told, np.repeat(lengths, len(lines) // 3)), tree
    scene = Scene()
    scene.add(box)
    pick = scene.pick(bvh.Camera.look_at([0.5, 1, 9], [0.5, 1, 0], [0, 1, 0]), 400, 300)
    assert pick is not None and ">Box</td>" in readouts.picked(pick, 1.0)
