"""Links between texts: each leads to a file that exists and to a heading that it has."""

from __future__ import annotations

import re
import runpy
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "bvh" / "docs").glob("*.md"))
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / name / "README.md" for name in ("benchmarks", "meshes")),
    *PAGES,
]
SETTINGS = ROOT / ".ci" / "mkdocs.yml"
# Pages that the site makes: of texts at the root, of the notebook, of the helps of commands.
GENERATED = {
    "index.md", "contributing.md", "changelog.md", "benchmarks.md", "tour.md", "commands.md",
}  # fmt: skip
# And what its pages frame.
FRAMED = ("live/section.html", "live/scene.html")


def prose(path: Path) -> str:
    """Return a text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def links(path: Path) -> list[str]:
    """Return what a text links to within the repository: links, pictures, and tags of HTML."""
    text = re.sub(r"`[^`\n]*`", "code", prose(path))
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|\b(?:href|src)=\"([^\"]+)\"", text)
    targets = ["".join(pair) for pair in found]
    return [x for x in targets if not re.match(r"[a-z]+:", x)]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a text's headings, those that GitHub and the site agree on."""
    named: list[set[str]] = [set(), set()]
    for heading in re.findall(r"^#+ +(.+?) *#*$", prose(path), re.M):
        title = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower()
        on_github = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
        on_site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip())
        named[0].add(on_github)
        named[1].add(on_site)
    return named[0] & named[1]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    """Relative ones; nothing is looked up elsewhere."""
    broken = []
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        inside = target.is_relative_to(ROOT.resolve())
        if link in FRAMED:
            continue
        if not (inside and target.exists()) or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken, f"{path.name} links to {', '.join(broken)}"


def test_each_page_can_be_reached() -> None:
    """From the README, link by link."""
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path not in seen and path.exists():
            seen.add(path)
            names = (link.partition("#")[0] for link in links(path))
            ahead += [(path.parent / x).resolve() for x in names if x.endswith(".md")]
    assert not {page.name for page in PAGES} - {path.name for path in seen}


def test_each_page_is_in_the_navigation() -> None:
    """And each entry of the navigation is a page."""
    if not SETTINGS.is_file():
        pytest.skip("not a clone of the repository")
    _, _, navigation = SETTINGS.read_text(encoding="utf-8").partition("\nnav:\n")
    listed = set(re.findall(r": (\w+\.md)$", navigation, re.M))
    # The glossary comes after the reference, which is generated.
    listed |= set(re.findall(r'"([a-z_]+\.md)"', (SETTINGS.parent / "pages.py").read_text("utf-8")))
    assert listed - GENERATED == {page.name for page in PAGES}


def test_broken_links_are_found(tmp_path: Path) -> None:
    """The tests above read links and headings as GitHub and the site do."""
    text = tmp_path / "text.md"
    text.write_text(
        "# One `thing`: two, three\n## How it works\n```\n# no\n[a](no.md)\n```\n"
        "[a](b.md#c) ![d](e.png) [`f`](#g) `[h](i)` [j](https://k) <img src=\"l.svg\"> [m](n 'o')\n"
    )
    assert links(text) == ["b.md#c", "e.png", "#g", "l.svg", "n"]
    assert anchors(text) == {"one-thing-two-three", "how-it-works"}


def test_the_page_of_an_index_leads_to_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The README of the distribution has no relative links, and the same code."""
    # Hatchling, which runs this program, is not installed beside the tests.
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(ROOT / ".ci" / "readme.py"))["standalone"](text)
    assert not re.search(r"\]\((?!https?:|#)", page)
    assert "How it works, Glossary" in page
    blocks = r"^```.*?^```$"
    assert re.findall(blocks, page, re.M | re.S) == re.findall(blocks, text, re.M | re.S)
