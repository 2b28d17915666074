"""Object files of all kernels, for a level of CPUs and any system: what `.ci/link` links.

    python .ci/objects.py LEVEL FOLDER TRIPLE...

All recipes are run to see which kernels there are, for which arguments. The code of each, optimised
as it is when it is called, becomes one function of a module; helpers that several kernels have are
in it once. FOLDER is given one object for each triple, `LEVEL-TRIPLE.o`, the code that they are
made of, `LEVEL.bc`, the manifest `LEVEL.json`, which says what `linked` must know of the functions,
and the header for C, `bvh.h`.

BVH_WIDTH sets another width of vectors than the level's. Of a level that this machine does not
have, kernels are compiled twice: here as usual, to be run, and for it; which there are does not
depend on the width.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite.binding import newpassmanagers as passes

from bvh.runtime.compiler.cpu_levels import LEVELS, host_levels

# How Numba counts references to arrays, which kernels that are given words do not own.
UNCOUNTED = """
define linkonce_odr void @NRT_incref(ptr) alwaysinline { ret void }
define linkonce_odr void @NRT_decref(ptr) alwaysinline { ret void }
"""


class Function(NamedTuple):
    """A function of the library; lists of them are stored as plain tuples."""

    module: str
    entry: str  # name in its module; of a method, as `method_name` has it
    kinds: Any  # types of a kernel's arguments; None for a method
    structure: str  # of these arguments
    results: tuple[str, ...]  # structures
    in_tuple: bool
    name: str  # in its code
    code: bytes  # LLVM's, optimised


def main() -> None:
    """Write objects, manifest and header, in processes with the settings of the level."""
    if sys.argv[1] in STEPS:
        STEPS[sys.argv[1]](*sys.argv[2:])
        return
    level, folder, *triples = sys.argv[1:]
    width = os.environ.get("BVH_WIDTH") or str(LEVELS[level].width)
    out, settings = Path(folder), {"BVH_WIDTH": width, "BVH_KERNELS": "off"}
    out.mkdir(parents=True, exist_ok=True)
    functions = out / f"{level}.pickle"
    own = level in host_levels()
    _run("recipes", functions, settings | {"BVH_CPU": level} if own else {"BVH_KERNELS": "off"})
    if not own:
        _run("again", functions, settings | {"BVH_CACHE_DIR": "off"}, level)
    _run("write", functions, settings, level, folder, *triples)
    functions.unlink()


def _run(step: str, functions: Path, settings: dict[str, str], *arguments: str) -> None:
    """Take a step in a process of its own, as it has other settings."""
    clean = {name: value for name, value in os.environ.items() if name != "BVH_CPU"}
    clean["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, __file__, step, str(functions), *arguments]
    subprocess.run(command, env=clean | settings, check=True)


def run_recipes(path: str) -> None:
    """Compile all kernels for this machine, or load them; write a list of `Function`."""
    from bvh.runtime.jit import warmup

    warmup()
    Path(path).write_bytes(pickle.dumps([*map(tuple, _functions())]))


def compile_again(path: str, level: str) -> None:
    """Compile the functions of a list for another level, and write them in their place."""
    from foreign_targets import compile_for

    compile_for(level)
    from numba import types

    from bvh.runtime.calls.python_calls import ARGUMENTS
    from bvh.runtime.calls.words import kernel_of_words

    made = []
    for function in _read(path):
        module = import_module(function.module)
        if function.kinds is None:
            found = dict(_methods(module))[function.entry]
            found.compile((types.int64,) * ARGUMENTS)
        else:
            found = kernel_of_words(getattr(module, function.entry).py_func, function.kinds)
            found.compile((types.int64,))
        made.append(function._replace(**_code_of(found)))
    Path(path).write_bytes(pickle.dumps([*map(tuple, made)]))


def _read(path: str) -> list[Function]:
    return [Function(*fields) for fields in pickle.loads(Path(path).read_bytes())]


def _functions() -> Iterator[Function]:
    """Yield the functions of all kernels and methods that have been compiled."""
    from bvh.runtime.calls.entries import Entry

    for module in [m for name, m in sorted(sys.modules.items()) if name.startswith("bvh.")]:
        place = module.__name__
        for name, entry in sorted(vars(module).items()):
            if isinstance(entry, Entry) and entry.__module__ == place:
                for kernel in sorted(entry.specialisations, key=lambda kernel: kernel.structure):
                    compiled: Any = kernel.compiled
                    yield Function(
                        place, name, compiled._cache._kinds, kernel.structure, kernel.results,
                        kernel.in_tuple, **_code_of(compiled),
                    )  # fmt: skip
        for name, method in _methods(module):
            if method.overloads:
                yield Function(place, name, None, "", (), False, **_code_of(method))


def _methods(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a module, and those in its dictionaries, with their names."""
    from bvh.runtime.calls.linked import method_name
    from bvh.runtime.compiler.deferred import Deferred
    from bvh.runtime.compiler.kernel_cache import KernelCache

    for value in vars(module).values():
        for method in value.values() if isinstance(value, dict) else (value,):
            if isinstance(method, Deferred) and method.__module__ == module.__name__:
                if isinstance(getattr(method.real, "_cache", None), KernelCache):
                    yield method_name(method.py_func), method


def _code_of(compiled: Any) -> dict[str, Any]:
    [result] = compiled.overloads.values()
    code = result.library._get_module_for_linking().as_bitcode()
    return {"name": result.fndesc.llvm_cfunc_wrapper_name, "code": code}


def write(path: str, level: str, folder: str, *triples: str) -> None:
    """Write the objects, the manifest and the header of a list of functions."""
    from c_header import header

    functions = _read(path)
    symbols = _symbols(functions)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    code = _merged(functions, symbols, level).as_bitcode()
    out = Path(folder)
    (out / f"{level}.bc").write_bytes(code)
    for triple in triples:
        (out / f"{level}-{triple}.o").write_bytes(_emitted(code, symbols, level, triple))
    manifest = json.dumps(_manifest(functions, symbols, level), indent=1)
    (out / f"{level}.json").write_text(manifest + "\n")
    kernels = [(symbol, f) for symbol, f in zip(symbols, functions, strict=True) if f.kinds]
    (out / "bvh.h").write_text(header(kernels))


def _symbols(functions: list[Function]) -> list[str]:
    """Return the names of the functions in C: of entries, with the classes that tell them apart."""
    by_entry: dict[tuple[str, str], list[Function]] = {}
    for function in functions:
        by_entry.setdefault(function[:2], []).append(function)
    homes, seen = Counter(entry for _, entry in by_entry), Counter[str]()
    symbols = []
    for function in functions:
        home = function.module.rpartition(".")[2] + "_" if homes[function.entry] > 1 else ""
        name = f"bvh_{home}{function.entry.strip('_')}"
        all_kinds = (other.kinds or () for other in by_entry[function[:2]])
        for kind, *others in zip(function.kinds or (), *all_kinds, strict=True):
            if len(set(map(_label, others))) > 1:
                name += f"_{_label(kind)}"
        seen[name] += 1
        symbols.append(f"{name}_{seen[name]}" if seen[name] > 1 else name)
    return symbols


def _label(kind: Any) -> str:
    """Return a word for a type."""
    named = getattr(kind, "instance_class", None)
    return named.__name__ if named else re.sub(r"\W+", "", str(kind).partition("(")[0])


def _merged(functions: list[Function], symbols: list[str], level: str) -> Any:
    """Return a module with all functions, and no name but theirs that is seen outside."""
    from foreign_targets import TRIPLES, level_target, machine_of

    machine = machine_of(level_target(level), TRIPLES[LEVELS[level].architecture])
    builder = passes.create_pass_builder(machine, passes.create_pipeline_tuning_options())
    manager = passes.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    whole = llvm.parse_assembly(UNCOUNTED)
    for function, symbol in zip(functions, symbols, strict=True):
        module = llvm.parse_bitcode(function.code)
        for own in _defined(module):
            own.linkage = "internal"
        called = module.get_function(function.name)
        called.linkage = "external"
        manager.run(module, builder)
        # A function of several modules is linked once: its name is that of its source.
        for helper in _defined(module):
            helper.linkage = "linkonce_odr" if helper.is_function else "private"
        called.linkage, called.name = "external", symbol
        whole.link_in(module)
    for own in _defined(whole):
        if own.name not in symbols:
            own.linkage = "internal"
    manager = passes.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(whole, builder)
    whole.verify()
    return whole


def _defined(module: Any) -> list[Any]:
    return [x for x in (*module.functions, *module.global_variables) if not x.is_declaration]


def _emitted(code: bytes, symbols: list[str], level: str, triple: str) -> bytes:
    """Return the object of a module for a system."""
    from foreign_targets import level_target, machine_of

    machine = machine_of(level_target(level), triple)
    module = llvm.parse_bitcode(code)
    module.triple, module.data_layout = triple, str(machine.target_data)
    if "windows" in triple:
        for symbol in symbols:
            module.get_function(symbol).storage_class = "dllexport"
    return bytes(machine.emit_object(module))


def _manifest(functions: list[Function], symbols: list[str], level: str) -> dict[str, Any]:
    """Return what `linked` reads."""
    from bvh import __version__
    from bvh.runtime.cache.kernel_sources import PACKAGE, by_bytes, by_syntax, kernel_sources

    sources = kernel_sources(PACKAGE)
    kernels: dict[str, dict[str, Any]] = {}
    methods = {}
    for function, symbol in zip(functions, symbols, strict=True):
        entry = f"{function.module}.{function.entry}"
        if function.kinds is None:
            methods[entry] = symbol
        else:
            found = symbol, function.results, function.in_tuple
            kernels.setdefault(entry, {})[function.structure] = found
    return {
        "version": __version__, "level": level, "width": int(os.environ["BVH_WIDTH"]),
        "sources": [*sources], "bytes": by_bytes(sources), "syntax": by_syntax(sources),
        "kernels": kernels, "methods": methods,
    }  # fmt: skip


STEPS = {"recipes": run_recipes, "again": compile_again, "write": write}

if __name__ == "__main__":
    main()
