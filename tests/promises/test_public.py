"""The public surface: documented, annotated, one definition each."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.parsed_files import nodes_of

ROOT = Path(__file__).parents[2]

# Modules that users import, and libraries that they need.
MODULES = {
    "bvh": "", "bvh.kernels": "", "bvh.torch": "torch", "bvh.jax": "jax", "bvh.warp": "warp",
    "bvh.compat.trimesh": "",
    "bvh.compat.open3d": "", "bvh.distributed": "distributed",
}  # fmt: skip


def public_modules() -> list[ModuleType]:
    """Return the modules that can be imported here."""
    return [import_module(m) for m, needed in MODULES.items() if not needed or find_spec(needed)]


def public_callables(*modules: ModuleType) -> list[Any]:
    """Return exported functions, and the public methods of exported classes."""
    found = []
    for module in modules or (bvh,):
        for thing in (getattr(module, name) for name in module.__all__):
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


def is_ours(name: str) -> bool:
    """Return whether trees or scenes have a method."""
    return hasattr(bvh.BVH, name) or hasattr(bvh.Scene, name)


def test_everything_public_has_an_example() -> None:
    """Functions, classes and their methods, in all modules; doctests run them.

    Methods of drop-ins are those of another library, and stand in the example of their class; what
    is on a device has methods of trees and scenes, and functions for kernels stand in the example
    of their module.
    """
    modules = public_modules()
    things = {getattr(module, name) for module in modules for name in module.__all__}
    found = {thing for thing in things if inspect.isclass(thing)} | {*public_callables(*modules)}
    without = {
        thing
        for thing in found
        if not re.search(r"^Examples\n--------\n(.*\n)*?>>> ", inspect.getdoc(thing) or "", re.M)
    }
    drop_ins = [thing for thing in found if inspect.isclass(thing) and "bvh.compat" in str(thing)]
    shown = " ".join(inspect.getdoc(thing) or "" for thing in drop_ins)
    names = {
        f"{thing.__module__}.{thing.__qualname__}"
        for thing in without
        if not (thing.__module__.startswith("bvh.compat.") and f".{thing.__name__}(" in shown)
    }
    if find_spec("warp"):
        kernels = import_module("bvh.warp").__doc__ or ""
        names -= {f"bvh.warp.{name}" for name in re.findall(r"bvh\.warp\.(\w+)\(", kernels)}
        alike = re.compile(r"bvh\.devices\.trees\.Device\w*\.(\w+)")
        names -= {n for n in names if (m := alike.fullmatch(n)) and is_ours(m[1])}
        # Structs, whose fields the functions tell.
        names -= {n for n in names if re.match(r"bvh\.(devices\.(layout|stages)|warp)\.", n)}
    # Dask calls it.
    assert names <= {"bvh.distributed.kernel_plugin.KernelPlugin.setup"}


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_dir_lists_public_names(module: ModuleType) -> None:
    """And no others, but for the version and the modules beside the package's names."""
    beside = {"__version__", "kernels"} if module is bvh else set()
    assert set(dir(module)) == {*module.__all__} | beside


# Parameters that take one of a few strings.
OPTIONS = ("by", "cull", "depth", "edges", "method", "mode", "quality", "shade", "what", "y")


def test_options_are_literals() -> None:
    """The type of an option lists its strings."""
    found = set()
    for thing in public_callables(*public_modules()):
        for name, parameter in inspect.signature(thing).parameters.items():
            if name in OPTIONS and isinstance(parameter.default, str | None):
                assert not re.search(r"\bstr\b", str(parameter.annotation)), thing.__qualname__
                found.add(name)
    assert found == {*OPTIONS}


def test_casters_have_a_signature_and_a_docstring() -> None:
    tree, scene = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]), bvh.Scene()
    scene.add(tree)
    for cast, last in ((tree.caster(), "front"), (scene.caster(), "leaf")):
        signature = inspect.signature(cast)
        assert list(signature.parameters) == ["ox", "oy", "oz", "dx", "dy", "dz", "t_min", "t_max"]
        defaults = [p.default for p in signature.parameters.values()]
        assert defaults == [inspect.Parameter.empty] * 6 + [0.0, np.inf]
        doc = inspect.getdoc(cast) or ""
        told = re.search(rf"^t, prim_id, .*{last} : (float, int.*)", doc, re.M)
        assert told and doc.startswith("Cast one ray")
        assert len(cast(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)) == told[1].count(",") + 1


PROGRAM = """
import numpy as np
import bvh

tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]], quality="high")
hits = tree.closest_hit(np.ones((4, 3)), [-1.0, -1.0, -1.0], cull=None)
reveal_type(hits.t)  # float64
reveal_type(hits.prim_id)  # 32Bit
reveal_type(hits.front)  # bool
reveal_type(hits.position)  # float64
nearest: float = float(hits.t[hits.mask].min())
once = hits[hits.mask].prim_id.tolist()
reveal_type(tree.all_hits(np.ones((4, 3)), [-1.0, -1.0, -1.0], edges="once").ray_id)  # 64Bit
reveal_type(tree.any_hit(np.ones((4, 3)), [-1.0, -1.0, -1.0]))  # bool
reveal_type(tree.count_hits(np.ones((4, 3)), [-1.0, -1.0, -1.0]))  # 64Bit
reveal_type(tree.closest_point(np.ones((4, 3))).distance)  # float64
reveal_type(tree.contains(np.ones((4, 3)), method="winding"))  # bool
reveal_type(tree.distance_to(tree).prim_id)  # 32Bit
reveal_type(tree.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0))  # tuple[float, int, float, float, bool]
scene = bvh.Scene()
reveal_type(scene.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0))  # float, float, bool, int]
reveal_type(scene.closest_hit(np.ones((4, 3)), [-1.0, -1.0, -1.0]).leaf)  # 32Bit
reveal_type(scene.clearances().distance)  # float64
reveal_type(scene.leaves[0].tree)  # BVH
pick = scene.pick(bvh.Camera.look_at([0, 0, 9], [0, 0, 0], up="y"), 1.0, 2.0)
if pick is not None:
    reveal_type(pick.t)  # "float"
reveal_type(tree.to("cpu").closest_hit(np.ones((4, 3)), [-1.0, -1.0, -1.0]).t)  # float64
reveal_type(scene.to("cpu"))  # DeviceScene
reveal_type(tree.nodes.is_leaf)  # bool
hits.t.mni()  # error: has no attribute "mni"
tree.closest_hit([0, 0, 1], [0, 0, 1], cull="both")  # error: "Literal['back', 'front'] | None"
bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]], quality="best")  # error: "Literal['best']"
"""


@pytest.mark.long
def test_types_of_results(tmp_path: Path) -> None:
    """Types that mypy reveals in a user's program, as its comments state."""
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"]
    told = subprocess.run(
        [*command, "--config-file=", "--no-error-summary"], cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    lines = dict(line.split(": ", 1) for line in told.stdout.splitlines())
    expected = {
        f"program.py:{i}": line.partition("  # ")[2].removeprefix("error: ")
        for i, line in enumerate(PROGRAM.splitlines(), 1)
        if "  # " in line
    }
    assert lines.keys() == expected.keys(), told.stdout
    for place, text in expected.items():
        assert text in lines[place], (text, lines[place])
        assert 'type is "Any"' not in lines[place]


def test_exports_are_complete() -> None:
    """`__all__` is real; no module is called like what it exports. (The linter keeps it sorted.)"""
    assert all(hasattr(bvh, name) for name in bvh.__all__)
    modules = {path.stem for path in (ROOT / "bvh").rglob("*.py")}
    assert not modules & set(bvh.__all__)


def folder_order() -> list[str]:
    """Return the folders of CONTRIBUTING's table, lowest first."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.findall(r"^\| `([a-z]+)/` \|", text, re.M)


@cache
def imported_modules(path: Path) -> list[str]:
    """Return the modules that a file imports from the package, or names in a string, anywhere."""
    return [*_imported(path)]


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports from the package, or names in a string, anywhere."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bvh":
            for name in node.names:
                inside = f"{node.module}.{name.name}"
                yield inside if is_module(inside) else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("bvh."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from module_named(node.value)


def module_named(text: str) -> list[str]:
    """Return the module that a string is the dotted name of, with the package's name or without."""
    if not re.fullmatch(r"[a-z]\w*(\.\w+)+\.?", text):
        return []
    names = (text.rstrip("."), f"bvh.{text.rstrip('.')}")
    return [name for name in names if name.startswith("bvh.") and is_module(name)][:1]


def test_names_of_modules_in_strings_are_seen(tmp_path: Path) -> None:
    """Whatever is done with them: with the name of the package, without it, or cut short."""
    program = tmp_path / "program.py"
    program.write_text(
        'from bvh.tree import nodes\nA = "bvh.scene.scene"\nB = ("queries.results", "t.u")\n'
        'C = f"bvh.apps.{A}"\nD = "scene"\n'
    )
    found = ["bvh.apps", "bvh.queries.results", "bvh.scene.scene", "bvh.tree.nodes"]
    assert sorted(imported_modules(program)) == found


def is_module(name: str) -> bool:
    """Tell whether a dotted name is a module or folder of the package."""
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_imports_between_folders_run_one_way() -> None:
    """Each folder imports only from those before it in CONTRIBUTING's table."""
    order = folder_order()
    assert len(order) == 16
    # Beside the folders: queries for users' kernels, and with gradients; programs, which import
    # what users do.
    beside = ("kernels", "torch", "jax", "warp")
    order.insert(order.index("scene") + 1, "kernels")
    place = order.index("gradients") + 1
    order[place:place] = ["torch", "jax"]
    order.insert(order.index("devices") + 1, "warp")
    order.append("docs")
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
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                count = len(node.args.posonlyargs) + len(node.args.args)
                assert count <= 10, f"{path}:{node.lineno}"


def test_contributing_names_what_is_there() -> None:
    """Each file that CONTRIBUTING names is there, and each function of a ray's way in its file."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = ("bvh", "tests", "benchmarks", "meshes", ".ci")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    files = {path.relative_to(ROOT).as_posix(): path for path in paths}
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


@pytest.mark.parametrize("kind", [bvh.BVH, bvh.Scene, bvh.Camera])
def test_errors_name_public_classes(kind: type) -> None:
    """A wrong call names the class that users know."""
    methods = [n for n, m in inspect.getmembers(kind, inspect.isroutine) if not n.startswith("_")]
    assert methods
    for name in methods:
        assert getattr(kind, name).__qualname__ == f"{kind.__name__}.{name}"
        method = getattr(kind, name)
        # Before Python 3.13, where a suggestion is made, arguments that are missing come first.
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name}\(\) got an unexpected"):
            method(*needed, no_keyword_of_ours=1)
        if needed:
            with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{name}\(\) missing \d "):
                method()
