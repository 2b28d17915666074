"""The exact nearest hit of a ray on triangle meshes and boxes, and the nearest point."""

import os
from importlib import import_module
from importlib.machinery import ModuleSpec
from threading import RLock
from typing import Any

# Records the working directory at import.
from bvh.runtime.cache import plain_files as plain_files
from bvh.runtime.registry import enrol

__version__ = "0.2.0"


def _modules_of(package: ModuleSpec) -> dict[str, str]:
    """Return the module of each public name of a package, as its stub file lists them.

    The stub, `__init__.pyi` in the package's folder, has a line for each name:
    ``from module import name as name``.
    """
    # By the loader, because the package may be in a zip file.
    loader: Any = package.loader
    stub = loader.get_data(os.path.join(os.path.dirname(str(package.origin)), "__init__.pyi"))
    lines = (line.split() for line in stub.decode().splitlines() if line.startswith("from bvh."))
    return {name: module for _, module, _, _, _, name in lines}


# The module of each public name: it is imported when the name is first used.
_MODULES = _modules_of(__spec__)

__all__ = sorted(_MODULES)

# Functions of upper folders that lower ones call; each is imported at its first use.
enrol("modules of kernels", f"{__name__}.kernels", "FAMILIES")
enrol("queries of lazy arrays", f"{__name__}.distributed.lazy_queries", "answer")
enrol("queries of other arrays", f"{__name__}.queries.answers.other_libraries", "answer")
enrol("trees on devices", f"{__name__}.devices.trees", "on_device")
enrol("rays of cameras on devices", f"{__name__}.devices.camera_rays", "camera_rays")
enrol("picks in trees", f"{__name__}.picking.cursor", "pick_in_tree")
enrol("selections in trees", f"{__name__}.picking.marquee", "select_in_tree")
enrol("distances of round trees", f"{__name__}.scene.solids.round_trees", "distances")
enrol("contacts of round trees", f"{__name__}.scene.solids.round_trees", "contacts")
enrol("relations of round trees", f"{__name__}.scene.solids.round_relations", "relations")
enrol("contacts of round leaves", f"{__name__}.scene.solids.round_trees", "leaf_contacts")
enrol("files of scenes", f"{__name__}.scene.files.saved_scenes", "save_scene")

# Threads import in turn, as they would at `import bvh`, so that a fork detects an import in another
# thread. No module of the package reads a public name of `bvh` while it is imported: two threads
# that took this lock and the module's own in opposite orders would wait forever.
_import_lock = RLock()

# Whether this process was forked from a thread while another held the import lock.
_import_interrupted = False


def _renew_import_lock() -> None:
    """Replace the lock of imports in a forked child, where no other thread can release it."""
    global _import_lock, _import_interrupted
    # If another thread of the parent held the lock, its import stays unfinished in this child, and
    # `__getattr__` raises. The parent cannot wait for that import before it forks: the modules
    # register callbacks of forks meanwhile, and this fork would call only some of these.
    if not _import_lock.acquire(blocking=False):
        _import_interrupted = True
    _import_lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_import_lock)


def __getattr__(name: str) -> Any:
    """Import and return a public name, or a module of the package, when it is first used."""
    if name in _MODULES:
        if _import_interrupted:
            raise RuntimeError(
                "this process was forked while another thread imported parts of bvh, which stay "
                f"half imported: ask for bvh.{name} before forking, or start processes with the "
                "method 'spawn'"
            )
        with _import_lock:
            member = getattr(import_module(_MODULES[name]), name)
        globals()[name] = member
        return member
    if not name.startswith("_"):
        module = f"{__name__}.{name}"
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            # The module exists, but something that it imports does not.
            if error.name != module:
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, the version and the module `kernels`, and no others."""
    return sorted([*__all__, "__version__", "kernels"])
