"""Functions of upper folders for lower ones, enrolled by name; optional libraries.

Both are imported at their first use. The package enrols names when it is imported, so that nothing
else is imported here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_homes: dict[str, tuple[str, str]] = {}


def enrol(task: str, module: str, name: str) -> None:
    """Have a function of a module do a task for lower folders."""
    _homes[task] = module, name


def enrolled(task: str) -> Any:
    """Return the function that does a task; the first call imports its module."""
    module, name = _homes[task]
    return getattr(import_module(module), name)


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Have an ImportError of the library that a purpose needs name the extra to install."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{purpose}: pip install "raybvh[{name}]"') from error
