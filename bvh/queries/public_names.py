"""Names in errors of public classes: of inherited methods, functions elsewhere, and options."""

from __future__ import annotations

import sys
from functools import cache, update_wrapper
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


# Functions that users look for in `BVH` and `Scene`, and what to call instead.
ELSEWHERE = {
    "load": "call bvh.load(path) for saved files, bvh.BVH.from_file(path) for meshes",
    "from_file": "call bvh.load_scene(path), or bvh.load(path) for saved files",
}

# A function that calls another one with its arguments and options. If this raises a TypeError,
# `suggest` may add to its message.
FORWARDING = """
def made_for(function, suggest):
    def forward({0}, **options):
        if options:
            try:
                return function({0}, **options)
            except TypeError as error:
                suggest(error, function, options)
                raise
        return function({0})
    return forward
"""


class PublicClass(type):
    """Metaclass of public classes; the error for an unknown attribute says what to call instead."""

    def __getattr__(cls, name: str) -> Any:
        """Raise an AttributeError, for a name in ELSEWHERE with what to call instead.

        Python calls this for unknown attributes of the class itself, not of its instances.
        """
        hint = f": {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}")


def public(kind: Kind) -> Kind:
    """Give the class `kind` copies of the public methods that it inherits, and return it.

    Errors then name the class: "BVH.any_hit() got ...", not "RayQueries.any_hit() ...". They
    suggest an option for an unknown one, as Python itself does from version 3.13.
    """
    ours = [base for base in reversed(kind.__mro__) if base.__module__.startswith("bvh.")]
    members = {name: member for base in ours for name, member in vars(base).items()}
    for name, member in members.items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        # A copy of the function is as fast as the function; an ordinary wrapper would not be.
        copy: Any = FunctionType(
            function.__code__, function.__globals__, name, function.__defaults__,
            function.__closure__,
        )  # fmt: skip
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = f"{kind.__qualname__}.{name}"
        if sys.version_info < (3, 13):
            copy = suggesting(copy)
        update_wrapper(copy, function)
        copy.__module__, copy.__qualname__ = kind.__module__, f"{kind.__qualname__}.{name}"
        setattr(kind, name, classmethod(copy) if isinstance(member, classmethod) else copy)
    return kind


def suggesting(function: FunctionType) -> FunctionType:
    """Return a function that calls `function` and suggests an option for an unknown keyword.

    The call is forwarded to a copy of `function` whose keyword-only arguments are positional. So
    Python need not look up their defaults by name, which takes longer than to forward a call
    without options. A call with options takes some 0.15 microseconds more than one of `function`.
    """
    code, options = function.__code__, function.__kwdefaults__ or {}
    count, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:total]
    if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) or len(options) < total - count:
        return function
    copy = FunctionType(
        code.replace(co_argcount=total, co_kwonlyargcount=0), function.__globals__,
        function.__name__,
        (*(function.__defaults__ or ()), *(options[name] for name in names[count:])),
        function.__closure__,
    )  # fmt: skip
    copy.__qualname__ = function.__qualname__
    forward: FunctionType = _forwarding(count)(copy, _suggest)
    own = forward.__code__
    # Tracebacks show the beginning of `function`.
    forward.__code__ = own.replace(
        co_name=code.co_name, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno,
        co_varnames=(*names[:count], *own.co_varnames[count:]),
    )  # fmt: skip
    forward.__defaults__ = function.__defaults__
    return forward


@cache
def _forwarding(count: int) -> Any:
    """Return `made_for` of FORWARDING for functions of `count` positional arguments."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(FORWARDING.format(", ".join(f"argument{i}" for i in range(count))), scope)
    return scope["made_for"]


def _suggest(error: TypeError, function: FunctionType, options: dict[str, Any]) -> None:
    """Add to the `error` of a call the name closest to the first of `options` that is unknown."""
    from difflib import get_close_matches

    known = function.__code__.co_varnames[: function.__code__.co_argcount]
    unknown = [name for name in options if name not in known]
    near = get_close_matches(unknown[0], known[1:], 1) if unknown else []
    if near:
        error.args = (f"{error}. Did you mean {near[0]!r}?",)
