"""Pages of the viewer and the lab as readers of screens and keyboards meet them."""

from __future__ import annotations

from typing import Any

import pytest

import bvh
from tests.apps.axe import faults
from tests.apps.test_viewer_page import browser, shown_scene, until

assert browser


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["viewer", "lab"])
def test_no_serious_faults(browser: Any, name: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
    made = bvh.view(shown_scene(), port=0) if name == "viewer" else bvh.ray_lab(port=0)
    with made as shown:
        page.goto(shown.url)
        page.wait_for_selector("#bvh-pick" if name == "viewer" else "#bvh-exact")
        dark = "document.documentElement.dataset.mantineColorScheme"
        if name == "viewer":
            until(lambda: page.evaluate(dark) == scheme, "the colours")
        page.wait_for_timeout(1500)
        assert not faults(page)
    page.close()
