"""Kernels compute the same bits on every CPU and system.

Three things could differ: operations that a compiler joins into one, rounded once; functions of
mathematics that a system rounds as it likes; operations whose result a CPU may choose. The
optimised LLVM code of kernels is read here, and compiled for CPUs that this machine need not have.
`.ci/arm64` runs kernels on an emulated one, and compares answers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from bvh.runtime.calls.entries import Entry
from bvh.runtime.jit import all_recipes, families, warmup
from tests.cases import answer_digests
from tests.cases.guarded_code import guarded
from tests.children import answer, fork

TARGETS = {
    "aarch64-unknown-linux-gnu": "neoverse-n1",
    "arm64-apple-macosx": "apple-m1",
    "x86_64-unknown-linux-gnu": "x86-64-v4",
}
# Fused multiplications and additions, on 64-bit Arm (`fmla.2d` is Apple's) and on x86-64.
FUSED = re.compile(r"^\s+(?:f[mn]\w*(?:add|sub)|v?fn?ml[as]\w*|vfn?m(?:add|sub)\w+)[.\s]", re.M)
# The flags that let LLVM join or reorder operations of floats, or leave out NaN and signed zeros.
LOOSE = re.compile(
    r"\b(?:f(?:add|sub|mul|div|rem|neg|cmp|ptrunc|pext)|call|select|phi) "
    r"(?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn)\b"
    r'|"(?:unsafe-fp-math|no-(?:nans|infs|signed-zeros)-fp-math|approx-func-fp-math)"="true"'
    r'|"denormal-fp-math\w*"|\bllvm\.fmuladd\b|\bllvm\.experimental\.constrained'
)

# Functions of LLVM with one result, exact or rounded correctly, without the types in their names.
EXACT = {
    "abs", "assume", "copysign", "ctlz", "ctpop", "cttz", "fabs", "floor", "fma", "is.fpclass",
    "sadd.with.overflow", "scmp", "smax", "smin", "smul.with.overflow", "sqrt",
    "uadd.with.overflow", "ucmp", "umax", "umin", "umul.with.overflow", "usub.sat",
    "usub.with.overflow", "vector.reduce.add",
    # Of memory, and what only time depends on.
    "experimental.noalias.scope.decl", "lifetime.end", "lifetime.start", "masked.gather",
    "masked.load", "masked.scatter", "masked.store", "memcpy", "memmove", "memset", "prefetch",
    "readcyclecounter",
    # Lanes, moved.
    "aarch64.neon.tbl1", "experimental.vector.compress", "x86.avx2.permd", "x86.avx2.permps",
    "x86.avx512.permvar.sf", "x86.avx512.permvar.si", "x86.ssse3.pshuf.b",
    # Of boxes without NaN; nothing depends on which of two zeros they return.
    "maxnum", "minnum", "x86.avx.max.ps", "x86.avx.min.ps",
    # How LLVM counts references on x86.
    "x86.atomic.sub.cc",
}  # fmt: skip
# Others: how Numba counts references, which linked kernels do not, and what LLVM makes of loops.
OTHERS = {"NRT_MemInfo_call_dtor", "NRT_incref", "NRT_decref", "memcpy", "memmove", "memset"}


def entries() -> dict[str, Any]:
    """Return all kernels of the package that Python calls, by name."""
    found = {}
    for module in [m for name, m in sys.modules.items() if name.startswith("bvh.")]:
        for name, value in vars(module).items():
            if isinstance(value, Entry) and value.__module__ == module.__name__:
                found[f"{module.__name__}.{name}"] = value
    return found


def codes(folder: str = "bvh") -> list[tuple[str, str]]:
    """Return the names and the optimised code of a folder's kernels that have been compiled."""
    return [
        (name, str(compiled.library._get_module_for_linking()))
        for name, entry in sorted(entries().items())
        for specialisation in entry.specialisations
        for compiled in specialisation.compiled.overloads.values()
        if name.startswith(f"{folder}.")
    ]


def compiled_parts(parts: Iterable[str]) -> None:
    """Compile parts of the package, or load them."""
    for part in parts:
        all_recipes()[part]()


def fused(code: str, triple: str) -> list[str]:
    """Return the fused operations of code when compiled for a CPU, without those called by name."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=TARGETS[triple], opt=3)
    code = re.sub('target triple = ".*"', f'target triple = "{triple}"', code)
    layout = f'target datalayout = "{machine.target_data}"'
    code = re.sub('target datalayout = ".*"', layout, code)
    # Called by name, or for another CPU alone: functions about which nothing is known.
    code = re.sub(r"@llvm\.(fma|x86)\.", r"@opaque.\1.", code)
    return FUSED.findall(machine.emit_assembly(llvm.parse_assembly(code)))


def called(code: str) -> set[str]:
    """Return the names of all functions that code calls and does not define."""
    return {f.name for f in llvm.parse_assembly(code).functions if f.is_declaration}


def assert_same_everywhere(name: str, code: str) -> None:
    """Assert that code has no operation that a CPU, a compiler or a system may round freely."""
    assert not LOOSE.findall(code), name
    for function in called(code):
        if function.startswith("llvm."):
            plain = re.sub(r"(\.(v\d+)?(p0|[if]\d+)|\.(128|256|512))+$", "", function)
            assert plain.removeprefix("llvm.") in EXACT, f"{name} calls {function}"
        else:
            assert function in OTHERS, f"{name} calls {function}"


@pytest.mark.parametrize(
    "triples", [list(TARGETS)[:1], pytest.param(TARGETS, marks=pytest.mark.long)]
)
def test_nothing_is_fused_or_rounded_freely(triples: Iterable[str]) -> None:
    """Ray tests of single shapes, on CPUs that have such operations."""
    compiled_parts(families()[1])
    found = codes("bvh.geometry")
    assert len(found) >= 8
    for name, code in found:
        assert_same_everywhere(name, code)
        for triple in triples:
            assert not fused(code, triple), (name, triple)


@pytest.mark.parametrize("triple", TARGETS)
def test_what_may_be_fused_is_found(triple: str) -> None:
    """The control: with LLVM's permission, in as many places as a ray and a triangle have."""
    compiled_parts(["rays and triangles"])
    [(_, code), *_] = [one for one in codes() if one[0].endswith("._ray_triangle")]
    allowed = re.sub(r"= (f(?:add|sub|mul)) ", r"= \1 contract ", code)
    assert LOOSE.search(allowed)
    assert len(fused(allowed, triple)) > 20

    @numba.njit(fastmath={"contract"})
    def product_and_sum(a, b, c):
        return a * b + c

    product_and_sum(1.0, 2.0, 3.0)
    [code] = product_and_sum.inspect_llvm().values()
    assert LOOSE.search(code)
    assert fused(code, triple)


@pytest.mark.long
def test_no_kernel_is_rounded_freely() -> None:
    """All kernels of the package: `bvh.warmup` compiles all that call no function of a user's."""
    warmup()
    found = codes()
    assert set(entries()) - {name for name, _ in found} <= {"bvh.kernels._visit"}
    for name, code in found:
        assert_same_everywhere(name, code)


@pytest.mark.slow
@pytest.mark.parametrize("triple", TARGETS)
def test_no_kernel_is_fused(triple: str) -> None:
    """All kernels of the package, on CPUs that have fused operations."""
    warmup()
    for name, code in codes():
        assert not fused(code, triple), name


def test_answers_that_differ_are_found() -> None:
    """The control: of runs that were asked different queries."""
    runs = [{"mesh": {"a": "1", "b": "2"}}, {"mesh": {"a": "1"}}, {"mesh": {"a": "3", "b": "2"}}]
    assert answer_digests.differing(runs) == (2, ["mesh: a"])
    assert answer_digests.differing(runs[:2]) == (1, [])
    mesh = next(q for name, q in answer_digests.questions().items() if name.startswith("mesh "))
    assert {name for name, _ in answer_digests.of_mesh(mesh)} > answer_digests.CORE


def test_what_is_out_of_range_is_counted() -> None:
    """The control: conversions of doubles that are no integers, and a shift by all bits."""
    with guarded() as found:

        @numba.njit
        def convert_and_shift(x, n):
            return np.int64(x), 1 << n

        convert_and_shift(2.0, 3)
        assert not found()
        convert_and_shift(np.nan, 3)
        convert_and_shift(1e19, 64)
        counts = {place.partition(" ")[0]: count for place, count in found().items()}
    assert counts == {"fptosi": 2, "shl": 1}


@pytest.mark.slow
def test_nothing_is_out_of_range() -> None:
    """Kernels convert and shift only what all CPUs convert and shift alike."""
    script = """
import json
from tests.cases import answer_digests
from tests.cases import answer_digests
from tests.cases.guarded_code import guarded
with guarded() as found:
    answers = [answer_digests.answered(q) for q in answer_digests.questions().values()]
print(json.dumps({"answers": sum(map(len, answers)), "found": found()}))
"""
    done = answer(fork(script, BVH_CACHE_DIR="off", BVH_KERNELS="off"))
    assert not done["found"] and done["answers"] > 7000
