"""Names of public classes in errors: of their inherited methods, and of functions elsewhere."""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


# Functions that users look for in `BVH` and `Scene`, and what to call instead.
ELSEWHERE = {
    "load": "call bvh.load(path) for saved files, bvh.BVH.from_file(path) for meshes",
    "from_file": "call bvh.load_scene(path), or bvh.load(path) for saved files",
}


class PublicClass(type):
    """Metaclass of public classes; the error for an unknown attribute says what to call instead."""

    def __getattr__(cls, name: str) -> Any:
        """Raise an AttributeError for an unknown attribute of the class; hint at ELSEWHERE."""
        hint = f": {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}")


def public(kind: Kind) -> Kind:
    """Give the class `kind` copies of the public methods that it inherits, and return it.

    Errors then name the class: "BVH.any_hit() got ...", not "RayQueries.any_hit() ...".
    """
    ours = [base for base in reversed(kind.__mro__) if base.__module__.startswith("bvh.")]
    members = {name: member for base in ours for name, member in vars(base).items()}
    for name, member in members.items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        # A copy of the function is as fast as the function; a wrapper would not be.
        copy: Any = FunctionType(
            function.__code__, function.__globals__, name, function.__defaults__,
            function.__closure__,
        )  # fmt: skip
        update_wrapper(copy, function)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__module__, copy.__qualname__ = kind.__module__, f"{kind.__qualname__}.{name}"
        setattr(kind, name, classmethod(copy) if isinstance(member, classmethod) else copy)
    return kind
