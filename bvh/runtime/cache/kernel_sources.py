"""The sources that machine code is made of, and hashes of them.

The hash of their syntax is not changed by comments, docstrings and the places of lines. It takes a
quarter of a second; that of their bytes takes milliseconds.
"""

import ast
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2]
# When the package was imported, or a little later.
IMPORTED = time.time()

# All files of these folders are hashed: a constant of any of them may be part of machine code.
KERNEL_FOLDERS = ("geometry", "runtime", "traversal", "tree")
# So are files elsewhere that compile kernels; all that these import for kernels is hashed, too.
_COMPILES = re.compile(
    rb"\b(?:jit|entries) import (?:\([^)]*?|[^\n(]*?)\b"
    rb"(?:by_type|entry|inlined|kernel|literal_operation|llvm_operation|stay_outlined)\b"
    rb"|\bruntime import [^\n]*\bjit\b|\bimport bvh\.runtime\.jit\b"
)
# Folders without kernels, which are not read.
WITHOUT_KERNELS = "apps", "benchmarks", "compat", "distributed", "docs", "meshes", "pictures"

# Nodes that may begin with a docstring.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def kernel_sources(package: Path, names: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the contents, by name, of all files that machine code is made of, or of `names` alone.

    Names are paths in the folder `package`, with slashes. The result is empty if the package has no
    sources, as in frozen programs, or if a file has been edited since the import, because this
    process compiles the old one.
    """
    sources: dict[str, bytes] = {}
    listed = [(name, os.path.join(package, name)) for name in names]
    for name, path in listed or sorted(_python_files(package)):
        with open(path, "rb") as file:
            content = file.read()
            if listed or name.partition("/")[0] in KERNEL_FOLDERS or _COMPILES.search(content):
                # Files from the future, by the clock of another machine, do not count as edited.
                if IMPORTED < os.fstat(file.fileno()).st_mtime <= time.time():
                    return {}
                sources[name] = content
    return sources


def _python_files(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and paths of files that may hold kernels."""
    pending = [""]
    while pending:
        above = pending.pop()
        for entry in os.scandir(package / above) if (package / above).is_dir() else ():
            name = above + entry.name
            if entry.name.endswith(".py"):
                yield name, entry.path
            elif name not in WITHOUT_KERNELS and entry.is_dir():
                pending.append(name + "/")


def _hashed(
    meaning: Callable[[bytes], bytes], sources: Mapping[str, bytes],
    surroundings: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a hash of the names of files, of meaning(content) of each, and of other texts."""
    digest = hashlib.sha256()
    for name, content in sources.items():
        digest.update(name.encode() + b"\0" + meaning(content) + b"\0")
    for part in surroundings:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:20]


def _syntax(source: bytes) -> bytes:
    """Return a text of a file's syntax tree without docstrings, or the file if it has an error."""
    # Not by `ast.dump`, which takes twice as long.
    try:
        nodes: list[Any] = [ast.parse(source)]
    except (SyntaxError, ValueError):
        return source
    parts: list[str] = []
    # Nodes are appended while the loop runs. The text has the number of values of each field, and
    # which are nodes, so that no two trees have the same text.
    for node in nodes:
        kind = type(node)
        if kind in DOCUMENTED and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        parts.append(kind.__name__)
        for field in kind._fields:
            given = getattr(node, field, None)
            values = given if isinstance(given, list) else (given,)
            parts.append(str(len(values)))
            for value in values:
                if isinstance(value, ast.AST):
                    parts.append("node")
                    nodes.append(value)
                else:
                    parts.append(repr(value))
    return "\n".join(parts).encode()


by_bytes, by_syntax = partial(_hashed, bytes), partial(_hashed, _syntax)
