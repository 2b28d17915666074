"""The demo, its moving parts, and pages that need no server."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.apps.demo import MOONS, PERIOD, TRIALS, Motion, demo_scene, moon_places
from bvh.apps.viewer.ground_shadow import ground_shadow
from bvh.apps.viewer.html_export import write_page
from tests.commands import Run

pytest.importorskip("viser")
from tests.apps.page_client import PageClient


def test_moons_go_round() -> None:
    """They are instances of one mesh, back at their places after a period, and never touch."""
    scene, ids = demo_scene()
    assert len(ids) == MOONS and len({id(scene[k].child) for k in ids.tolist()}) == 1
    assert [scene[name].id for name in ("moon 1", "moon 7")] == [ids[0], ids[-1]]
    assert np.allclose(moon_places(0.0)[:, :2], moon_places(PERIOD)[:, :2])
    for seconds in np.linspace(0.0, PERIOD, 7):
        scene.set_transforms(ids, moon_places(seconds))
        assert not np.isin(scene.collisions(), ids).any()


def test_the_box_moves_them() -> None:
    """They move while the page is open and the box is ticked."""
    scene, ids = demo_scene()
    with bvh.view(scene, port=0) as viewer:
        motion = Motion(viewer, ids)

        def moved() -> bool:
            before = scene[int(ids[0])].transform
            time.sleep(0.3)
            return not np.array_equal(before, scene[int(ids[0])].transform)

        assert not moved()
        motion._moves.value = True
        assert moved()
        motion._moves.value = False
        time.sleep(0.2)
        assert not moved()


def test_things_to_try() -> None:
    """Pages begin in clay, above a shadow of what stays; each button does what it says."""
    scene, ids = demo_scene()
    assert abs(scene.bounds[0, 2]) < 1e-12
    with bvh.view(scene, port=0) as viewer:
        motion = Motion(viewer, ids)
        client = PageClient(viewer.url)
        session = client.until(lambda: next(iter(viewer._sessions.values()), None), "the page")
        client.until(lambda: session._picture.value == "clay", "clay")
        client.until(lambda: "/shadow" in client.nodes, "the shadow")
        for name, trial in TRIALS.items():
            motion._try(session.client.client_id, trial)
            if name == "Pick in the middle":
                assert viewer.pick is not None or not session.camera()
            if name == "Lasso some faces":
                assert viewer.selection is not None
            if name == "Measure part to column":
                assert "bvh-measure" in session.measuring._text.content
            if name == "Cut the sculpture open":
                assert session._section.plane is not None and not session.is_whole
                # What was selected and measured before is not drawn upon the cut.
                assert not viewer.selection
            if name == "What does a ray cost?":
                assert session._picture.value == "cost"
        assert session._section.plane is None and viewer.pick is None


def test_shadows_on_the_ground() -> None:
    """They are dark below what stands, and leave out what they are told to; any up will do."""
    scene = bvh.Scene()
    for name, x in (("stays", 0.0), ("moves", 9.0)):
        scene.add(bvh.BVH.from_boxes([[x, 0, 0]], [[x + 2, 2, 1]]), name=name)
    for up in np.eye(3):
        found = ground_shadow(scene, up)
        assert found is not None and found.pixels[..., 3].max() > 150
        assert abs(found.centre @ up) < 1e-12
        assert not found.pixels[[0, -1], :, 3].any() and not found.pixels[:, [0, -1], 3].any()
    some = ground_shadow(scene, np.eye(3)[2], [1])
    assert some is not None and np.count_nonzero(some.pixels) < 0.7 * np.count_nonzero(found.pixels)
    assert scene[1].visible and ground_shadow(bvh.Scene(), np.eye(3)[2]) is None


@pytest.mark.long
def test_pages_without_a_server(run: Run, tmp_path: Path) -> None:
    """One file with all that it needs; generated meshes go by name."""
    code, out, err = run("view", "organic-8", "--html", "page.html")
    assert code == 0, err
    text = Path("page.html").read_text()
    assert "1\xa0280 triangles" in out and 400_000 < len(text) < 1_500_000
    assert "organic-8" in text and "prefers-color-scheme: dark" in text
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text)
    for name, kind in (("page.txt", ValueError), ("no/page.html", FileNotFoundError)):
        with bvh.view(demo_scene()[0], port=0) as viewer, pytest.raises(kind):
            viewer.save_html(tmp_path / name)
    assert run("view", "organic-8", "--html", "page.txt")[0] == 2


def test_generated_names(run: Run) -> None:
    """Files of these names come first; other names are no meshes."""
    for name, count in (("organic-4", 320), ("cad_part", None)):
        code, out, _ = run("info", name, "--json")
        assert code == 0 and (count is None or f'"triangles": {count}' in out)
        assert '"watertight": true' in out
    for name in ("organic-x", "organics", "organic-"):
        code, _, err = run("info", name)
        assert code == 2 and "no such file" in err


@pytest.mark.long
def test_exported_pages_play(tmp_path: Path) -> None:
    """In a browser, from a file: no script fails, nothing is fetched, there is something to see."""
    from tests.apps.test_viewer_page import CHROMIUM, OPTIONS, shown_scene

    api = pytest.importorskip("playwright.sync_api")
    path, errors, fetched = tmp_path / "page.html", list[str](), list[str]()
    with bvh.view(shown_scene(), port=0) as viewer:
        assert viewer.save_html(path) == path.stat().st_size
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page: Any = browser.new_page(viewport={"width": 600, "height": 400})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("canvas")
        page.wait_for_timeout(3000)
        shot = page.screenshot()
        browser.close()
    assert not errors and not [
        url for url in fetched if not url.startswith(("file:", "blob:", "data:"))
    ]
    assert len(shot) > 15_000


def test_names_are_text_on_exported_pages(tmp_path: Path) -> None:
    """Whatever titles and instances are called; picks of what is gone are left out."""
    scene = bvh.Scene()
    number = scene.add(bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]), name="<script>x</script>")
    scene.add(bvh.BVH.from_boxes([[3, 0, 0]], [[4, 1, 1]]), name="other")
    camera = bvh.Camera.look_at([0.5, -5, 0.5], [0.5, 0, 0.5])
    path = tmp_path / "page.html"
    pick = scene.pick(camera, camera.width / 2, camera.height / 2)
    assert pick is not None and pick.instance_id == number
    write_page(path, scene, "<b>", np.eye(3)[2], 100, camera, pick)
    text = path.read_text()
    assert "of &lt;script&gt;x&lt;/script&gt;" in text and "<script>x<" not in text
    assert "&lt;b&gt;</b>" in text
    scene.remove(number)
    write_page(path, scene, "<b>", np.eye(3)[2], 100, camera, pick)
    assert "script&gt;x" not in path.read_text()
