"""What lower folders use of upper ones: enrolled by name, imported at its first use.

The package enrols it when it is imported itself, so nothing else is imported here.
"""

from importlib import import_module
from typing import Any

_homes: dict[str, tuple[str, str]] = {}


def enrol(task: str, module: str, name: str) -> None:
    """Have what a module defines, such as a function, do a task for lower folders."""
    _homes[task] = module, name


def enrolled(task: str) -> Any:
    """Return what does a task; the first call imports its module."""
    module, name = _homes[task]
    return getattr(import_module(module), name)
