"""Pictures of the live pages, light and dark: python .ci/thumbnails.py writes them.

It needs viser, playwright, pillow and Chromium (BVH_CHROMIUM names it).
"""

import io
import os
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from bvh.docs.programs.live_pages import PAGES

FOLDER = Path(__file__).parents[1] / "bvh" / "docs" / "live"
SIZE = {"width": 640, "height": 480}
# Without a GPU.
OPTIONS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
# The caption, the panel, and notes.
HIDDEN = (
    "body > div:not(#root), .mantine-Paper-root, .mantine-Notifications-root, button "
    "{ display: none !important }"
)


def main() -> None:
    """Write two pictures of each page."""
    FOLDER.mkdir(exist_ok=True)
    chromium = os.environ.get("BVH_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=OPTIONS)
        for name, write in PAGES.items():
            path = Path(folder, f"{name}.html")
            write(path)
            for scheme, ending in (("light", ""), ("dark", "-dark")):
                page = browser.new_page(viewport=SIZE, color_scheme=scheme)
                page.goto(path.as_uri(), timeout=120_000)
                page.wait_for_selector("canvas", state="attached")
                page.wait_for_timeout(5000)
                page.add_style_tag(content=HIDDEN)
                shot = page.screenshot(timeout=120_000)
                page.close()
                picture = Image.open(io.BytesIO(shot)).convert("RGB")
                picture.save(FOLDER / f"{name}{ending}.webp", quality=82, method=6)
        browser.close()


if __name__ == "__main__":
    main()
