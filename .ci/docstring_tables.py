"""Tables of parameters in the reference: types as they are written, defaults of the signature."""

from __future__ import annotations

import inspect
import re
from pydoc import locate
from typing import Any

import griffe

# A line of a section: names and their type.
ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) : (?P<type>\S.*)$")


class DocstringTables(griffe.Extension):
    """Griffe misreads "a, b : {"x", "y"}, optional".

    It gives all names the default and the type of the first, takes the first of a set of values as
    the default, and writes shapes as calls.
    """

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Mend the tables of all that has a docstring."""
        _mend(pkg)
        # A method that only raises an error naming the constructors is none.
        pkg["queries.tree_base.TreeBase"].del_member("__init__")


def _mend(thing: griffe.Object) -> None:
    """Mend the tables of a module, class or function, and of what is in it."""
    if thing.docstring is not None:
        written = _types_in(thing.docstring.value)
        for section in thing.docstring.parsed:
            for entry in section.value if isinstance(section.value, list) else ():
                kind = written.get(getattr(entry, "name", "").lstrip("*"))
                if kind is not None:
                    entry.annotation = kind
                if isinstance(entry, griffe.DocstringParameter):
                    entry.value = _default_of(thing, entry.name.lstrip("*"))
    for member in thing.members.values():
        if not member.is_alias:
            _mend(member)  # type: ignore[arg-type]


def _types_in(text: str) -> dict[str, str]:
    """Return the types of names as a docstring has them; "optional" is told by a default."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        entry = ENTRY.match(line)
        for name in entry["names"].split(", ") if entry else ():
            found.setdefault(name.lstrip("*"), entry["type"].removesuffix(", optional"))  # type: ignore[index]
    return found


def _default_of(thing: griffe.Object, name: str) -> str | None:
    """Return the default of a parameter; None where it must be given."""
    try:
        parameter = inspect.signature(locate(thing.path)).parameters[name]  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        return None
    if parameter.kind is parameter.VAR_KEYWORD:
        return "{}"
    return None if parameter.default is parameter.empty else repr(parameter.default)
