"""What the ray lab draws and drags, its server, and its command; no browser."""

from __future__ import annotations

import math
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.apps.lab.drawing import BORDER, LETTER, LINE, SIDES, LabDrawing, first_camera
from bvh.apps.lab.frame import FIT, REACH, Pose, corners, drawn_ray, fitted, moved, pose
from bvh.apps.lab.state import CUBE, PRESETS, LabBox, LabState, at, interval, nearest, rotation
from tests.commands import Run

STATES = {preset.name: preset.state for preset in PRESETS}
THROUGH = STATES["Straight through"]
PORT = 8390


def drag(state: LabState, name: str, by: Any, turn: Any = None, index: int = 0) -> LabState:
    """Return the state after a handle was dragged by a distance in the world."""
    frame = fitted(state)
    place = pose(state, frame, name, index)
    turned = place.turn if turn is None else rotation(turn)
    to = Pose(place.position + np.array(by, float) * frame.scale, turned)
    return moved(state, frame, name, index, to)


@pytest.mark.parametrize("flat", [False, True], ids=["space", "plane"])
@pytest.mark.parametrize("name", STATES)
def test_what_matters_is_in_view(name: str, flat: bool) -> None:
    state = replace(STATES[name], flat=flat)
    frame = fitted(state)
    for box in state.boxes:
        assert np.linalg.norm([frame.drawn(c)[:2] for c in corners(box)], axis=1).max() < 1.01 * FIT
    ray = drawn_ray(state, frame)
    assert (ray is None) == (not state.is_ray)
    met = nearest(state)
    if ray is None or met is None:
        return
    # The entry is drawn where it is in the world, however far the origin is and short d is.
    stay = interval(state, met)
    part = ray.part(stay.near, stay.far)
    assert part is not None
    for t, end in zip((stay.near, stay.far), part, strict=True):
        assert np.allclose(end, frame.drawn(at(state, t)), atol=1e-6)
    ahead = ray.part(state.t_min, state.t_max)
    assert ahead is not None and np.linalg.norm(ahead, axis=1).max() < 1.01 * REACH


def test_dragging_the_tip_turns_the_ray() -> None:
    state = drag(THROUGH, "tip", [0, 0.25, 0])
    assert state.origin == THROUGH.origin
    assert state.direction == (1.0, 0.75, 0.625)
    # What was not moved keeps its sign, too.
    state = drag(STATES["Negative zero"], "tip", [0, 0, 0.5])
    assert math.copysign(1.0, state.direction[1]) == -1.0
    assert state.direction[2] == 0.5


def test_dragging_the_origin_keeps_the_tip() -> None:
    state = drag(THROUGH, "origin", [0.5, 0, 0])
    assert state.origin == (-0.5, 0.25, 0.0)
    assert state.tip == pytest.approx(THROUGH.tip)
    flat = drag(replace(THROUGH, flat=True), "origin", [0, 0.5, 0])
    assert flat.origin == (-1.0, 0.75, 0.0) and flat.direction[2] == THROUGH.direction[2]


def test_boxes_are_moved_turned_and_scaled() -> None:
    state = drag(THROUGH, "middle", [1, 0, 0])
    assert state.boxes == (LabBox((1.5, 0.5, 0.5), (3.0, 2.0, 2.0)),)
    state = drag(THROUGH, "middle", [0, 0, 0], turn=(0.0, 0.0, 30.0))
    assert state.boxes == (replace(CUBE, turn=(0.0, 0.0, 30.0)),)
    state = drag(THROUGH, "size", [0.25, 0, 0])
    assert state.boxes == (LabBox((0.25, 0.5, 0.5), (2.25, 2.0, 2.0)),)
    # A box does not vanish, and the second one can be dragged, too.
    low, high = drag(THROUGH, "size", [0, -5, 0]).boxes[0].lower, CUBE.upper
    assert 1.2 < low[1] < 1.25 < high[1]
    pair = drag(STATES["First hit is not the closest"], "middle", [0, 1, 0], index=1)
    assert pair.boxes[0] == STATES["First hit is not the closest"].boxes[0]
    assert pair.boxes[1].lower == (0.0, 1.75, 0.75)
    # The arrows of a turned box run along its own axes.
    turned = replace(THROUGH, boxes=(replace(CUBE, turn=(0.0, 0.0, 90.0)),))
    assert drag(turned, "size", [0, 0.25, 0]).boxes[0].lower == (0.25, 0.5, 0.5)
    from_above = drag(replace(THROUGH, flat=True), "middle", [0, 0, 0], turn=(0.0, 0.0, -45.0))
    assert from_above.boxes == (replace(CUBE, turn=(0.0, 0.0, -45.0)),)


@pytest.mark.parametrize("name", ["origin", "tip", "middle", "size"])
@pytest.mark.parametrize("preset", STATES)
def test_handles_that_are_not_moved_change_nothing(name: str, preset: str) -> None:
    for state in (STATES[preset], replace(STATES[preset], flat=True)):
        same = drag(state, name, [0, 0, 0])
        assert repr(same) == repr(state)


@pytest.fixture
def lab() -> Iterator[bvh.RayLab]:
    """Serve a ray lab."""
    pytest.importorskip("viser")
    with bvh.ray_lab(port=PORT) as served:
        yield served


def test_it_is_served_on_this_machine_alone(
    lab: bvh.RayLab, capfd: pytest.CaptureFixture[str]
) -> None:
    assert lab.url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(lab.url, timeout=20) as page:
        assert b"<html" in page.read()
    assert repr(lab) == f"RayLab({lab.url!r})"
    assert f'src="{lab.url}"' in lab._repr_html_()
    # Two at a time have two ports.
    with bvh.ray_lab(port=PORT) as other:
        assert other.url != lab.url
    other.close()
    assert repr(other) == "RayLab(closed)" and "closed" in other._repr_html_()
    out, err = capfd.readouterr()
    assert out == "" and err == ""


@pytest.mark.filterwarnings("error")
def test_whatever_is_typed_is_drawn(lab: bvh.RayLab) -> None:
    fields = lab._panel._fields
    for preset in STATES:
        lab._panel._preset.value = preset
        assert lab.state == STATES[preset]
    for view in ("2D, from above", "3D"):
        lab._panel._view.value = view
        for name in ("origin", "direction", "lower", "upper"):
            for text in ("nan, 0, 0", "inf, 0, 0", "1e308, -1e308, 5e-324", "1e-320, 0, 0"):
                before = fields[name].value
                fields[name].value = text
                assert lab._panel._preset.value == "Custom"
                fields[name].value = before
    known = lab.state
    fields["origin"].value = "1, 2"
    assert lab.state == known and "takes 3 numbers, got 2" in lab._panel._error.content


def test_the_command_serves_until_it_is_interrupted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("viser")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def interrupt(lab: bvh.RayLab) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bvh.RayLab, "wait", interrupt)
    code, out, _ = run("lab", "--port", PORT + 1, "--no-open")
    assert code == 0 and "http://127.0.0.1:" in out and not opened
    code, out, _ = run("lab", "--port", PORT + 1)
    assert code == 0 and opened and opened[0] in out


def test_without_viser_it_names_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match=r'pip install "raybvh\[view\]"'):
        bvh.ray_lab()
    code, _, err = run("lab")
    assert code == 2 and "raybvh[view]" in err


def test_the_package_alone_does_not_load_viser() -> None:
    program = "import sys, bvh; sys.exit('viser' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0


@pytest.mark.parametrize("flat", [False, True], ids=["space", "plane"])
@pytest.mark.parametrize("name", STATES)
def test_labels_do_not_overlap(name: str, flat: bool) -> None:
    """In the smallest picture, seen from where the page begins."""
    state = replace(STATES[name], flat=flat)
    drawn: dict[str, Any] = {}
    server = Server(drawn)
    with np.errstate(all="ignore"):
        LabDrawing(server).update(state, fitted(state), planes=True)
    shown = [node for node in drawn.values() if getattr(node, "text", "") and node.visible]
    assert len(shown) >= 1 or not state.is_ray
    camera = first_camera(flat)
    frames = []
    for node in shown:
        side = next(side for side, anchor in SIDES.items() if anchor == node.anchor)
        size = np.array([LETTER * len(node.text) + BORDER, LINE])
        middle = np.array(camera.project(node.position)[:2]) + np.array(side) * size / 2
        frames.append((middle - size / 2, middle + size / 2))
    for k, (low, high) in enumerate(frames):
        for lower, upper in frames[:k]:
            assert not ((low < upper) & (lower < high)).all(), [node.text for node in shown]


class Server:
    """Stands for viser's server: it keeps what is added to the scene, by name."""

    def __init__(self, drawn: dict[str, Any]) -> None:
        self.scene, self._drawn = self, drawn

    def __getattr__(self, verb: str) -> Any:
        def add(name: str, *given: Any, **look: Any) -> Any:
            text = given[0] if verb == "add_label" else ""
            self._drawn[name] = SimpleNamespace(**{"text": text, "visible": True} | look)
            return self._drawn[name]

        return add
