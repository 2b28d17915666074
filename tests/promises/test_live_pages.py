"""The live pages: each is written, says what is true, and has thumbnails in the README."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bvh
from bvh.apps.bundled import bundled

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "bvh" / "docs" / "live"

pytest.importorskip("viser")

from bvh.docs.programs.live_pages import PAGES  # noqa: E402

LARGE = [pytest.param(name, marks=pytest.mark.long) for name in PAGES if name != "section"]


@pytest.mark.parametrize("name", [pytest.param("section", marks=pytest.mark.long), *LARGE])
def test_pages(name: str, tmp_path: Path) -> None:
    """A page of one file that loads nothing; its caption has what the program found."""
    path = tmp_path / f"{name}.html"
    found = PAGES[name](path)
    page = path.read_text(encoding="utf-8")
    assert len(page) < 3e6 and "drag to turn" in page
    assert not re.search(r'<(script|link|img)\b[^>]*(src|href)="https?:', page)
    if name == "section":
        # That of the part, by the lengths of lines in the plane.
        tree = bvh.BVH.from_triangles(*bundled("meshes.cad_part").cad_part())
        low, high = tree.bounds
        x = np.linspace(low[0], high[0], 4001)
        starts = np.stack([0.5 * (x[1:] + x[:-1]), np.zeros(4000), np.full(4000, low[2] - 1.0)], 1)
        hits = tree.all_hits(starts, [0.0, 0.0, 1.0], edges="once")
        area = np.where(hits.front, -1.0, 1.0) @ hits.t * (x[1] - x[0])
        assert area == pytest.approx(found, rel=1e-3)
        assert f"{found / 100.0:.1f} cm" in page
    else:
        assert found > 50


def test_thumbnails() -> None:
    """Light and dark ones of one size for each page, which the README shows with a caption."""
    image = pytest.importorskip("PIL.Image")
    if not FOLDER.is_dir():
        pytest.skip("not a clone of the repository")
    wanted = {f"{name}{ending}.webp" for name in PAGES for ending in ("", "-dark")}
    assert {path.name for path in FOLDER.iterdir()} == wanted
    for path in FOLDER.iterdir():
        assert path.stat().st_size < 60_000
        with image.open(path) as picture:
            assert picture.size == (640, 480)
            grey = np.asarray(picture.convert("L"))
        assert grey.std() > 8.0
        assert (np.median(grey) < 60) == path.stem.endswith("-dark") or "cloud" in path.stem
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r'title="(\w+)">.*?srcset="bvh/docs/live/(\w+)-dark.webp">'
                       r'<img src="bvh/docs/live/(\w+).webp".*?</a><br><b>', text)  # fmt: skip
    assert [name for name, *_ in shown] == list(PAGES) and all(len({*each}) == 1 for each in shown)
