"""What compiled kernels are known by: hashes of all that their machine code depends on.

The fingerprint is a hash of the sources' syntax: comments, docstrings and the places of lines do
not change it. It takes a quarter of a second, so folders of kernels also have the exact
fingerprint, a hash of the sources' bytes, which takes milliseconds.
"""

import ast
import hashlib
import importlib.machinery
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bvh.runtime.compiler.cpu_levels import NATIVE, chosen_target, natural_width, parsed
from bvh.runtime.compiler.deferred import activate

PACKAGE = Path(__file__).parents[2]
# When the package was imported, or a little later.
IMPORTED = time.time()

# All files of these folders are hashed: a constant of any of them may be part of machine code.
KERNEL_FOLDERS = ("geometry", "runtime", "traversal", "tree")
# So is a file elsewhere that compiles kernels; all that these import for kernels is hashed, too.
_COMPILES = re.compile(
    rb"\bjit import (?:\([^)]*?|[^\n(]*?)\b"
    rb"(?:by_type|entry|inlined|kernel|literal_operation|llvm_operation|stay_outlined)\b"
    rb"|\bruntime import [^\n]*\bjit\b|\bimport bvh\.runtime\.jit\b"
)
# Nor is there a kernel in these, which therefore need not be read.
WITHOUT_KERNELS = (
    "apps", "benchmarks", "compat", "distributed", "docs", "examples", "meshes", "pictures",
)  # fmt: skip

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def kernel_sources(package: Path) -> dict[str, bytes]:
    """Return the contents of all files that machine code is made of, by their names."""
    # None, if the package has no sources, as in frozen programs, or if one has been edited since
    # the import: then it is not what this process compiles.
    sources: dict[str, bytes] = {}
    for name, path in sorted(_python_files(package)):
        with open(path, "rb") as file:
            content = file.read()
            if name.partition("/")[0] in KERNEL_FOLDERS or _COMPILES.search(content):
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


def exact_fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' bytes, and of what else `fingerprint` depends on."""
    return _hashed(sources, lambda content: content)


def fingerprint(sources: Mapping[str, bytes]) -> str:
    """Return a hash of the sources' syntax, of versions and settings, and of the level of CPUs."""
    return _hashed(sources, _syntax)


def _hashed(sources: Mapping[str, bytes], meaning: Callable[[bytes], bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sources.items():
        digest.update(name.encode() + b"\0" + meaning(content) + b"\0")
    for part in _surroundings():
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:20]


def _syntax(source: bytes) -> bytes:
    """Return a text of a file's syntax tree without docstrings, or the file if it has an error."""
    try:
        nodes: list[Any] = [ast.parse(source)]
    except (SyntaxError, ValueError):
        return source
    parts: list[str] = []
    # Level by level. Each field says whether it is a node, so that no two trees have the same text.
    for node in nodes:
        kind = type(node)
        if kind in DOCUMENTED and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        parts.append(kind.__name__)
        for field in kind._fields:
            values = getattr(node, field, None)
            if isinstance(values, list):
                parts.append(f"{len(values)} values")
            else:
                values = (values,)
            for value in values:
                if isinstance(value, ast.AST):
                    parts.append("node")
                    nodes.append(value)
                else:
                    parts.append(repr(value))
    return "\n".join(parts).encode()


def _surroundings() -> tuple[str, ...]:
    activate()
    import llvmlite
    import numba
    from numba.core import config

    from bvh.runtime.compiler.code_generator import target

    versions = numba.__version__, llvmlite.__version__, np.__version__.split(".")[0]
    # Implementation, version and build of Python; the system's kind, machine and C library.
    kind = importlib.machinery.EXTENSION_SUFFIXES[0], sys.platform, platform.machine()
    cpu = target()
    cpus = [cpu.level]
    if cpu.level == NATIVE:
        features = parsed(cpu.features)
        cpus += [cpu.cpu, *sorted(filter(features.get, features))]
    # SVML is a library that vectorized mathematics may call, where it is installed.
    names = ("BOUNDSCHECK", "DEBUGINFO", "OPT", "USING_SVML")
    settings = [f"{name}={getattr(config, name, '')}" for name in names]
    settings.append(f"width={natural_width(parsed(chosen_target().features))}")
    return *versions, *kind, *cpus, *settings
