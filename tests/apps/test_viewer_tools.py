"""The tools of the viewer's page in a real browser: lassos, measures, sections, lists, views, keys.

The browser and the folder of screenshots are those of `test_viewer_page.py`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bvh import BVH, Scene, view
from bvh.apps.viewer import session
from bvh.apps.viewer.tools.measuring import clearance
from bvh.apps.viewer.tools.sectioning import clipped
from bvh.apps.viewer.tools.selecting import as_json, combined
from bvh.runtime.arguments import grouped
from bvh.runtime.jit import notice
from tests.apps.test_viewer_page import PATIENCE, Window, browser, shown_scene, until

pytestmark = [pytest.mark.usefixtures("browser"), pytest.mark.long]
assert browser
BRICKS = ([-0.9, -1.4, -0.3], [0.9, 1.4, 0.2])


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Window]:
    """Return a page with all folders of its panel open."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    with view(shown_scene(), title="shapes", port=0) as viewer:
        shown = Window(page, viewer)
        # The only one of those used here that is closed at first.
        page.get_by_text("Instances", exact=True).first.click()
        until(lambda: page.locator("#bvh-instances").is_visible(), "the list")
        yield shown
        page.close()


def at(window: Window, place: Any) -> tuple[int, int]:
    """Return the pixel of a place."""
    x, y = window.camera.project(place)[:2]
    return round(x), round(y)


def circle(window: Window, radius: float, shift: float = 0.0) -> str:
    """Draw a lasso about the pebble, and return what the page then says."""
    x, y = at(window, [0, 0, 0])
    mouse, before = window.page.mouse, window.viewer.selection
    angles = np.linspace(0.0, 2.0 * np.pi, 24)
    points = np.stack([x + shift + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)
    mouse.move(*points[0])
    mouse.down()
    for point in points[1:]:
        mouse.move(*point)
    mouse.up()
    until(lambda: window.viewer.selection is not before, "the selection")
    found = window.viewer.selection
    assert found is not None
    text = f"Selected {grouped(len(found))} "
    until(lambda: window.text("selection").startswith(text), "its size")
    return window.text("selection")


def test_lassos_add_and_remove(window: Window) -> None:
    """Faces in a lasso, added with Ctrl, removed with Alt, gone with Escape; ids as JSON."""
    window.choose("Tool", "Lasso")
    taken = "document.getElementById('bvh-sheet').style.pointerEvents"
    until(lambda: window.page.evaluate(taken) == "auto", "the sheet that takes what is dragged")
    assert "faces of 1 instance" in circle(window, 90)
    first = window.viewer.selection
    assert first is not None and len(first) > 20
    window.keep("viewer_lasso.png")
    window.page.keyboard.down("Control")
    circle(window, 60, 100)
    window.page.keyboard.up("Control")
    more = window.viewer.selection
    assert more is not None and set(first[0].tolist()) < set(more[0].tolist())
    window.page.keyboard.down("Alt")
    circle(window, 60, 100)
    window.page.keyboard.up("Alt")
    less = window.viewer.selection
    assert less is not None and set(less[0].tolist()) < set(first[0].tolist()) | set(
        more[0].tolist()
    )
    with window.page.expect_download() as download:
        window.page.get_by_role("button", name="Save", exact=True).click()
    saved = json.loads(Path(download.value.path()).read_text())
    assert saved == json.loads(as_json(less)) and saved["instances"][0]["name"] == "pebble"
    selecting = next(iter(window.viewer._sessions.values())).selecting
    window.choose("Take what is", "touching")
    until(lambda: selecting._take.value == "touching", "the choice")
    for what, told in (("vertices", " vertices of 1 instance"), ("instances", "1 of 3 instances")):
        window.choose("Select", what)
        until(lambda wanted=what: selecting._what.value == wanted, "the choice")
        assert told in circle(window, 50)
    window.choose("Take what is", "inside")
    until(lambda: selecting._take.value == "inside", "the choice")
    assert "Selected 0 of 3 instances" in circle(window, 50)
    window.choose("Select", "faces")
    window.page.keyboard.press("Escape")
    until(lambda: window.viewer.selection is None, "nothing to be selected")
    window.choose("Tool", "Orbit and pick")
    until(lambda: window.page.evaluate(taken) == "none", "the sheet to let go")


def test_measures(window: Window) -> None:
    """Between two picks, and between the instances that they are of."""
    scene = window.viewer.scene
    for between in ("two picks", "two instances"):
        window.choose("Between", between)
        until(lambda: "first" in window.text("measure"), "the question")
        picks = []
        for place in BRICKS:
            window.click(*at(window, place))
            assert window.viewer.pick is not None
            picks.append(window.viewer.pick.position)
        until(lambda: window.text("step"), "the distance")
        if between == "two picks":
            wanted = float(np.linalg.norm(picks[1] - picks[0]))
        else:
            wanted = clearance(scene, 1, 2)[0]
            assert wanted in scene.clearances().distance.tolist()
        assert float(window.text("measure")) == pytest.approx(wanted, rel=1e-8)
    window.keep("viewer_measure.png")
    window.choose("Between", "off")


def test_sections(window: Window) -> None:
    """What is beyond the plane is neither drawn nor picked."""
    place = at(window, [0.5, -0.2, 0.5])
    window.click(*place)
    before, scene = window.viewer.pick, window.viewer.scene
    assert before is not None and before.position[0] > scene.bounds[:, 0].mean()
    session = next(iter(window.viewer._sessions.values()))
    window.choose("Across", "x")
    until(lambda: session._section.plane is not None, "the plane")
    window.click(*place)
    cut = window.viewer.pick
    assert cut is None or cut.position[0] <= scene.bounds[:, 0].mean() + 1e-9
    window.keep("viewer_section.png")
    window.choose("Across", "off")
    until(lambda: session._section.plane is None, "no plane")
    window.click(*place)
    assert window.viewer.pick is not None and window.viewer.pick.prim_id == before.prim_id


def test_the_list_hides_and_frames(window: Window) -> None:
    """Instances are found by name, hidden on the page alone, and framed."""
    page, viewer = window.page, window.viewer
    rows = page.locator(".bvh-row")
    assert rows.all_inner_texts() == ["0 pebble", "1 left brick", "2 right brick"]
    page.get_by_placeholder("Search names").fill("RIGHT")
    until(lambda: rows.nth(2).is_visible() and not rows.nth(0).is_visible(), "the search")
    page.get_by_placeholder("Search names").fill("")
    page.get_by_role("button", name="Hide instance 1").click()
    show = page.get_by_role("button", name="Show instance 1")
    until(lambda: show.count() == 1, "the eye to close")
    assert viewer.scene[1].visible and viewer._copy.hidden == {1}
    window.click(*at(window, BRICKS[0]))
    assert viewer.pick is None or viewer.pick.instance_id != 1
    show.click()
    until(lambda: not viewer._copy.hidden, "the eye to open")
    window.click(*at(window, BRICKS[0]))
    assert viewer.pick is not None and viewer.pick.instance_id == 1
    rows.nth(2).dblclick()
    middle = viewer.scene[2].transform[:3, 3]
    x, y = window.camera.width / 2, window.camera.height / 2
    until(lambda: np.hypot(*(window.camera.project(middle)[:2] - np.array([x, y]))) < 9, "a view")
    window.keep("viewer_framed.png")


def test_views_and_pictures(window: Window) -> None:
    """Named views, parallel lines, and a picture."""
    page = window.page
    # Away from the picture: what the panel says of the pointer moves its buttons.
    page.mouse.move(1390, 500)
    until(lambda: window.text("hover") == "\N{EN DASH}", "the pointer to be gone")
    page.get_by_role("button", name="Top", exact=True).click()
    until(lambda: window.camera.forward[2] < -0.99, "the view from above")
    page.get_by_role("button", name="Iso", exact=True).click()
    until(lambda: window.camera.forward[2] > -0.9, "the oblique view")
    page.get_by_label("Grid and axes").click()
    page.get_by_label("Orthographic").click()
    until(lambda: window.camera.half_height < 0.01, "parallel lines")
    window.keep("viewer_orthographic.png")
    page.get_by_label("Orthographic").click()
    until(lambda: window.camera.half_height > 0.1, "perspective")
    page.get_by_label("Grid and axes").click()
    with page.expect_download() as download:
        page.get_by_text("Save picture").click()
    assert download.value.suggested_filename == "view.png"
    assert not window.errors


def test_keys_and_names(window: Window) -> None:
    """The picture can be reached by keys, Enter picks, and what is an icon has a name."""
    page = window.page
    page.mouse.move(5, 5)
    page.keyboard.press("Escape")
    canvas = page.locator("canvas[role=application]")
    until(lambda: canvas.count() == 1, "the name of the picture")
    canvas.focus()
    page.keyboard.press("Enter")
    until(lambda: window.text("pick") in ("Picked", "Nothing there."), "an answer")
    nameless = """[...document.querySelectorAll('button, [role=button]')].filter(each =>
        !each.textContent.trim() && !each.getAttribute('aria-label')).length"""
    until(lambda: page.evaluate(nameless) == 0, "names of icons")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phones(browser: Any, scheme: str) -> None:
    """A tap picks; the panel leaves room for the scene, in the colours of the system."""
    page = browser.new_page(
        viewport={"width": 420, "height": 800}, color_scheme=scheme, has_touch=True
    )
    with view(shown_scene(), title="shapes", port=0) as viewer:
        page.goto(f"{viewer.url}/?fixedDpr=1")
        page.wait_for_selector("#bvh-pick", state="attached")
        until(lambda: viewer.camera is not None and viewer.camera.width == 420, "the page")
        panel = "document.getElementById('bvh-title').closest('.mantine-Paper-root')"
        top = f"{panel}.getBoundingClientRect().top"
        until(lambda: page.evaluate(top) > 700, "the panel to make room")
        time.sleep(0.5)
        camera = viewer.camera
        assert camera is not None
        x, y = camera.project([0, 0, 0.5])[:2]
        page.touchscreen.tap(round(x), round(y))
        until(lambda: viewer.pick is not None, "the pick")
        assert viewer.pick is not None and viewer.pick.instance_id == 0
        dark = "document.documentElement.dataset.mantineColorScheme"
        until(lambda: page.evaluate(dark) == scheme, "the colours")
        window = object.__new__(Window)
        window.page = page
        window.keep(f"viewer_phone_{scheme}.png")
    page.close()


def test_clipped_triangles() -> None:
    """What is left lies below the plane, and has the area that is below."""
    rng = np.random.default_rng(5)
    points, faces = rng.normal(size=(60, 3)), rng.integers(0, 60, (80, 3))
    normal, level = np.array([0.0, 0.6, 0.8]), 0.2

    def area(corners: np.ndarray) -> float:
        sides = corners[:, 1:] - corners[:, :1]
        return float(np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1).sum())

    parts = [clipped(points, faces, side * normal, side * level) for side in (1.0, -1.0)]
    found = [vertices.astype(float)[index] for vertices, index in parts]
    assert (found[0] @ normal <= level + 1e-6).all() and (found[1] @ normal >= level - 1e-6).all()
    assert sum(map(area, found)) == pytest.approx(area(points[faces]), rel=1e-5)


def test_combined_selections() -> None:
    """Unions and differences, leaf by leaf."""
    scene, mesh = Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [1, 3, 2]])
    for k in range(3):
        place = np.eye(4)
        place[0, 3] = 2.0 * k
        scene.add(BVH.from_mesh(mesh), place, name=f"plate {k}")
    import bvh

    camera = bvh.Camera.orthographic([2.5, 0.5, 9], [2.5, 0.5, 0], [0, 1, 0], 8.0, 80, 80)
    whole = scene.pick_rect(camera, 0, 0, 80, 80)
    left = scene.pick_rect(camera, 0, 0, 30, 80)
    assert len(combined(left, whole, True)) == len(whole) == 6
    rest = combined(whole, left, False)
    assert len(rest) == len(whole) - len(left) and len(combined(left, whole, False)) == 0
    assert set(rest.names) <= {"plate 0", "plate 1", "plate 2"}
    some = scene.pick_rect(camera, 0, 0, 80, 80, what="instances")
    none = combined(some, some, False)
    assert len(none) == 0 and len(combined(none, some, True)) == len(some) == 3


def test_the_page_says_that_it_compiles(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The page says so however late a compilation begins."""
    asked, seen = Scene.pick, threading.Event()

    def slow(scene: Scene, *arguments: Any, **options: Any) -> Any:
        seen.wait(3.0 * session.PATIENCE)
        notice.begin("a kernel")
        seen.wait(PATIENCE)
        notice.end()
        return asked(scene, *arguments, **options)

    monkeypatch.setattr(Scene, "pick", slow)
    window.page.mouse.click(*at(window, [0, 0, 0]))
    until(lambda: "Compiling" in window.text("compiling"), "what it waits for")
    seen.set()
    monkeypatch.undo()
    until(lambda: not window.text("compiling"), "the end of it")


def test_the_list_keeps_its_search(window: Window) -> None:
    """Instances that come while names are searched are listed if they fit."""
    page, scene = window.page, window.viewer.scene
    page.get_by_placeholder("Search names").fill("brick")
    number = scene.add(scene[1].child, np.diag([0.1, 0.1, 0.1, 1.0]), name="third brick")
    rows = page.locator(".bvh-row:visible")
    until(lambda: rows.count() == 3, "the third brick")
    scene.remove(number)
    until(lambda: rows.count() == 2, "it to go")
    page.get_by_placeholder("Search names").fill("")
    until(lambda: rows.count() == 3, "all")
