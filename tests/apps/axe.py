"""Faults of accessibility that axe-core finds on a page."""

from __future__ import annotations

from typing import Any

import pytest

RUN = """axe.run(document, {iframes: false}).then(found => found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .flatMap(each => each.nodes.map(node => each.id + ': ' + node.html.slice(0, 120))))"""


def faults(page: Any) -> list[str]:
    """Return the serious and critical ones; the test is skipped where axe-core is not installed."""
    axe = pytest.importorskip("axe_playwright_python.base")
    page.evaluate(axe.AXE_SCRIPT)
    found: list[str] = page.evaluate(RUN)
    return found
