"""Functions of upper folders for lower ones, enrolled by name; optional libraries.

Both are imported at their first use. `bvh/__init__.py` enrols the names, so that this file imports
nothing of the package.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_homes: dict[str, tuple[str, str]] = {}


def enrol(task: str, module: str, name: str) -> None:
    """Register the object `name` of a module for a task, by which lower folders find it."""
    _homes[task] = module, name


def enrolled(task: str) -> Any:
    """Return the object enrolled for a task, mostly a function; import its module if needed."""
    module, name = _homes[task]
    return getattr(import_module(module), name)


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Raise an ImportError in the block again with a message that says what to install.

    `name` is the extra of this package, and `purpose` the beginning of the message.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{purpose}: pip install "raybvh[{name}]"') from error
