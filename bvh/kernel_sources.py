"""Which sources of a package its compiled kernels are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# A module that takes only these from jit.py compiles nothing of its own.
HARMLESS = {
    "BVHWarning", "all_recipes", "cache_directory", "families", "fingerprint", "notice",
    "prune_cache", "warmup",
}  # fmt: skip

# Text that only looks like an import, in a docstring, costs nothing but a file too many. A comment
# between parentheses may hold parentheses, too.
_FROM = r"from ({package}[\w.]*) import (\((?:[^)#]|#[^\n]*)*\)|[^\n#]*)"
_PLAIN = r"import ({package}[\w.]*)"


def kernel_sources(package: Path) -> list[Path]:
    """Return the files in which kernels are written, and all that they import, sorted.

    Whatever is imported counts: a value or a helper of another module becomes part of the machine
    code. Files of neither kind (commands, pictures, readers of files) can change without making
    any kernel stale. A module that declares a named tuple counts as one of the first, because
    kernels get at its fields without importing it.
    """
    files = {_name(package, path): path for path in package.rglob("*.py")}
    # Two patterns that begin with plain text are found three times as fast as one that does not.
    name = re.escape(package.name)
    patterns = [re.compile(one.format(package=name)) for one in (_FROM, _PLAIN)]
    imported: dict[str, list[str]] = {}
    wanted: list[str] = []
    for name, path in files.items():
        text = path.read_text(encoding="utf-8")
        taken = list(_imports(patterns, text))
        imported[name] = list(_modules(taken, files))
        if "NamedTuple" in text or "namedtuple" in text or _makes_kernels(taken, package.name):
            wanted.append(name)
    # Examples in docstrings import the package itself; its modules cannot.
    found = {package.name}
    while wanted:
        name = wanted.pop()
        if name in files and name not in found:
            found.add(name)
            wanted += imported[name]
    return sorted(files[name] for name in found - {package.name})


def _name(package: Path, path: Path) -> str:
    parts = path.parts[len(package.parts) - 1 :]
    inner = parts[:-1] if path.name == "__init__.py" else (*parts[:-1], path.stem)
    return ".".join(inner)


def _imports(patterns: list[re.Pattern[str]], text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every imported module, with the names that are taken from it."""
    taken, plain = patterns
    for module, names in taken.findall(text):
        listed = re.sub(r"#[^\n]*|[()]", "", names).split(",")
        yield module, [name.split()[0] for name in listed if name.strip()]
    for module in plain.findall(text):
        yield module, []


def _makes_kernels(imports: list[tuple[str, list[str]]], package: str) -> bool:
    for module, names in imports:
        if module == f"{package}.jit" and not (names and HARMLESS.issuperset(names)):
            return True
        if module == package and "jit" in names:
            return True
    return False


def _modules(imports: list[tuple[str, list[str]]], files: dict[str, Path]) -> Iterator[str]:
    for module, names in imports:
        inside = [f"{module}.{name}" for name in names]
        yield from inside
        # `from package import module` takes nothing from the package itself.
        if not (inside and all(name in files for name in inside)):
            yield module
