"""What the package promises about its surface: documented, annotated, one definition each."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import bvh

ROOT = Path(__file__).parents[2]


def public_callables() -> list[Any]:
    """Return exported functions, and the public methods of exported classes."""
    found = []
    for name in bvh.__all__:
        thing = getattr(bvh, name)
        if inspect.isclass(thing):
            methods = inspect.getmembers(thing, lambda m: inspect.isroutine(m))
            found += [m for n, m in methods if not n.startswith("_") and _ours(m)]
        elif callable(thing):
            found.append(thing)
    return found


def _ours(thing: Any) -> bool:
    return (getattr(thing, "__module__", None) or "").startswith("bvh")


@pytest.mark.parametrize("thing", public_callables(), ids=lambda t: t.__qualname__)
def test_everything_public_is_documented_and_annotated(thing: Any) -> None:
    """Every parameter has a type and is named in the docstring, unless it says where to look."""
    signature = inspect.signature(thing)
    doc = inspect.getdoc(thing) or ""
    assert doc
    assert signature.return_annotation is not inspect.Signature.empty
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls"):
            continue
        assert parameter.annotation is not inspect.Parameter.empty, name
        # Short docstrings may refer to a sibling ("as in `look_at`").
        assert re.search(rf"\b{name}\b", doc) or "as in" in doc.lower(), name


def test_exports_are_complete() -> None:
    """`__all__` is real; no module is called like what it exports. (The linter keeps it sorted.)"""
    assert all(hasattr(bvh, name) for name in bvh.__all__)
    modules = {path.stem for path in (ROOT / "bvh").rglob("*.py")}
    assert not modules & set(bvh.__all__)


def test_imports_run_one_way() -> None:
    """Each module imports only from those above it in CONTRIBUTING's table."""
    rooms = re.findall(r"^\| (`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    level: dict[str, int] = {}
    for height, cell in enumerate(rooms):
        for name in re.findall(r"`([a-z_]+)(?:\.py|/)`", cell):
            level[name] = height
    for path in (ROOT / "bvh").rglob("*.py"):
        room = path.relative_to(ROOT / "bvh").parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        assert room in level, f"{room} is missing in CONTRIBUTING.md"
        for line in path.read_text().splitlines():
            found = re.match(r"\s*(?:from|import) bvh(?:\.| import )(\w+)", line)
            if found and found[1] in level:
                assert level[found[1]] <= level[room], f"{path.name}: {line}"
            elif found:
                assert hasattr(bvh, found[1]), f"{path.name}: {line}"


def test_the_table_names_what_there_is() -> None:
    """Every room of CONTRIBUTING's table exists."""
    rooms = re.findall(r"^\| (`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    for name in re.findall(r"`([a-z_/]+(?:\.py)?)`", " ".join(rooms)):
        assert (ROOT / "bvh" / name).exists(), name


def test_files_stay_small() -> None:
    """One noun a file, 400 lines at the most."""
    rooms = ("bvh", "tests", "benchmarks")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    long = {path.name for path in paths if len(path.read_text().splitlines()) > 400}
    assert not long


def test_versions_agree() -> None:
    """The changelog's newest version is the package's."""
    newest = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
    assert newest == bvh.__version__
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert metadata["project"]["name"] == "raybvh"


def test_typed() -> None:
    """The package tells type checkers that it is annotated."""
    assert (ROOT / "bvh" / "py.typed").is_file()
