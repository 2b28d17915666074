"""The ray lab in a real browser: what a user chooses, types and drags, and what the page says.

The browser is BVH_CHROMIUM, or else the chromium that is installed; pictures of the page are left
in BVH_ARTIFACTS.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.apps.lab.drawing import drawn
from bvh.apps.lab.page import FIELDS
from bvh.apps.lab.state import PRESETS, LabState, interval, nearest, text_of

pytest.importorskip("viser")
playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = os.environ.get("BVH_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")

# WebGL without a graphics card, and nothing that a browser does on its own account.
OPTIONS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
]
PATIENCE = 120.0
KEPT = Path(os.environ["BVH_ARTIFACTS"]) if os.environ.get("BVH_ARTIFACTS") else None
STYLE = """.mantine-Notifications-root { display: none }
*, ::before, ::after { animation: none !important; transition: none !important }"""
# Waits until some frames have been drawn.
FRAMES = """() => new Promise(done => {
    let left = 4;
    const draw = () => left-- ? requestAnimationFrame(draw) : done();
    draw();
})"""
STATES = {preset.name: preset.state for preset in PRESETS}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Run the browser."""
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield running
        running.close()


class Page:
    """The lab's page as a user sees it."""

    def __init__(self, lab: bvh.RayLab, page: Any) -> None:
        self.lab, self.page = lab, page
        self.requests: list[str] = []
        page.set_default_timeout(1000 * PATIENCE)
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(lab.url)
        self.shows("exact", "hit")
        # That WebGL runs in software is told above the scene, and of no interest here; every frame
        # of a transition would be drawn by it.
        page.add_style_tag(content=STYLE)

    def choose(self, control: str, option: str) -> None:
        """Pick from a drop-down list of the panel."""
        self.page.get_by_role("combobox", name=control, exact=True).click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def field(self, name: str) -> Any:
        """Return a field of numbers."""
        return self.page.locator(f"xpath=//label[.='{FIELDS[name][0]}']/following::input[1]")

    def said(self, name: str) -> str:
        """Return what one part of the answers says."""
        return str(self.page.locator(f"#bvh-{name}").first.inner_text())

    def shows(self, name: str, text: str) -> None:
        """Wait until one part of the answers has a text in it."""
        self.until(lambda: text in self.said(name))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"the page shows: {self.page.inner_text('body')}"
            self.page.wait_for_timeout(50)

    def agrees(self, state: LabState) -> bool:
        """Tell whether the page shows a state's numbers, and the exact answer to it."""
        met = nearest(state)
        if self.field("direction").input_value() != text_of(state.direction):
            return False
        if met is None:
            return self.said("exact") == "miss"
        stay = interval(state, met)
        ends = text_of([stay.near]), text_of([stay.far])
        return self.said("t_near") == ends[0] and self.said("t_far") == ends[1]

    def shot(self, name: str) -> None:
        """Keep a picture of the page, when it has been drawn, where pictures are looked at."""
        if not KEPT:
            return
        # Away from whatever would tell its hint.
        self.page.mouse.move(500, 5)
        self.page.evaluate(FRAMES)
        KEPT.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=KEPT / f"{name}.png")

    def pixel(self, drawn: Any) -> tuple[float, float]:
        """Return where a point of the scene is on the page."""
        (client,) = self.lab._server.get_clients().values()
        camera = client.camera
        box = self.page.locator("canvas").first.bounding_box()
        ahead = camera.look_at - camera.position
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, camera.up_direction)
        right /= np.linalg.norm(right)
        offset = np.asarray(drawn) - camera.position
        size = box["height"] / 2 / np.tan(camera.fov / 2) / (offset @ ahead)
        x, y = offset @ right * size, offset @ np.cross(right, ahead) * size
        return box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y


@contextmanager
def served(browser: Any) -> Iterator[Page]:
    """Open a lab in the browser."""
    tab = browser.new_page(viewport={"width": 1000, "height": 640})
    with bvh.ray_lab(port=8490) as lab:
        yield Page(lab, tab)
        tab.close()


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Page]:
    """Return a page that tests share; each of them chooses its case and view."""
    with served(browser) as opened:
        yield opened


@pytest.fixture
def fresh_page(browser: Any) -> Iterator[Page]:
    """Return a page of a test's own, with the camera where it is at first."""
    with served(browser) as opened:
        yield opened


def test_cases_show_the_exact_answer_and_the_naive_ones(page: Page) -> None:
    page.choose("Case", "Straight through")
    page.shows("count", "0 of 5 wrong")
    for width, height in ((1400, 900), (1000, 640)) if KEPT else ():
        page.page.set_viewport_size({"width": width, "height": height})
        page.shot(f"ray_lab_{width}")
    assert page.page.title() == "bvh lab"
    page.choose("Case", "Ray in a face plane")
    page.shows("count", "4 of 5 wrong")
    page.shows("reciprocal", "t = 1.5")
    assert page.said("exact") == "hit"
    assert (page.said("t_near"), page.said("t_far")) == ("1.5", "3")
    assert "miss" in page.said("divide")
    assert "0 / 0 = NaN" in page.said("divide")
    page.shot("ray_lab_face_plane")
    page.choose("Case", "First hit is not the closest")
    page.shows("exact", "hit, box 2")
    page.shows("first", "box 1, t = 3.5")
    page.shot("ray_lab_two_boxes")
    page.choose("Case", "Box behind the origin")
    page.shows("exact", "miss")
    page.shows("unchecked", "t = -3.5")
    assert "behind the origin" in page.said("unchecked")
    # All of it came from the lab itself.
    ours = (page.lab.url, page.lab.url.replace("http", "ws"), "blob:" + page.lab.url, "data:")
    assert page.requests and all(url.startswith(ours) for url in page.requests)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_every_case_can_be_chosen(page: Page, step: int) -> None:
    """In an ordinary run one of five, beside those of other tests."""
    for name, state in [*STATES.items()][::step]:
        page.choose("Case", name)
        page.until(lambda state=state: page.lab.state == state and page.agrees(state))


def test_numbers_can_be_typed_to_the_last_digit(page: Page) -> None:
    page.choose("Case", "Straight through")
    page.until(lambda: page.agrees(STATES["Straight through"]))
    page.field("upper").fill("2.5000000000000004, 2, 2")
    page.shows("t_far", "3.2")
    page.field("direction").fill("0.5, 0.5, 0.625")
    page.until(lambda: page.lab.state.direction == (0.5, 0.5, 0.625))
    page.until(lambda: page.agrees(page.lab.state))
    assert page.said("t_near") == "3"
    assert page.field("upper").input_value() == "2.5000000000000004, 2, 2"
    page.field("direction").fill("0.5, nothing")
    page.shows("error", "direction must be 3 numbers, got 2")
    assert page.lab.state.direction == (0.5, 0.5, 0.625)
    page.choose("Case", "Negative zero")
    page.until(lambda: page.field("direction").input_value() == "1, -0.0, -0.0")
    page.field("direction").fill("1, 0.0, 0.0")
    page.shows("count", "0 of 5 wrong")


@pytest.mark.parametrize("name", ["tip", "upper"])
def test_arrows_can_be_dragged(fresh_page: Page, name: str) -> None:
    page = fresh_page
    before = page.lab.state
    page.choose("Drag", "box" if name == "upper" else "ray")
    page.until(lambda: page.lab._arrows[name].visible)

    def drag() -> bool:
        """Pull the arrow along z upwards; it takes a while until it is there to be pulled."""
        place = drawn(page.lab._frame, getattr(page.lab.state, name))
        x, y = page.pixel(place + [0.0, 0.0, 0.3])
        end = page.pixel(place + [0.0, 0.0, 0.9])
        page.page.mouse.move(x, y)
        page.page.mouse.down()
        page.page.mouse.move((x + end[0]) / 2, (y + end[1]) / 2, steps=4)
        page.page.mouse.move(*end, steps=4)
        page.page.mouse.up()
        return page.lab.state != before

    def snapped() -> bool:
        """Whether the arrow is at rounded coordinates, though it was dragged to others."""
        place = drawn(page.lab._frame, getattr(page.lab.state, name))
        return np.allclose(page.lab._arrows[name].position, place)

    page.until(drag)
    # The mouse's last moves may arrive after the first has changed the state.
    page.until(lambda: not page.lab._held and snapped())
    page.until(lambda: page.agrees(page.lab.state))
    state = page.lab.state
    assert state.origin == before.origin
    moved, was = getattr(state, name), getattr(before, name)
    assert moved[:2] == was[:2] and moved[2] > was[2]
    assert state.lower == before.lower and (name == "tip") == (state.upper == before.upper)
    page.shot(f"ray_lab_dragged_{name}")


@pytest.mark.long
def test_a_notebook_shows_the_page(browser: Any, page: Page) -> None:
    tab = browser.new_page(viewport={"width": 960, "height": 840})
    tab.set_default_timeout(1000 * PATIENCE)
    tab.set_content(page.lab._repr_html_())
    answer = tab.frame_locator("iframe").locator("#bvh-exact")
    assert answer.inner_text() == page.said("exact")
    tab.close()
