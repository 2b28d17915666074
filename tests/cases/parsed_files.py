"""Python files, each parsed once by a process, though several tests read all of them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the module of a file and all nodes below it, in no order."""
    found: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    # Much faster than `ast.walk`.
    for node in found:
        for value in vars(node).values():
            for child in value if type(value) is list else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                    found.append(child)
    return found
