"""Top-level statements of the package that are part of kernels, found by their names.

A kernel consists of the function that is compiled, and of all that it names, and that these name:
functions, constants, and what constants were computed by. Names are followed through imports, also
through `import module`, whose attributes are then all taken. Annotations are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cases.parsed_files import nodes_of

# Functions of jit.py that make machine code, whatever they are imported as. What `alone` compiles
# is called by its address, and part of no kernel that is stored.
COMPILERS = {
    "by_type", "entry", "inlined", "kernel", "literal_operation", "llvm_operation",
    "stay_outlined",
}  # fmt: skip


@dataclass(eq=False)
class Statement:
    """A statement at the top level of a module."""

    module: str
    node: ast.stmt
    uses: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    # Module and name that a local name is imported from.
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)


def module_name(path: Path, package: Path) -> str:
    """Return the dotted name of a file of a package."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, but no annotations of functions."""
    pending = [node]
    while pending:
        part = pending.pop()
        yield part
        # Much faster than `ast.iter_child_nodes`.
        for name, value in vars(part).items():
            if name == "returns" or (name == "annotation" and isinstance(part, ast.arg)):
                continue
            for child in value if type(value) is list else (value,):
                if isinstance(child, ast.AST):
                    pending.append(child)


def statements(module: str, path: Path) -> Iterator[Statement]:
    """Yield the statements of a module, without annotations and what only type checkers read."""
    parsed = nodes_of(path)[0]
    assert isinstance(parsed, ast.Module)
    for node in parsed.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        found = Statement(module, node)
        for part in without_annotations(node):
            if isinstance(part, ast.Name):
                (found.uses if isinstance(part.ctx, ast.Load) else found.binds).add(part.id)
            elif isinstance(part, ast.Import):
                for one in part.names:
                    name = one.asname or one.name.partition(".")[0]
                    found.imports[name] = (one.name, "")
            elif isinstance(part, ast.ImportFrom):
                for one in part.names:
                    found.imports[one.asname or one.name] = (part.module or "", one.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # Names inside are its own.
            found.binds = {node.name}
        yield found


class Package:
    """The statements of all modules, and what they name."""

    def __init__(self, package: Path) -> None:
        self.paths = {module_name(path, package): path for path in package.rglob("*.py")}
        self.jit = f"{package.name}.runtime.jit"
        self.modules = {name: list(statements(name, path)) for name, path in self.paths.items()}

    def compiles(self, statement: Statement) -> bool:
        """Return whether a statement uses a compiler of jit.py."""
        for name in statement.uses:
            for module, taken in self._imported(statement.module, name):
                if module == self.jit and taken in COMPILERS:
                    return True
                if self.jit in (module, f"{module}.{taken}") and any(
                    isinstance(part, ast.Attribute)
                    and part.attr in COMPILERS
                    and ast.unparse(part.value).split(".")[0] == name
                    for part in ast.walk(statement.node)
                ):
                    return True
        return False

    def _imported(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        for statement in self.modules[module]:
            if name in statement.imports:
                yield statement.imports[name]

    def kernels(self) -> list[Statement]:
        """Return all statements that compile something."""
        return [one for module in self.modules.values() for one in module if self.compiles(one)]

    def parts_of_kernels(self) -> dict[Statement, Statement | None]:
        """Return all statements that are part of kernels, each with one that names it."""
        found: dict[Statement, Statement | None] = dict.fromkeys(self.kernels())
        pending = list(found)
        while pending:
            one = pending.pop()
            named = [s for name in one.uses for s in self._named(one.module, name)]
            named += [s for where in one.imports.values() for s in self._taken(*where)]
            for other in named:
                if other not in found:
                    found[other] = one
                    pending.append(other)
        return found

    def _named(self, module: str, name: str) -> Iterator[Statement]:
        """Yield the statements that give a name of a module its value."""
        for statement in self.modules[module]:
            if name in statement.binds:
                yield statement
            elif name in statement.imports:
                yield from self._taken(*statement.imports[name])

    def _taken(self, module: str, name: str) -> Iterator[Statement]:
        """Yield what an import takes: one name, or all of a module."""
        if name and f"{module}.{name}" in self.modules:
            module, name = f"{module}.{name}", ""
        # The package itself exports lazily and has no values.
        if module in self.modules and "." in module:
            if name:
                yield from self._named(module, name)
            else:
                yield from (one for one in self.modules[module] if not one.imports)
