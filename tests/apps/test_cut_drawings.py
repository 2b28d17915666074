"""Caps of meshes that the viewer cuts, and pages for narrow windows."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.apps.viewer.drawing import PageFrame, drawing_of
from bvh.apps.viewer.html_export import write_page
from bvh.apps.viewer.tools.sectioning import STEPS, cut_by, filled

pytest.importorskip("viser")
from tests.apps.page_client import PageClient

CHROMIUM = os.environ.get("BVH_CHROMIUM") or shutil.which("chromium")


def area(triangles: Any) -> float:
    """Return the area of triangles (n, 3, 3)."""
    edges = triangles[:, 1:] - triangles[:, :1]
    return float(0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1).sum())


@pytest.mark.parametrize("seed", range(4))
def test_caps_fill_sections_but_for_holes(seed: int) -> None:
    """Their area is that of the section, and their points are in the plane and inside."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    pipe = trimesh.creation.annulus(1.0, 2.0, 4.0, sections=32)
    inner = trimesh.creation.icosphere(2, 0.7)
    mesh = trimesh.util.concatenate([pipe, inner])
    tree = bvh.BVH.from_mesh(mesh)
    plane = [*rng.normal(size=3), 0.3 * rng.normal()]
    cut: Any = tree.section(plane)
    caps = filled(cut)
    assert area(caps) == pytest.approx(cut.area, rel=40.0 / STEPS) and cut.area > 1.0
    normal = np.array(plane[:3])
    assert np.abs(caps @ normal + plane[3]).max() < 1e-12 * np.linalg.norm(normal)
    inside = tree.contains(caps.mean(axis=1))
    sizes = np.linalg.norm(np.cross(*(caps[:, 1:] - caps[:, :1]).transpose(1, 0, 2)), axis=1)
    assert sizes[inside].sum() > 0.99 * sizes.sum()


def test_caps_of_open_and_missed_meshes() -> None:
    """Curves that are not closed bound nothing; a plane beside a mesh has no curve."""
    flat = bvh.BVH.from_triangles([[0, 0, -1], [1, 0, -1], [0, 0, 1]], [[0, 1, 2]])
    for offset in (0.0, 5.0):
        cut: Any = flat.section([0, 0, 1, offset])
        assert filled(cut).shape == (0, 3, 3)


def test_instances_are_capped_each() -> None:
    """Also where they overlap, and in the coordinates of the page."""
    scene = bvh.Scene()
    turn = trimesh.transformations.rotation_matrix(0.4, [0, 0, 1])  # type: ignore[no-untyped-call]
    turn[:3, 3] = [0.5, 0, 0.25]
    scene.add_many(trimesh.creation.box([2, 2, 2]), np.stack([np.eye(4), turn]))
    frame = PageFrame.around(scene.bounds)
    drawing = drawing_of(scene, frame)
    plane = np.array([0.0, 0.0, 1.0]), 0.5
    drawn = cut_by(plane, drawing.parts, frame)
    assert area(drawn.caps) == pytest.approx(8.0 * frame.scale**2, rel=1e-3)
    assert np.allclose(frame.to_world(drawn.curves)[..., 2], 0.5, atol=1e-6)
    assert len(drawn.parts) == 2
    for part in drawn.parts:
        assert frame.to_world(part.vertices)[:, 2].max() <= 0.5 + 1e-6
    whole = cut_by(None, drawing.parts, frame)
    assert whole.parts is drawing.parts and not len(whole.caps) and not len(whole.curves)


def test_each_cut_copy_is_drawn() -> None:
    """Placed and sheared copies of one mesh have keys of their own; meshes without faces none."""
    scene, maps = bvh.Scene(), np.tile(np.eye(4), (5, 1, 1))
    maps[:, 0, 3] = np.arange(5) * 9.0
    maps[2:4, 0, 1] = 0.5
    scene.add_many(trimesh.creation.box([2, 2, 2]), maps)
    scene.add(bvh.BVH.from_triangles(np.full((3, 3), np.nan), [[0, 1, 2]], warn=False))
    frame = PageFrame.around(scene.bounds)
    parts = drawing_of(scene, frame).parts
    drawn = cut_by((np.array([0.0, 0.0, 1.0]), 0.5), parts, frame).parts
    assert len(drawn) == len({part.key for part in drawn}) == 5
    assert not {part.key for part in parts} & {part.key for part in drawn}


def test_narrow_pages_begin_farther_away(tmp_path: Path) -> None:
    """A wide scene needs more than the height of a page; what a page draws is told in words."""
    path, widths = tmp_path / "page.html", []
    for size in ([6, 6, 1], [1, 1, 6]):
        scene = bvh.Scene()
        scene.add(trimesh.creation.box(size))
        write_page(
            path, scene, "box", np.eye(3)[2], 100, draw=lambda *given: given[2].parts, text="a < b"
        )
        text = path.read_text()
        found = re.search(r"Math.max\(1, ([\d.]+) \* innerHeight", text)
        assert found is not None and "box</b>: a &lt; b; drag to turn" in text
        widths.append(float(found[1]))
    assert 4.0 >= widths[0] > 1.0 > widths[1]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lab_on_phones(scheme: str) -> None:
    """The answer is on the page, the panel leaves half of it, in the colours of the system."""
    api = pytest.importorskip("playwright.sync_api")
    from tests.apps.test_lab_page import OPTIONS

    with bvh.ray_lab(port=0) as lab, api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_page(viewport={"width": 420, "height": 800}, color_scheme=scheme)
        page.set_default_timeout(120_000)
        page.goto(lab.url)
        if scheme == "dark":
            page.wait_for_url("**darkMode**")
        page.wait_for_function("document.querySelector('.lab .short')?.innerText.includes('hit')")
        page.wait_for_function(
            f"document.documentElement.dataset.mantineColorScheme === '{scheme}'"
        )
        page.wait_for_function(
            "[...document.querySelectorAll('canvas')].some(each => each.clientHeight > 350)"
        )
        below = "document.querySelector('.lab').closest('.mantine-Paper-root')"
        assert page.evaluate(f"{below}.getBoundingClientRect().top") >= 399
        assert page.evaluate(f"{below}.getBoundingClientRect().width") == 420
        line = page.locator(".lab .short").bounding_box()
        assert line["y"] < 700
        browser.close()


def test_what_a_plane_removes_is_not_under_the_pointer() -> None:
    """Hovering finds what is drawn, as clicks do."""
    low, high = (trimesh.creation.box(bounds=[[-1, -1, z], [1, 1, z + 1]]) for z in (0, 3))
    scene = bvh.Scene()
    scene.add(low, name="low")
    scene.add(high, name="high")
    with bvh.view(scene, port=0) as viewer, PageClient(viewer.url) as client:
        session = client.until(lambda: next(iter(viewer._sessions.values()), None), "the page")
        for share, name in ((100.0, "high"), (50.0, "low")):
            session.cut("z", share)
            session._cursor.value = f"50, 50 %, {share}"
            session._cursor.value = "50, 50 %"
            wanted = f"of {name}, distance"
            client.until(lambda wanted=wanted: wanted in session._hover_text.content, wanted)
            session.pick_at(0.5, 0.5)
            assert viewer.pick is not None and viewer.pick.name == name
        # Of an eye in the plane, one side is drawn.
        eye = session.camera().eye
        session._section.plane = np.array([0.0, 0.0, 1.0]), float(eye[2])
        for towards, name in ((-1.0, "high"), (1.0, None)):
            session.pick_along(session.frame.to_page(eye), [0.0, 0.0, towards])
            assert (viewer.pick and viewer.pick.name) == name


def test_picked_points_give_no_plane() -> None:
    """They have no normal; all is drawn as before."""
    cloud = bvh.BVH.from_points([[-1.0, -1, -1], [0, 0, 0], [1, 1, 1]])
    with bvh.view(cloud, port=0) as viewer, PageClient(viewer.url) as client:
        session = client.until(lambda: next(iter(viewer._sessions.values()), None), "the page")
        session.pick_at(0.5, 0.5)
        assert viewer.pick is not None and np.isnan(viewer.pick.normal).all()
        session._section.cut("picked face", 50.0)
        assert session._section.plane is None and session._meshes._shown
