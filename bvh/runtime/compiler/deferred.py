"""Functions that Numba makes when they are first needed, so that imports do without it.

*Activation* imports Numba, and registers with it all that it needs to compile a kernel. It is done
once, by the first thread that needs it.
"""

import sys
from collections import deque
from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from types import MethodType
from typing import Any

from bvh.runtime import forks
from bvh.runtime.interrupts import deferred_interrupts

Function = Callable[..., Any]

# Registrations with Numba, in order.
_pending: deque[Callable[[], object]] = deque()
_begun = _done = False


def at_activation(register: Callable[[], object]) -> None:
    """Call a function when Numba is activated, or now if that has been done."""
    _pending.append(register)
    if _done:
        _register_pending()


def activate() -> None:
    """Import Numba and register with it; other threads wait until that is done."""
    global _begun, _done
    if _done:
        return
    # A module that is imported meanwhile may call this, too, which returns at once.
    with forks.activation._lock, deferred_interrupts():
        if _begun:
            return
        _begun = True
        try:
            # Imported as a whole before its parts, so that threads may import these.
            import numba  # noqa: F401

            forks.guard_compiler()
            _register_pending()
            _done = True
        finally:
            _begun = _done
    # Registrations that other threads have added meanwhile.
    _register_pending()


def _register_pending() -> None:
    """Make all registrations that are pending."""
    while _pending:
        # Another thread may have taken the last one.
        try:
            register = _pending.popleft()
        except IndexError:
            return
        try:
            register()
        except BaseException:
            if not _done:
                # The next activation tries it again.
                _pending.appendleft(register)
            raise


class Deferred:
    """Stands for a compiled function or an intrinsic, in Python and in compiled functions."""

    _real: Any = None
    _type: Any = None

    def __init__(self, function: Function, make: Callable[[Function], Any]) -> None:
        """Stand for make(function), which is called when it is first needed."""
        update_wrapper(self, function)
        self.py_func: Any = function
        self._make: Any = make

    @property
    def real(self) -> Any:
        """The function or intrinsic; the first use makes it."""
        if self._real is None:
            activate()
            # If two threads make it at the same time, both use the one that is stored first.
            self._real = self.__dict__.setdefault("_made", self._make(self.py_func))
        return self._real

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of the function, for functions that use this object."""
        if self._type is None:
            self._type = numba_type_of(self.real)
        return self._type

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.real(*args, **kwargs)

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        # Bind as a function does; `help` recognises functions by this method.
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        # Python and its modules look for special names; these must not import Numba.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)

    def __reduce__(self) -> Any:
        # Pickled by its name if its module has it under this name, else as what it stands for.
        home = vars(sys.modules.get(self.__module__, object))
        named = home.get(self.__qualname__) is self
        return self.__qualname__ if named else self.real.__reduce__()

    def __deepcopy__(self, memo: object) -> "Deferred":
        # Numba copies functions with all that they refer to.
        return self

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__qualname__}, compiled when it is needed>"


def numba_type_of(value: object) -> Any:
    """Return Numba's type of a function or other constant in compiled functions."""
    from numba.core.registry import cpu_target

    typing = cpu_target.typing_context
    try:
        return typing.resolve_value_type(value)
    except ValueError:
        # The operation was registered after Numba last looked for new ones.
        cpu_target.target_context.refresh()
        return typing.resolve_value_type(value)


def real_of(value: Any) -> Any:
    """Return what a `Deferred` stands for, or any other value as it is."""
    return real_of(value.real) if isinstance(value, Deferred) else value


class Named(Deferred):
    """Stands for a name of a module that is imported with Numba."""

    def __init__(self, module: str, name: str) -> None:
        # As `Deferred.__init__` does, but without a Python function to take the names from.
        self.__module__, self.__name__, self.__qualname__ = module, name, name
        self._make = lambda _: real_of(getattr(import_module(module), name))
        self.py_func = None


def names_of(module: str, names: str) -> dict[str, Named]:
    """Return a `Named` for each of `names`, split by spaces, of a module imported with Numba."""
    at_activation(lambda: import_module(module))
    return {name: Named(module, name) for name in names.split()}
