"""Modules of meshes and benchmarks: inside the package, or next to it in a clone."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import bvh


def bundled(name: str) -> ModuleType:
    """Return a module such as "meshes.organic"."""
    top = name.partition(".")[0]
    if find_spec(f"bvh.{top}") is not None:
        return import_module(f"bvh.{name}")
    folder = Path(bvh.__file__).resolve().parents[1] / top
    found = find_spec(top)
    # Another installed package may have this name.
    if found is None or not found.origin or Path(found.origin).resolve().parent != folder:
        raise ImportError(f"the {top} are not installed; there is no importable {folder}")
    return import_module(name)
