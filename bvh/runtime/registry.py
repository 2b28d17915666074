"""Functions of upper folders that lower ones call: enrolled by name, imported at their first use.

The package enrols them when it is imported, so nothing else is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_homes: dict[str, tuple[str, str]] = {}


def enrol(task: str, module: str, function: str) -> None:
    """Have a function of a module do a task; the module is imported when it is first wanted."""
    _homes[task] = module, function


def enrolled(task: str) -> Callable[..., Any]:
    """Return the function that does a task."""
    module, function = _homes[task]
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
