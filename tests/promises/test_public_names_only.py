"""Satellites use public names of the core only: no attribute or import that begins with `_`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.parsed_files import nodes_of

BVH = Path(__file__).parents[2] / "bvh"
CORE = (
    "runtime", "geometry", "tree", "traversal", "io", "surfaces", "queries", "camera", "picking",
    "scene",
)  # fmt: skip
SATELLITES = (
    "apps", "compat", "devices", "distributed", "docs", "gradients", "pictures", "jax.py",
    "torch.py", "warp.py",
)  # fmt: skip


def files_of(name: str) -> list[Path]:
    """Return the modules of a folder, or the one of a file."""
    path = BVH / name
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def is_private(name: str) -> bool:
    """Return whether a name is private, and none of Python's own."""
    return name.startswith("_") and not name.endswith("__") and name != "_"


def defined(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the private names that a module defines: functions, classes, variables, attributes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names = [node.attr]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        else:
            continue
        yield from filter(is_private, names)


def private_uses(nodes: list[ast.AST], core: set[str]) -> Iterator[tuple[int, str]]:
    """Yield lines and private names of the core that a module uses, but not those it defines."""
    known = core - set(defined(nodes))
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in known:
            # What an object of the satellite has is called on `self`, at times inherited.
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and is_core(node.module or ""):
            yield from ((node.lineno, n.name) for n in node.names if is_private(n.name))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            # As in `getattr(tree, "_name")`.
            names = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)]
            yield from ((node.lineno, str(name)) for name in names if name in known)


def is_core(module: str) -> bool:
    """Return whether a dotted name is a module of the core."""
    parts = module.split(".")
    return parts[0] == "bvh" and len(parts) > 1 and parts[1] in CORE


def uses_of(satellite: str, core: set[str]) -> list[str]:
    """Return the places where a satellite uses private names of the core."""
    return [
        f"{path.relative_to(BVH)}:{line}: {name}"
        for path in files_of(satellite)
        for line, name in private_uses(nodes_of(path), core)
    ]


@pytest.fixture(scope="module")
def core() -> set[str]:
    """Return the private names that the core defines."""
    paths = [path for folder in CORE for path in files_of(folder)]
    return {name for path in paths for name in defined(nodes_of(path))}


@pytest.mark.parametrize("satellite", SATELLITES)
def test_public_names_only(satellite: str, core: set[str]) -> None:
    """The core can change what it does not export without a look at its satellites."""
    assert len(core) > 500
    assert not uses_of(satellite, core)


def test_private_names_are_found() -> None:
    """Attributes, also of `getattr`, and imports; not those that a module defines itself."""
    text = (
        "from bvh.scene.scene import Scene, _part\nfrom bvh.apps.page import _mine\n"
        "class A:\n    def _own(self): self._field = tree._arrays\n"
        'a._own(), getattr(a, "_arrays"), a.__class__, "_unknown"\n'
    )
    nodes = [*ast.walk(ast.parse(text))]
    assert set(defined(nodes)) == {"_own", "_field"}
    assert set(private_uses(nodes, {"_arrays", "_part", "_own"})) == {
        (1, "_part"), (4, "_arrays"), (5, "_arrays"),
    }  # fmt: skip
