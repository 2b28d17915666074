"""Methods of public classes, named in errors by the class that users know, not by a base class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import update_wrapper, wraps
from inspect import signature
from types import FunctionType
from typing import Any, TypeVar

from bvh.queries.verbs import verb_of

Kind = TypeVar("Kind", bound=type)


# What is asked of a class, and is elsewhere.
ELSEWHERE = {
    "load": "call bvh.load(path) for what save has written, bvh.BVH.from_file(path) for meshes",
    "from_file": "call bvh.load_scene(path), or bvh.load(path) for what save has written",
}


class PublicClass(type):
    """The class of public classes: their errors tell where else a function is."""

    def __getattr__(cls, name: str) -> Any:
        """Raise an AttributeError; called for unknown attributes of the class alone."""
        hint = f": {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}")


def public(kind: Kind) -> Kind:
    """Name what a class inherits by the class; have an unknown keyword name the one that is meant.

    Python names it itself from 3.13 on. Before, queries do not, as calls would take 0.2 us longer.
    """
    ours = [base for base in reversed(kind.__mro__) if base.__module__.startswith("bvh.")]
    members = {name: member for base in ours for name, member in vars(base).items()}
    for name, member in members.items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        method: Any = _renamed(function, kind)
        if sys.version_info < (3, 13) and verb_of(function) is None:
            method = _suggesting(method)
        setattr(kind, name, classmethod(method) if isinstance(member, classmethod) else method)
    return kind


def _renamed(function: FunctionType, kind: type) -> FunctionType:
    """Return a copy of a function, which is as fast, as a method of a class."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = kind.__module__, f"{kind.__qualname__}.{copy.__name__}"
    return copy


def _suggesting(function: FunctionType) -> Callable[..., Any]:
    """Return a function that says which keyword may be meant by an unknown one."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as error:
            frames = error.__traceback__
            # Of a call that never began.
            if frames is not None and frames.tb_next is None:
                known = list(signature(function).parameters)
                unknown = [name for name in options if name not in known]
                close = get_close_matches(unknown[0], known, 1) if unknown else []
                if close:
                    raise TypeError(f"{error}. Did you mean {close[0]!r}?") from None
            raise

    return call
