"""The header for C of linked kernels: each function, and the words that it is given, as a struct.

Nested tuples are structs, too, named by their classes; those of one class with other members have a
number. All members fill words of 8 bytes, so that a struct is what `words` says.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from numba.core import types
from numba.np import numpy_support

HEAD = """\
/* Kernels of raybvh as functions of C: made by .ci/objects.py.

   Each takes one struct: a status and an error, results, then arguments. The status is 0: only
   users' functions in Python raise errors. Arrays are in C order, and borrowed. Kernels check
   nothing: what they expect is said by the functions of the same names, without `bvh_`, in the
   modules that comments name. Of libraries there is one for each level of CPUs, with vectors of its
   width. */

#ifndef BVH_H
#define BVH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A float in a word. */
typedef struct { float value; int32_t unused; } bvh_f4;
"""
TAIL = """
#ifdef __cplusplus
}
#endif

#endif
"""
# Of the items of arrays.
ITEMS = {
    "f8": "double", "f4": "float", "i8": "int64_t", "i4": "int32_t", "i2": "int16_t",
    "i1": "int8_t", "u8": "uint64_t", "u4": "uint32_t", "u2": "uint16_t", "u1": "uint8_t",
    "b1": "uint8_t",
}  # fmt: skip
# Of numbers; others fill a word.
NUMBERS = {"f8": "double", "f4": "bvh_f4", "u8": "uint64_t"}


class Header:
    """The text of a header, as it is written."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._named: dict[str, list[str]] = {}

    def named(self, name: str, text: str) -> str:
        """Return the name of a struct with these members; the first declares it."""
        known = self._named.setdefault(name, [])
        if text not in known:
            known.append(text)
        number = known.index(text) + 1
        full = f"{name}_{number}" if number > 1 else name
        declaration = f"\ntypedef struct {{\n{text}}} {full};\n"
        if declaration not in self.parts:
            self.parts.append(declaration)
        return full

    def members(self, pairs: Iterable[tuple[str, Any]]) -> str:
        """Return the members of a struct for arguments or fields of some types."""
        return "".join(f"    {line};\n" for pair in pairs for line in self._member(*pair))

    def _member(self, name: str, kind: Any) -> Iterator[str]:
        if isinstance(kind, types.BaseTuple) and len(kind):
            yield f"{self._tuple(kind)} {name}" + self._times(kind)
        elif isinstance(kind, types.Array):
            yield f"{self._array(kind)} {name}"
        elif isinstance(kind, types.Number | types.Boolean):
            code = numpy_support.as_dtype(kind).str[1:]
            yield f"{NUMBERS.get(code, 'int64_t')} {name}"

    def _times(self, kind: Any) -> str:
        return f"[{len(kind)}]" if isinstance(kind, types.UniTuple) else ""

    def _tuple(self, kind: Any) -> str:
        if isinstance(kind, types.UniTuple):
            [member] = self._member("", kind.dtype)
            return member.strip()
        given = getattr(kind, "instance_class", None)
        names = given._fields if given else [f"_{i}" for i in range(len(kind))]
        text = self.members(zip(names, kind, strict=True))
        return self.named("bvh_" + (given.__name__ if given else "Tuple"), text)

    def _array(self, kind: Any) -> str:
        code = numpy_support.as_dtype(kind.dtype).str[1:]
        text = f"    {ITEMS[code]} *data;\n    int64_t shape[{kind.ndim}];\n"
        strides = "" if kind.layout == "C" else f"    int64_t strides[{kind.ndim}];\n"
        return self.named(f"bvh_{code}_{kind.ndim}d" + "_strided" * bool(strides), text + strides)


def header(kernels: Iterable[tuple[str, Any]]) -> str:
    """Return the header for kernels: their names in C, and what `objects.Function` says of each."""
    text, place = Header(), ""
    for symbol, kernel in kernels:
        if kernel.module != place:
            place = kernel.module
            text.parts.append(f"\n/* {place} */\n")
        names = inspect.signature(getattr(import_module(place), kernel.entry).py_func).parameters
        words = "    int64_t kernel_status, kernel_error;\n"
        for i, structure in enumerate(kernel.results):
            words += f"    {NUMBERS.get(structure, 'int64_t')} result_{i};\n"
        words += text.members(zip(names, kernel.kinds, strict=True))
        struct = text.named(f"{symbol}_words", words)
        text.parts.append(f"void {symbol}({struct} *words);\n")
    return HEAD + "".join(text.parts) + TAIL
