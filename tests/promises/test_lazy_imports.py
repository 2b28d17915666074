"""Modules that `import bvh` loads, and when the others are loaded."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bvh
import bvh.distributed
from bvh import kernels
from bvh.runtime import jit

PACKAGE = Path(bvh.__file__).parent


def told(program: str) -> Any:
    """Run a program in a process of its own; return what it prints, as JSON."""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def modules_after(program: str) -> set[str]:
    """Return the modules that a program has loaded."""
    return set(told(f"import json, sys\n{program}\nprint(json.dumps(list(sys.modules)))"))


def test_the_package_alone_loads_next_to_nothing() -> None:
    loaded = modules_after("import bvh; bvh.__version__; dir(bvh)")
    assert {name for name in loaded if name.split(".")[0] == "bvh"} == {
        "bvh",
        "bvh.runtime",
        "bvh.runtime.cache",
        "bvh.runtime.cache.plain_files",
        "bvh.runtime.registry",
    }
    assert not loaded & {"numba", "numpy"}


def test_trees_load_what_trees_need() -> None:
    loaded = modules_after("import bvh; bvh.BVH")
    foreign = "trimesh typer rich click PIL matplotlib viser websockets http.server rtree"
    assert not loaded & {*foreign.split(), "array_api_compat", "torch", "jax"}
    assert not loaded & {"numba", "llvmlite", "scipy"}
    folders = {name.split(".")[1] for name in loaded if name.startswith("bvh.")}
    assert "queries" in folders
    assert not folders & {"scene", "camera", "picking", "pictures", "apps", "compat", "kernels"}
    files = {name.split(".")[-1] for name in loaded if name.startswith("bvh.")}
    assert not files & {"point_batches", "winding_moments", "containment", "overlap_batches"}


@pytest.mark.parametrize(
    "program",
    ["import bvh.apps.cli.cli", "from bvh import BVH; BVH.from_file(MESH)"],
    ids=["commands", "from_file"],
)
def test_trimesh_is_loaded_when_needed(program: str, tmp_path: Path) -> None:
    """The start of a command and the own readers of meshes do without it: it takes 0.9 CPU s."""
    mesh = tmp_path / "mesh.obj"
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    loaded = modules_after(f"MESH = {str(mesh)!r}\n{program}")
    assert not loaded & {"trimesh", "scipy.spatial"}


def test_the_sources_are_read_when_a_kernel_is_wanted() -> None:
    """Not by the import: that would take as long as all the rest of it."""
    program = """
import json
import bvh
from bvh.runtime.compiler.kernel_cache import version_of
bvh.Scene, bvh.BVH, bvh.Viewer
before = version_of.cache_info().currsize
bvh.ray_triangle([0, 0, 1], [0, 0, -1], [0, 0, 0], [1, 0, 0], [0, 1, 0])
print(json.dumps([before, version_of.cache_info().currsize]))
"""
    assert told(program) == [0, 1]


@pytest.mark.parametrize("package", [bvh, bvh.distributed], ids=lambda package: package.__name__)
def test_stubs_name_what_is_imported(package: ModuleType) -> None:
    """The statements that type checkers read are the table of what is imported on first use."""
    tree = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    read = [(node.module, name.name, name.asname) for node in imports for name in node.names]
    named = [x for x in read if x[0] not in ("typing", "bvh")]
    assert len(named) > 5
    assert {name: module for module, name, _ in named} == package._MODULES
    assert package.__all__ == sorted(name for _, name, _ in named)
    for module, name, again in named:
        assert name == again and getattr(package, name) is getattr(import_module(module), name)


def test_all_names_are_there() -> None:
    program = """
import json
from bvh import *
import bvh
print(json.dumps([sorted(set(globals()) & set(bvh.__all__)), dir(bvh)]))
"""
    starred, listed = told(program)
    assert starred == sorted(bvh.__all__)
    # And no others.
    assert listed == sorted([*bvh.__all__, "kernels", "__version__"])


def test_modules_are_there_without_being_imported() -> None:
    program = """
import json
import bvh
print(json.dumps([bvh.tree.__name__ == 'bvh.tree', bvh.pictures.Picture.__name__,
                  bvh.kernels.closest_hit.__name__]))
"""
    assert told(program) == [True, "Picture", "closest_hit"]


def test_unknown_names() -> None:
    for name in ("nothing", "_nothing", "__nothing__"):
        assert not hasattr(bvh, name)
        with pytest.raises(AttributeError, match=f"'bvh' has no attribute '{name}'"):
            getattr(bvh, name)


def test_many_threads_ask_at_once() -> None:
    program = """
import json, threading
import bvh
gate, found, count = threading.Barrier(8), [], len(bvh.__all__)

def ask(first):
    gate.wait()
    names = bvh.__all__[first:] + bvh.__all__[:first]
    found.append({name: id(getattr(bvh, name)) for name in names})

threads = [threading.Thread(target=ask, args=(i * count // 8,)) for i in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([len(found), all(one == found[0] for one in found)]))
"""
    assert told(program) == [8, True]


def test_many_threads_import_at_once() -> None:
    """Modules, too, of which each needs other parts of Numba first."""
    program = """
import json, threading
from importlib import import_module
import bvh
names = (
    "runtime.calls.user_calls", "geometry.arithmetic.exact_sums", "kernels", "queries.hierarchy",
    "runtime.compiler.cpu_levels", "runtime.jit", "tree.builders.records", "runtime.forks",
)
gate, failed = threading.Barrier(len(names)), []

def ask(name):
    gate.wait()
    try:
        import_module(f"bvh.{name}")
    except Exception as error:
        failed.append(repr(error))

threads = [threading.Thread(target=ask, args=(name,)) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(failed))
"""
    assert told(program) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_is_told_of_half_an_import() -> None:
    """A module that another thread has half imported stays so in the child."""
    program = """
import json, os, signal, threading
from importlib import import_module
import bvh
half, done = threading.Event(), threading.Event()

def slowly(name):
    half.set()
    done.wait()
    return import_module(name)

bvh.import_module = slowly
thread = threading.Thread(target=lambda: bvh.BVH)
thread.start()
half.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    try:
        bvh.BVH
    except RuntimeError as error:
        os._exit(7 if "ask for bvh.BVH before forking" in str(error) else 1)
done.set()
thread.join()
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""
    assert told(program) == 7


def test_pickles_find_their_classes() -> None:
    camera = bvh.Camera.look_at([0, 0, 3], [0, 0, 0], [0, 1, 0], fov_y=40, width=4, height=3)
    data = pickle.dumps(camera).hex()
    program = f"""
import json, pickle
print(json.dumps(type(pickle.loads(bytes.fromhex({data!r}))).__name__))
"""
    assert told(program) == "Camera"


def test_warmup_knows_all_recipes() -> None:
    """Those of modules that are imported late, too."""
    call = re.compile(r"^@?warms\(\"(.*?)\"\)", re.M)
    having = [path for path in PACKAGE.rglob("*.py") if call.search(path.read_text())]
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in having}
    assert names == {name for family in kernels.FAMILIES for name in family}
    texts = "".join(path.read_text() for path in having)
    assert set(jit.all_recipes()) == set(call.findall(texts))
