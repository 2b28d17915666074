"""What the package promises about its surface: documented, annotated, one definition each."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
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


def folder_order() -> list[str]:
    """Return the folders of CONTRIBUTING's table, lowest first."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.findall(r"^\| `([a-z]+)/` \|", text, re.M)


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bvh":
            for name in node.names:
                inside = f"{node.module}.{name.name}"
                yield inside if is_module(inside) else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("bvh."))


def is_module(name: str) -> bool:
    """Tell whether a dotted name is a module or folder of the package."""
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_imports_between_folders_run_one_way() -> None:
    """Each folder imports only from those before it in CONTRIBUTING's table."""
    order = folder_order()
    assert len(order) == 14
    # Beside the folders: queries for users' kernels, and with gradients; programs, which import
    # what users do.
    beside = ("kernels", "torch", "jax")
    order.insert(order.index("scene") + 1, "kernels")
    place = order.index("gradients") + 1
    order[place:place] = ["torch", "jax"]
    order.append("examples")
    found = {path.name for path in (ROOT / "bvh").iterdir() if (path / "__init__.py").exists()}
    assert found == set(order) - set(beside)
    for path in (ROOT / "bvh").rglob("*.py"):
        here = path.relative_to(ROOT / "bvh").parts[0].removesuffix(".py")
        if here in ("__init__", "__main__"):
            continue
        for module in imported_modules(path):
            there = module.split(".")[1]
            if there in order:
                assert order.index(there) <= order.index(here), f"{path.name}: {module}"
            else:
                assert hasattr(bvh, there), f"{path.name}: {module}"


def table_of(folder: Path) -> list[str]:
    """Return the names in the table of a folder's docstring, in order."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert text.count("Each file imports only from those above it.") == 1, folder
    return re.findall(r"^\| `([a-z0-9_]+)(?:\.py|/)` \|", text, re.M)


FOLDERS = sorted({path.parent for path in (ROOT / "bvh").rglob("*.py")} - {ROOT / "bvh"})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_folders_list_their_files(folder: Path) -> None:
    """Each folder's docstring lists its files, and each imports only from those above it there."""
    listed = table_of(folder)
    present = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    present |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert set(listed) == present
    name = ".".join(folder.relative_to(ROOT).parts)
    for path in folder.glob("*.py"):
        for module in imported_modules(path):
            inside = module.removeprefix(f"{name}.").split(".")[0]
            if module.startswith(f"{name}.") and inside in listed and path.stem in listed:
                assert listed.index(inside) <= listed.index(path.stem), f"{path}: {module}"


def test_folders_stay_small() -> None:
    """A folder holds at most 12 files; the stages of rays, and of trees, are more."""
    for folder in FOLDERS:
        files = [path for path in folder.glob("*.py") if path.stem != "__init__"]
        name = folder.relative_to(ROOT / "bvh").as_posix()
        assert len(files) <= 12 or name in ("traversal/rays", "tree"), name


def test_files_stay_small() -> None:
    """One noun a file, 400 lines at the most."""
    rooms = ("bvh", "tests", "benchmarks")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    long = {path.name for path in paths if len(path.read_text().splitlines()) > 400}
    assert not long


def test_functions_take_few_arguments() -> None:
    """At most ten parameters; options that are given by name alone do not count."""
    for path in (ROOT / "bvh").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                count = len(node.args.posonlyargs) + len(node.args.args)
                assert count <= 10, f"{path}:{node.lineno}"


def test_contributing_names_what_is_there() -> None:
    """Each file that CONTRIBUTING names is there, and each function of a ray's way in its file."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.glob("*/**/*.py")}
    named: dict[str, list[Path]] = {}
    for name in re.findall(r"`([\w./]+\.py)`", text):
        named[name] = [path for key, path in files.items() if f"/{key}".endswith(f"/{name}")]
        assert named[name], name
    way = text.partition("## How a ray travels")[2].partition("\n## ")[0]
    steps = re.findall(r"`([\w./]+\.py)`\s+`(\w+)`", way)
    assert len(steps) >= 13
    for name, function in steps:
        assert any(f"def {function}(" in path.read_text() for path in named[name]), function
    # A screen, so that it can be read at once.
    assert len(way.strip().splitlines()) <= 50


def test_versions_agree() -> None:
    """The newest version in the changelog, and the one to be cited, are the package's."""
    changes, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    newest, date = re.findall(r"^## \[(\d.*?)\] - (.*)$", changes, re.M)[0]
    assert newest == bvh.__version__
    assert f"\nversion: {newest}\ndate-released: {date}\n" in citation
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert metadata["project"]["name"] == "raybvh"


def test_typed() -> None:
    """The package tells type checkers that it is annotated."""
    assert (ROOT / "bvh" / "py.typed").is_file()
