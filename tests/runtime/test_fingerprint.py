"""The fingerprint of kernels covers every file that their machine code is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bvh
from bvh.runtime import jit
from bvh.runtime.cache import fingerprint as kernel_sources
from bvh.runtime.cache.fingerprint import WITHOUT_KERNELS, fingerprint

PACKAGE = Path(bvh.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
HASHED = set(kernel_sources.kernel_sources(PACKAGE))

# Functions of jit.py that compile or write machine code, whatever they are imported as.
COMPILERS = {
    "address_of", "alone", "by_type", "entry", "inlined", "kernel", "literal_operation",
    "llvm_operation", "overload", "stay_outlined",
}  # fmt: skip


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module_name(path): path for path in FILES}
JIT = jit.__name__


def _imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield (module, name taken from it or "", name here) of each import statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.name, "", one.asname or one.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            for one in node.names:
                yield node.module or "", one.name, one.asname or one.name


def _compiles(tree: ast.AST) -> bool:
    """Return whether a file uses a compiler of jit.py or Numba's own."""
    known: set[str] = set()
    for module, taken, name in _imports(tree):
        if module == JIT and taken in COMPILERS:
            return True
        if JIT in (module, f"{module}.{taken}"):
            known.add(name)
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in COMPILERS
        and ast.unparse(node.value) in known
        for node in ast.walk(tree)
    )


def _imported_when_loaded(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a file imports outside functions and `if TYPE_CHECKING`."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module, taken, _ in _imports(node):
                inner = f"{module}.{taken}"
                yield inner if inner in MODULES else module
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_kernel_is_hashed(name: str) -> None:
    """Values of imported modules become machine code, so these are hashed, too."""
    path = MODULES[name]
    tree = ast.parse(path.read_text())
    if _compiles(tree):
        assert path in HASHED
    if path in HASHED:
        for module in _imported_when_loaded(tree):
            # The package itself exports lazily and has no values.
            if module in MODULES and module != "bvh":
                assert MODULES[module] in HASHED, module


def test_what_compiles_is_recognised() -> None:
    """Whatever form the import has."""
    for text in (
        f"from {JIT} import entry as e, warms",
        f"import {JIT} as j\n@j.kernel\ndef f(): pass",
        f"from {JIT.rpartition('.')[0]} import jit\n@jit.inlined\ndef f(): pass",
        f"import {JIT}\n{JIT}.by_type(1)",
    ):
        assert _compiles(ast.parse(text)), text
    assert not _compiles(ast.parse(f"from {JIT} import warms\nkernel = 1"))
    assert _compiles(ast.parse((PACKAGE / "queries" / "hierarchy.py").read_text()))


def test_compiled_functions_come_from_hashed_files() -> None:
    """What has been imported, as it is in memory."""
    jit.all_recipes()
    import sys

    for name, module in list(sys.modules.items()):
        if name in MODULES:
            for thing in vars(module).values():
                if isinstance(thing, jit.Dispatcher) and thing.__module__.startswith("bvh."):
                    path = MODULES[thing.__module__]
                    assert path in HASHED or path.parent.name == "examples", thing


def test_what_is_left_out_exists() -> None:
    assert all((PACKAGE / name).exists() for name in WITHOUT_KERNELS)
    assert PACKAGE / "commands" / "cli.py" not in HASHED


def test_an_edit_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file in any folder that is not left out."""
    root = tmp_path / "bvh"
    monkeypatch.setattr(kernel_sources, "PACKAGE", root)
    seen = set()
    for name in ("new.py", "new/__init__.py", "new/deep/file.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        for text in ("A = 1\n", "A = 2\n"):
            (root / name).write_text(text)
            kernel_sources.kernel_sources.cache_clear()
            seen.add(fingerprint.__wrapped__())
    assert len(seen) == 6
    for name in ("new/text.md", "pictures/picture.py", "__main__.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("A = 1\n")
        kernel_sources.kernel_sources.cache_clear()
        seen.add(fingerprint.__wrapped__())
    assert len(seen) == 6
    kernel_sources.kernel_sources.cache_clear()
