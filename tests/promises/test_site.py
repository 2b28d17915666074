"""The site of the documentation."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.apps.axe import faults
from tests.promises.test_public import public_callables, public_modules

ROOT = Path(__file__).parents[2]
QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    """With the options that .ci/run gives: some switch strictness off again."""
    pytest.importorskip("mkdocs")
    if not (ROOT / ".ci" / "run").is_file():
        pytest.skip("not a clone of the repository")
    (line,) = [x for x in (ROOT / ".ci" / "run").read_text().splitlines() if "mkdocs build" in x]
    words = shlex.split(line)
    options = words[words.index("build") + 1 : words.index("-f")]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One page\n")
    settings = tmp_path / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", *options, "-f", str(settings)]
    for nav, code in (("", 0), ("nav: [index.md, missing.md]\n", 1)):
        settings.write_text(f"site_name: site\n{nav}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(scheme: str, site: Path) -> None:
    """No serious fault of colours, names or structure on pages of each kind."""
    api = pytest.importorskip("playwright.sync_api")
    chromium = os.environ.get("BVH_CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium; set BVH_CHROMIUM to its path")
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, api.sync_playwright() as driver:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
        found = {}
        for name in ("", "gallery/", "performance/", "commands/", "reference/trees/", "tasks/"):
            page.goto(f"http://127.0.0.1:{server.server_port}/{name}")
            found[name] = faults(page)
        for width in (1400, 420):
            page.set_viewport_size({"width": width, "height": 900})
            scrolled = "document.documentElement.scrollWidth - innerWidth"
            assert page.evaluate(scrolled) <= 0
        browser.close()
        server.shutdown()
    assert not {name: each for name, each in found.items() if each}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    pytest.importorskip("mkdocs")
    settings = ROOT / ".ci" / "mkdocs.yml"
    if not settings.is_file():
        pytest.skip("not a clone of the repository")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-f", str(settings)]
    subprocess.run([*command, "-d", str(folder)], cwd=ROOT, check=True, env=os.environ | QUIET)
    return folder


@pytest.mark.long
def test_tables_of_the_reference() -> None:
    """Rows of tables of parameters have the defaults of signatures, and types as written."""
    griffe = pytest.importorskip("griffe")
    mends = ROOT / ".ci" / "docstring_tables.py"
    if not mends.is_file():
        pytest.skip("not a clone of the repository")
    package = griffe.load(
        "bvh", search_paths=[ROOT], extensions=griffe.load_extensions(str(mends)),
        docstring_parser="numpy",
    )  # fmt: skip
    rows, wrong = 0, []
    for thing in public_callables(*public_modules()):
        # Methods are written in base classes.
        source = inspect.unwrap(getattr(thing, "__func__", thing))
        place = f"{source.__module__}.{source.__qualname__}".removeprefix("bvh.")
        if inspect.isclass(thing) or "<locals>" in place or place.startswith(("torch", "jax")):
            continue
        given = inspect.signature(thing).parameters
        for section in package[place].docstring.parsed:
            if section.kind.value != "parameters":
                continue
            for row in section.value:
                rows += 1
                name = row.name.lstrip("*")
                default = {} if row.name.startswith("**") else given[name].default
                wanted = None if default is inspect.Parameter.empty else repr(default)
                line = re.search(
                    rf"^ *(\S+, )*\*{{0,2}}{name}(, \S+)* : (.*)$", source.__doc__, re.M
                )
                kind = line and line[3].removesuffix(", optional")
                if row.value != wanted or (line and row.annotation != kind):
                    wrong.append(f"{place} {row.name}: {row.annotation}, {row.value} for {wanted}")
    assert not wrong, f"{len(wrong)} of {rows} rows are wrong:\n" + "\n".join(wrong)
    assert rows > 400
