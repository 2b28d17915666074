"""What comes with the package: the contract, as text; modules of meshes and benchmarks."""

from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import bvh


def bundled(name: str) -> ModuleType:
    """Import a module such as "meshes.organic" from the package, or from next to it in a clone."""
    top = name.partition(".")[0]
    if find_spec(f"bvh.{top}") is not None:
        return import_module(f"bvh.{name}")
    folder = Path(bvh.__file__).resolve().parents[1] / top
    found = find_spec(top)
    # Another installed package may have this name; it is not ours.
    if found is None or not found.origin or Path(found.origin).resolve().parent != folder:
        raise ImportError(f"the {top} are not installed; there is no importable {folder}")
    return import_module(name)


def guide() -> str:
    """Return the contract of the package on one page: shapes, units, misses, errors, calls.

    The page is meant for programs that write programs; it is Markdown, and a page of the
    documentation, too.

    Returns
    -------
    str

    Examples
    --------
    >>> import bvh
    >>> bvh.guide().splitlines()[0]
    '# The contract, on one page'
    """
    return files("bvh").joinpath("docs", "contract.md").read_text("utf-8")
