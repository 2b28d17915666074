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
from bvh.apps.lab.drawing import REACH, LabDrawing, dragged, drawn, framed
from bvh.apps.lab.state import PRESETS, LabState, at, interval, nearest
from tests.commands import Run

STATES = {preset.name: preset.state for preset in PRESETS}
THROUGH = STATES["Straight through"]
PORT = 8390


def drag(state: LabState, name: str, by: Any) -> LabState:
    """Return the state after a point was dragged by a distance in the world."""
    frame = framed(state)
    place = drawn(frame, getattr(state, name))
    return dragged(state, frame, name, place + np.array(by, float) * frame.scale)


class Server:
    """Stands for viser's scene: it keeps what is added to it, by name."""

    def __init__(self) -> None:
        self.shown: dict[str, tuple[Any, ...]] = {}

    def __getattr__(self, verb: str) -> Any:
        def add(name: str, *given: Any, **_: Any) -> Any:
            self.shown[name] = given
            return SimpleNamespace(remove=lambda: self.shown.pop(name))

        return add


@pytest.mark.parametrize("name", STATES)
def test_what_matters_is_in_view(name: str) -> None:
    state = STATES[name]
    frame = framed(state)
    for box in state.boxes:
        assert np.abs(frame.to_page(box)).max() <= 2.0
    scene = Server()
    drawing = LabDrawing(scene)
    drawing.update(state, frame, planes=True)
    assert np.abs(scene.shown["/marks/edges 1"][0]).max() <= REACH
    assert ("/marks/head" in scene.shown) == state.is_ray
    closest = nearest(state)
    assert ("/marks/entry" in scene.shown) == (closest is not None)
    if closest is not None:
        # The stay is drawn where it is in the world, however far the origin is and short d is.
        span = interval(state, closest)
        (part,) = scene.shown["/marks/inside"][0]
        for t, end in zip((span.near, span.far), part, strict=True):
            assert np.allclose(end, frame.to_page(at(state, t)), atol=1e-6)
    # What is not drawn again goes away.
    drawing.update(STATES["Zero direction"], frame, planes=False)
    assert not {"/marks/head", "/marks/inside", "/marks/plane x"} & set(scene.shown)


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


def test_corners_are_dragged() -> None:
    state = drag(THROUGH, "upper", [0.25, 0, -0.5])
    assert state == replace(THROUGH, upper=(2.25, 2.0, 1.5))
    pair = STATES["First hit is not the closest"]
    assert drag(pair, "lower_2", [0, 1, 0]) == replace(pair, lower_2=(0.0, 1.75, 0.75))


@pytest.mark.parametrize("name", ["origin", "tip", "lower", "upper"])
@pytest.mark.parametrize("preset", STATES)
def test_points_that_are_not_moved_change_nothing(name: str, preset: str) -> None:
    state = STATES[preset]
    assert repr(drag(state, name, [0, 0, 0])) == repr(state)


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
    fields = lab._fields
    for preset in STATES:
        lab._preset.value = preset
        assert lab.state == STATES[preset]
    for name in ("origin", "direction", "lower", "upper"):
        for text in ("nan, 0, 0", "inf, 0, 0", "1e308, -1e308, 5e-324", "1e-320, 0, 0"):
            before = fields[name].value
            fields[name].value = text
            assert lab._preset.value == "Custom"
            fields[name].value = before
    known = lab.state
    fields["origin"].value = "1, 2"
    assert lab.state == known and "must be 3 numbers, got 2" in lab._error.content
    lab._second.value = True
    assert lab.state.second and fields["upper_2"].visible and "second box" in lab._drag.options
    lab._drag.value = "second box"
    assert [name for name, arrow in lab._arrows.items() if arrow.visible] == ["lower_2", "upper_2"]
    lab._second.value = False
    assert lab._drag.value == "ray"


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
