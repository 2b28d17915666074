"""The page in a real browser: what it shows is what the tree answers.

The browser is $BVH_CHROMIUM, or the chromium that is found; without it, Playwright or viser, these
tests are skipped. $BVH_ARTIFACTS is a folder that keeps the screenshots.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import BVH, Camera, Scene, Viewer, view
from bvh.apps.viewer.box_overlay import BoxLevels
from bvh.pictures import render
from bvh.runtime.arguments import grouped

pytest.importorskip("viser")
api = pytest.importorskip("playwright.sync_api")
image = pytest.importorskip("PIL.Image")
CHROMIUM = os.environ.get("BVH_CHROMIUM") or shutil.which("chromium")
if not CHROMIUM:
    pytest.skip("no chromium; set BVH_CHROMIUM to its path", allow_module_level=True)

# Software alone draws these pages, on machines that are busy.
PATIENCE = float(os.environ.get("BVH_PATIENCE", "120"))
KEPT = Path(os.environ["BVH_ARTIFACTS"]) if os.environ.get("BVH_ARTIFACTS") else None
OPTIONS = [
    "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
]  # fmt: skip

# What the panel says at first; the page may show it once more after a test has written over it.
HINTS = "Click a face to pick it.", "Choose rectangle or lasso and drag, or hold shift."


def until(condition: Callable[[], Any], what: str) -> Any:
    """Return what a condition returns, once it is true."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


def shown_scene() -> Scene:
    """Return a knot of many faces and two bricks."""
    scene = Scene()
    ball = trimesh.creation.icosphere(subdivisions=4)
    ball.vertices *= 1.0 + 0.12 * np.sin(5.0 * ball.vertices).prod(axis=1, keepdims=True)
    scene.add(ball, name="pebble")
    brick = BVH.from_mesh(trimesh.creation.box([0.6, 0.3, 0.9]))
    for name, place in (("left brick", [-0.9, -1.4, -0.3]), ("right brick", [0.9, 1.4, 0.2])):
        turn = trimesh.transformations.rotation_matrix(0.5, [1, 1, 1])
        turn[:3, 3] = place
        scene.add(brick, turn, name=name)
    return scene


class Window:
    """A page, the viewer that serves it, and what is asked of both."""

    def __init__(self, page: Any, viewer: Viewer) -> None:
        self.page, self.viewer = page, viewer
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.set_default_timeout(1000 * PATIENCE)
        # One pixel a unit: pages that are slow to draw take fewer otherwise.
        page.goto(f"{viewer.url}/?fixedDpr=1")
        page.wait_for_selector("#bvh-pick")
        until(self.is_framed, "the first view")
        # Software would draw every frame of a transition.
        still = "animation: none !important; transition: none !important"
        page.add_style_tag(content=f"*, ::before, ::after {{ {still} }}")
        # A page applies messages in order: once it has this one, it takes clicks, too.
        assert viewer._last is not None
        last = viewer._last.client.gui.add_html('<span id="last"></span>')
        page.wait_for_selector("#last", state="attached")
        last.remove()
        # The browser's own note that it draws without a graphics card.
        note = ".mantine-Notification-closeButton"
        page.evaluate(f"document.querySelectorAll('{note}').forEach(b => b.click())")

    def is_framed(self) -> bool:
        """Return whether the viewer's camera has the size of the window, and looks at the scene."""
        sizes = self.page.evaluate(
            "[...document.querySelectorAll('canvas')].map(each => [each.width, each.height])"
        )
        # The canvas keeps its former size for a moment after the window has changed.
        camera, height = self.viewer.camera, self.page.viewport_size["height"]
        if camera is None or camera.height != height or [camera.width, height] not in sizes:
            return False
        middle = self.viewer.scene.bounds.mean(axis=0)
        return float(np.linalg.norm(np.cross(middle - camera.eye, camera.forward))) < 1e-3

    @property
    def camera(self) -> Camera:
        camera = self.viewer.camera
        assert camera is not None
        return camera

    def text(self, name: str) -> str:
        """Return what an element says."""
        return str(self.page.evaluate(f"document.getElementById('bvh-{name}')?.textContent ?? ''"))

    def click(self, x: int, y: int) -> None:
        """Click, and wait for an answer to this click."""
        self.page.evaluate("document.getElementById('bvh-pick').textContent = 'asked'")
        self.page.mouse.click(x, y)
        until(lambda: self.text("pick") not in ("asked", "", *HINTS), "the pick")

    def drag(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """Drag with shift, and wait for an answer to this rectangle."""
        self.page.evaluate("document.getElementById('bvh-selection').textContent = 'asked'")
        self.page.keyboard.down("Shift")
        self.page.mouse.move(x0, y0)
        self.page.mouse.down()
        self.page.mouse.move((x0 + x1) // 2, (y0 + y1) // 2)
        self.page.mouse.move(x1, y1)
        self.page.mouse.up()
        self.page.keyboard.up("Shift")
        until(lambda: self.text("selection") not in ("asked", "", *HINTS), "the selection")

    def choose(self, label: str, option: str) -> None:
        """Choose from a list."""
        self.page.get_by_label(label, exact=True).first.click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def picture(self) -> np.ndarray:
        """Return what the canvas shows."""
        clip = {"x": 0, "y": 0, "width": self.camera.width, "height": self.camera.height}
        data = self.page.screenshot(clip=clip)
        return np.asarray(image.open(io.BytesIO(data)).convert("RGB")).astype(float)

    def keep(self, name: str) -> None:
        """Keep a screenshot, where they are looked at."""
        if KEPT:
            KEPT.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=KEPT / name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Run the browser."""
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Window]:
    """Return a page in a browser."""
    page = browser.new_page(viewport={"width": 960, "height": 640})
    with view(shown_scene(), title="shapes", port=0) as viewer:
        yield Window(page, viewer)
        page.close()


def test_a_click_picks_what_the_tree_answers(window: Window) -> None:
    """Face, instance, distance and position on the page are those of the pixel's own ray."""
    camera, scene = window.camera, window.viewer.scene
    found = set()
    for part in ([0, 0, 0.9], [-0.6, -0.5, 0.5], [-0.9, -1.4, -0.3], [0.9, 1.4, 0.2]):
        x, y = (round(value) for value in camera.project(part)[:2])
        window.click(x, y)
        assert window.text("pick") == "Picked"
        # Pages count a pixel's middle.
        origin, direction = camera.ray(x + 0.5, y + 0.5)
        hit = scene.closest_hit(origin, direction / np.linalg.norm(direction))
        assert int(window.text("face")) == hit.prim_id
        name = scene[hit.instance_id].name
        assert window.text("instance") == f"{hit.instance_id}  {name}"
        assert float(window.text("distance")) == pytest.approx(hit.t, rel=1e-6)
        place = origin + hit.t * direction / np.linalg.norm(direction)
        told = [float(value) for value in window.text("position").split(",")]
        np.testing.assert_allclose(told, place, atol=1e-5)
        np.testing.assert_allclose(camera.project(told)[:2], [x + 0.5, y + 0.5], atol=1e-4)
        assert window.viewer.pick is not None and window.viewer.pick.prim_id == hit.prim_id
        found.add(hit.instance_id)
    assert found == {0, 1, 2}
    window.keep("viewer_pick.png")
    window.click(5, 5)
    assert window.text("pick") == "Nothing there." and window.viewer.pick is None


def test_a_rectangle_selects_what_the_scene_answers(window: Window) -> None:
    """The count on the page is that of the rectangle, with and without what is hidden."""
    camera, scene = window.camera, window.viewer.scene
    x, y = (round(value) for value in camera.project([0, 0, 0])[:2])
    for visible in (True, False):
        window.drag(x - 60, y - 45, x + 50, y + 40)
        corners = np.array([x - 60, y - 45, x + 50, y + 40]) + 0.5
        wanted = scene.pick_rect(camera, *corners.tolist(), mode="inside", visible_only=visible)
        assert window.text("selected") == grouped(len(wanted)) != "0"
        assert window.text("selected-instances") == str(len(set(wanted.instance_id.tolist())))
        assert window.viewer.selection is not None
        assert np.array_equal(window.viewer.selection.ids, wanted.ids)
        if visible:
            window.keep("viewer_selection.png")
        window.page.get_by_label("Visible only").click()
        box = next(iter(window.viewer._sessions.values())).selecting._visible_only
        until(lambda box=box, now=not visible: box.value == now, "the box that was ticked")


def test_hovering_tells_the_face(window: Window) -> None:
    """The face under a pointer that rests is told; none where there is none."""
    camera, scene = window.camera, window.viewer.scene
    x, y = (round(value) for value in camera.project([0, 0, 0.5])[:2])
    window.page.mouse.move(x, y)
    hit = scene.closest_hit(*camera.ray(x + 0.5, y + 0.5))
    wanted = f"face {hit.prim_id} of pebble, "
    until(lambda: window.text("hover").startswith(wanted), wanted)
    window.page.mouse.move(4, 4)
    until(lambda: window.text("hover") == "\N{EN DASH}", "nothing under the pointer")


def test_what_can_be_changed(window: Window) -> None:
    """Only what has an effect now; the position of the pointer is no field to type in."""
    page = window.page
    assert page.title() == "bvh"
    heights = """[...document.querySelectorAll('input')].filter(each => each.tabIndex === -1)
        .map(each => each.closest('[inert]').getBoundingClientRect().height)"""
    until(lambda: page.evaluate(heights) == [0, 0], "the fields to be hidden")
    assert page.locator("[role=slider]").count() == 0
    page.get_by_label("Shading").click()
    options = page.get_by_role("option").all_inner_texts()
    assert options[0] == "mesh" and "clay" in options
    assert "uv" not in options and "material" not in options
    page.keyboard.press("Escape")
    page.get_by_text("Mouse and keys").click()
    until(lambda: page.locator("#bvh-keys").is_visible(), "the help")
    assert {"Shift-drag", "Q E"} <= set(page.locator("#bvh-keys kbd").all_inner_texts())
    for width, height in ((1000, 700), *[(1400, 900)] * bool(KEPT)):
        page.set_viewport_size({"width": width, "height": height})
        until(window.is_framed, "the new size")
        window.keep(f"viewer_{width}.png")
    page.get_by_text("Mouse and keys").click()
    page.set_viewport_size({"width": 960, "height": 640})
    until(window.is_framed, "the first size")


def test_boxes_by_level(window: Window) -> None:
    """The slider shows the boxes of a level, of the tree that was picked and of the top level."""
    scene = window.viewer.scene
    x, y = (round(value) for value in window.camera.project([0, 0, 0.9])[:2])
    window.click(x, y)
    window.page.get_by_text("Bounding boxes").click()
    window.choose("Boxes of", "tree")
    levels = BoxLevels(scene.leaves.trees[0].arrays)
    slider = window.page.locator("[role=slider]")
    until(lambda: slider.count() == 1, "the slider")
    for level in range(2, levels.depth + 1):
        # Once: no key is lost on a slider that is visible.
        slider.press("ArrowRight")
        wanted = f"level {level}: {grouped(len(levels.boxes(level)))} boxes"
        until(lambda told=wanted: window.text("boxes") == told, wanted)
    window.choose("Boxes of", "top level")
    until(lambda: re.search(r"level 1: [1-3] boxes", window.text("boxes")), "the top level")
    window.choose("Boxes of", "off")
    until(lambda: window.text("boxes") == "" and slider.count() == 0, "no boxes")


def test_the_picture_is_the_view(window: Window) -> None:
    """Our rays' picture fills the page as the camera sees it; costs have a legend."""
    window.choose("Shading", "normals")
    camera = window.camera
    wanted = render(window.viewer.scene, camera, "normals").pixels.astype(float)
    # Lines of what is marked are over it, and it comes as a JPEG.
    until(lambda: np.median(np.abs(window.picture() - wanted).max(axis=2)) < 6.0, "the picture")
    size = f"{camera.width} \N{MULTIPLICATION SIGN} {camera.height}, shown after"
    until(lambda: window.text("picture").startswith(size), "its size")
    window.choose("Shading", "cost")
    until(lambda: "nodes and groups a ray visits" in window.text("legend"), "the legend")
    until(lambda: window.text("picture").startswith(size), "the costs")
    until(lambda: window.picture()[:40].mean() < 60.0, "the colour of what costs nothing")
    window.keep("viewer_cost.png")
    window.choose("Shading", "mesh")
    until(lambda: window.picture()[:40].mean() > 200.0, "the mesh alone")


def test_the_page_asks_for_nothing_elsewhere(window: Window) -> None:
    """All that it loads is local; no script fails."""
    own = (window.viewer.url, "data:", "blob:")
    assert window.requests and not [url for url in window.requests if not url.startswith(own)]
    assert not window.errors


@pytest.mark.long
def test_orbiting_keeps_picks_right(window: Window) -> None:
    """After a drag without shift the camera is another, and picks follow it."""
    before = window.camera
    window.page.mouse.move(100, 100)
    window.page.mouse.down()
    window.page.mouse.move(140, 120)
    window.page.mouse.move(180, 130)
    window.page.mouse.up()
    until(lambda: np.abs(window.camera.eye - before.eye).max() > 0.1, "the camera to move")
    x, y = (round(value) for value in window.camera.project([0, 0, 0])[:2])
    window.click(x, y)
    pick = window.viewer.pick
    assert pick is not None
    # It glides to a stop: the camera of the click is the one that sees the pick in its pixel.
    place = [x + 0.5, y + 0.5]
    until(lambda: np.allclose(window.camera.project(pick.position)[:2], place), "the camera")
    hit = window.viewer.scene.closest_hit(*window.camera.ray(*place))
    assert int(window.text("face")) == hit.prim_id


@pytest.mark.long
def test_materials_on_the_page(browser: Any) -> None:
    """A mesh with a texture has its colours on the page, and in the picture by rays."""
    pixels = np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)
    mesh = trimesh.creation.box([2.0, 2.0, 0.1])
    uv = mesh.vertices[:, :2] / 2.0 + 0.5
    look = trimesh.visual.material.PBRMaterial(
        baseColorTexture=image.fromarray(pixels.repeat(8, axis=0).repeat(8, axis=1))
    )
    mesh.visual = trimesh.visual.TextureVisuals(uv=uv, material=look)
    scene = Scene()
    scene.add(mesh)
    page = browser.new_page(viewport={"width": 960, "height": 640})
    with view(scene, title="two colours", port=0) as viewer:
        window = Window(page, viewer)
        ends = window.camera.project([[-0.5, 0.0, 0.05], [0.5, 0.0, 0.05]])
        places = np.stack(ends[:2], axis=1).round().astype(int)

        def colours() -> bool:
            (red, blue) = (window.picture()[y, x] for x, y in places)
            return bool(red[0] > 120 > 60 > red[2] and blue[2] > 120 > 60 > blue[0])

        until(colours, "the texture")
        window.keep("viewer_material.png")
        window.choose("Shading", "material")
        until(lambda: " shown after" in window.text("picture"), "the picture")
        until(colours, "the texture by rays")
        page.close()
