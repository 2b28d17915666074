"""The CPU that kernels are compiled for: levels, their choice, and users' kernels."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import pytest
from numba.core import codegen, config

from bvh.runtime.compiler import code_generator, cpu_levels, kernel_cache
from bvh.runtime.compiler.cpu_levels import (
    HALVED,
    LEVELS,
    NATIVE,
    Target,
    host_levels,
    natural_width,
    parsed,
    target_of_settings,
)
from tests.children import answer, fork

SETTINGS = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"
ALL = ",".join(f"+{name}" for name in LEVELS["x86-64-v4"].features)

# The smallest kernel: what it was compiled for, and a kernel of a user's.
PROBE = """
import json
import numba
import numpy as np
from numba.core import registry
{before}
from bvh.runtime.compiler.kernel_cache import fingerprint
from bvh.runtime.compiler.code_generator import target
from bvh.tree.nodes import _local_boxes, local_boxes
from bvh.geometry.arithmetic.floats import HAS_FMA, two_product
from bvh.runtime.simd import WIDTH

@numba.njit
def users(values):
    for i in range(len(values)):
        values[i] = two_product(values[i], 3.0)[0]
    return values

boxes = local_boxes(np.zeros((1, 3)), np.ones((1, 3)), np.zeros((2, 3)))
kept = [found.compiled for found in _local_boxes.specialisations]
code = "".join(text for run in kept for text in run.inspect_asm().values())
generator = registry.cpu_target.target_context.codegen()
print(json.dumps({{
    "level": target().level, "width": WIDTH, "fma": HAS_FMA, "fingerprint": fingerprint(),
    "answers": [round(float(boxes[0, 3])), *users(np.ones(2))],
    "wide": "%ymm" in code or "%zmm" in code,
    "users": [generator.magic_tuple()[1], len(generator.magic_tuple()[2])],
}}))
"""


def probe(before: str = "", **settings: Any) -> dict[str, Any]:
    """Compile and run the kernel."""
    clean: dict[str, Any] = {
        "BVH_WIDTH": None, "BVH_CPU": None, "NUMBA_CPU_NAME": None, "NUMBA_CPU_FEATURES": None,
    }  # fmt: skip
    script = PROBE.format(before=before)
    return answer(fork(script, **clean | {"BVH_CACHE_DIR": "off", "BVH_KERNELS": "off"} | settings))


@pytest.fixture
def x86(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make this an x86-64 machine with all that the levels know, and nothing set."""
    for name in ("BVH_WIDTH", "BVH_CPU"):
        monkeypatch.delenv(name, raising=False)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config, "CPU_NAME", None)
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    triple = "x86_64-unknown-linux-gnu"
    monkeypatch.setattr(llvm, "get_process_triple", lambda: triple)
    monkeypatch.setattr(codegen, "get_host_cpu_features", lambda: ALL)
    monkeypatch.setattr(cpu_levels, "numpy_features", dict)
    monkeypatch.setattr(cpu_levels, "cpu_identity", str)
    return monkeypatch


def test_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level has its own, other CPUs by their features, unless BVH_WIDTH says another."""
    monkeypatch.delenv("BVH_WIDTH", raising=False)
    assert {name: natural_width(Target(name, "", "")) for name in LEVELS} == {
        "x86-64-v2": 4, "x86-64-v3": 8, "x86-64-v4-256": 8, "x86-64-v4": 16, "aarch64": 4,
    }  # fmt: skip
    natives = ("znver4", ALL, 8), ("znver5", ALL, 16), ("znver3", "+avx2", 8), ("", "", 4)
    for cpu, features, width in natives:
        assert natural_width(Target(NATIVE, cpu, features)) == width
    none = Target(NATIVE, "", "")
    for width in (4, 8, 16):
        monkeypatch.setenv("BVH_WIDTH", str(width))
        assert natural_width(none) == width
    for wrong in ("5", "32", "wide", "-8"):
        monkeypatch.setenv("BVH_WIDTH", wrong)
        with pytest.raises(ValueError, match=f"BVH_WIDTH.*{wrong}"):
            natural_width(none)


ZEN4 = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"


@pytest.mark.parametrize(
    ("identity", "level"),
    [
        (ZEN4, "x86-64-v4-256"), ("AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD", HALVED),
        (ZEN4.replace("25", "26"), "x86-64-v4"), (ZEN4.replace("25", "251"), "x86-64-v4"),
        ("Intel64 Family 6 Model 143 Stepping 8, GenuineIntel", "x86-64-v4"), ("", "x86-64-v4"),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 25\n", "x86-64-v4"),
    ],
)  # fmt: skip
def test_cpus_that_halve_512_bits(identity: str, level: str, x86: pytest.MonkeyPatch) -> None:
    """Zen 4 has vectors of 8 lanes, with the instructions of AVX-512."""
    x86.setattr(cpu_levels, "cpu_identity", lambda: identity)
    target = target_of_settings()
    assert target.level == level
    assert natural_width(target) == (8 if level == HALVED else 16)
    # Zen 3, of the same family, has no AVX-512.
    x86.setattr(codegen, "get_host_cpu_features", lambda: ALL.replace("+avx512f", "-avx512f"))
    assert target_of_settings().level == "x86-64-v3"


def test_features() -> None:
    assert parsed("+sse2, -avx2") == {"sse2": True, "avx2": False} and parsed("") == {}


def test_the_highest_level_of_the_host(x86: pytest.MonkeyPatch) -> None:
    """One feature that is missing, and it is the level below; no level at all is native."""
    assert target_of_settings().level == "x86-64-v4"
    for missing, level in (
        ("avx512vl", "x86-64-v3"), ("movbe", "x86-64-v2"), ("popcnt", NATIVE),
    ):  # fmt: skip
        features = ALL.replace(f"+{missing}", f"-{missing}")
        x86.setattr(codegen, "get_host_cpu_features", lambda features=features: features)
        assert target_of_settings().level == level
    for triple in ("aarch64-unknown-linux-gnu", "arm64-apple-darwin23.1.0"):
        x86.setattr(llvm, "get_process_triple", lambda triple=triple: triple)
        x86.setattr(codegen, "get_host_cpu_features", lambda: "")
        target = target_of_settings()
        assert target.level == "aarch64" and parsed(target.features)["neon"]
    x86.setattr(llvm, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    assert target_of_settings().level == NATIVE


def numpys(features: str) -> dict[str, bool]:
    """Return what numpy says of a CPU; nothing of what it has no name for."""
    names = {"sse4.1": "SSE41", "sse4.2": "SSE42", "fma": "FMA3", "sahf": "LAHF"}
    unknown = {"cmov", "cx8", "fxsr", "xsave"}
    return {
        names.get(name, name.upper()): present
        for name, present in parsed(features).items()
        if name not in unknown
    }


def test_numpy_knows_the_cpu_as_llvm_does(x86: pytest.MonkeyPatch) -> None:
    """Without a setting for Numba, numpy is asked: old versions name less."""

    def unused() -> str:
        raise AssertionError("LLVM is asked")

    x86.setattr(codegen, "get_host_cpu_features", unused)
    full = numpys(ALL)
    old = {
        name: full[name] for name in full if name not in ("BMI", "BMI2", "LZCNT", "MOVBE", "CX16")
    }
    for known in (full, old):
        for missing, level in (
            ("", "x86-64-v4"), ("AVX512VL", "x86-64-v3"), ("F16C", "x86-64-v2"),
            ("FMA3", "x86-64-v2"), ("AVX2", "x86-64-v2"),
        ):  # fmt: skip
            given = known | ({missing: False} if missing else {})
            x86.setattr(cpu_levels, "numpy_features", lambda given=given: given)
            assert host_levels()[-1] == level == target_of_settings().level
    x86.setattr(cpu_levels, "numpy_features", lambda: dict.fromkeys(full, False) | {"ASIMD": True})
    assert host_levels() == ["aarch64"]
    # LLVM knows features that numpy does not.
    x86.setattr(codegen, "get_host_cpu_features", lambda: ALL)
    for nothing in ({}, dict.fromkeys(full, False)):
        x86.setattr(cpu_levels, "numpy_features", lambda nothing=nothing: nothing)
        assert host_levels()[-1] == "x86-64-v4"


def test_both_agree_here() -> None:
    here = host_levels()
    assert here == cpu_levels.levels_of(*cpu_levels.numba_features())
    assert cpu_levels.numpy_features()


LESS = """
from numba.core import codegen
had = codegen.get_host_cpu_features()
for name in ("avx2", "fma", "avx512f"):
    had = had.replace(f"+{{name}},", f"-{{name}},")
codegen.get_host_cpu_features = lambda: had
"""


@pytest.mark.long
@pytest.mark.skipif("x86-64-v3" not in host_levels(), reason="needs AVX2")
def test_kernels_run_where_numpy_promises_too_much() -> None:
    """They are compiled for what Numba finds, of the width that numpy suggests."""
    result = probe(LESS.format(), BVH_WIDTH=None)
    assert result["level"] == NATIVE and result["width"] >= 8 and result["fma"]
    assert result["answers"] == [1, 3.0, 3.0]


def test_a_level_is_wanted(x86: pytest.MonkeyPatch) -> None:
    for level in ("x86-64-v2", "x86-64-v3", HALVED, "x86-64-v4"):
        x86.setenv("BVH_CPU", level)
        target = target_of_settings()
        assert (target.level, target.cpu) == (level, LEVELS[level].cpu)
        had = {name for name, present in parsed(target.features).items() if present}
        assert had == set(LEVELS[level].features)
    x86.setenv("BVH_CPU", "haswell")
    with pytest.raises(ValueError, match=r"BVH_CPU must be native or one of x86-64-v2.*'haswell'"):
        target_of_settings()
    x86.setenv("BVH_CPU", "aarch64")
    with pytest.raises(ValueError, match=r"cannot run kernels for aarch64; it has x86-64-v2, "):
        target_of_settings()
    x86.setattr(codegen, "get_host_cpu_features", lambda: ALL.replace("+avx512f", "-avx512f"))
    x86.setenv("BVH_CPU", "x86-64-v4")
    with pytest.raises(ValueError, match=r"BVH_CPU: this machine cannot run .* x86-64-v4"):
        target_of_settings()
    x86.setenv("BVH_CPU", NATIVE)
    x86.setattr(llvm, "get_host_cpu_name", lambda: "znver3")
    assert target_of_settings()[:2] == (NATIVE, "znver3")


def test_settings_of_numba(x86: pytest.MonkeyPatch) -> None:
    """A level by name means its features; another CPU is Numba's business; both must agree."""
    # Whatever it says: the settings are those of the process.
    x86.setenv("NUMBA_CPU_NAME", "")
    for features in ("", None):
        x86.setattr(config, "CPU_NAME", "x86-64-v3")
        x86.setattr(config, "CPU_FEATURES", features)
        assert natural_width(target_of_settings()) == 8
    x86.setattr(config, "CPU_NAME", "haswell")
    x86.setattr(config, "CPU_FEATURES", "+sse4.2,+avx,+avx2,+fma")
    assert target_of_settings() == (NATIVE, "haswell", "+sse4.2,+avx,+avx2,+fma")
    x86.setattr(config, "CPU_NAME", "generic")
    x86.setattr(config, "CPU_FEATURES", "")
    assert target_of_settings() == (NATIVE, "generic", "")
    x86.setenv("BVH_CPU", "x86-64-v3")
    with pytest.raises(ValueError, match=r"Numba compiles for less than x86-64-v3"):
        target_of_settings()


def test_fingerprints_do_not_know_the_machine(x86: pytest.MonkeyPatch) -> None:
    """Those of a level, that is; they know the width."""
    found = {}
    for level, name, width in (
        ("x86-64-v3", "znver3", ""), ("x86-64-v3", "skylake", ""), ("x86-64-v4", "skylake", ""),
        (NATIVE, "znver3", ""), (NATIVE, "skylake", ""), ("x86-64-v3", "znver3", "8"),
        ("x86-64-v3", "znver3", "16"),
    ):  # fmt: skip
        x86.setenv("BVH_CPU", level)
        x86.setenv("BVH_WIDTH", width)
        x86.setattr(llvm, "get_host_cpu_name", lambda name=name: name)
        x86.setattr(code_generator, "target", target_of_settings)
        x86.setattr(cpu_levels, "chosen_target", target_of_settings)
        found[level, name, width] = kernel_cache.fingerprint_of({})
    alike = [
        found["x86-64-v3", *rest] for rest in (("znver3", ""), ("skylake", ""), ("znver3", "8"))
    ]
    assert len(set(alike)) == 1 and len(set(found.values())) == 5


@pytest.mark.skipif("x86-64-v2" not in host_levels(), reason="needs x86-64")
def test_a_level_is_compiled_for() -> None:
    """Ours are; a user's own kernels are compiled as without us, also where they call ours.

    One of both uses Numba before us.
    """
    low = probe("numba.njit(lambda x: x)(1)", BVH_CPU="x86-64-v2")
    assert (low["level"], low["width"], low["fma"], low["wide"]) == ("x86-64-v2", 4, False, False)
    native = probe(BVH_CPU=NATIVE)
    assert low["fingerprint"] != native["fingerprint"]
    assert low["users"] == native["users"] and native["level"] == NATIVE
    assert low["answers"] == native["answers"] == [1, 3.0, 3.0]


@pytest.mark.long
@pytest.mark.skipif("x86-64-v2" not in host_levels(), reason="needs x86-64")
def test_it_does_not_matter_whether_numba_was_used_before() -> None:
    level = {"BVH_CPU": "x86-64-v2"}
    assert probe(**level) == probe("numba.njit(lambda x: x)(1)", **level)


@pytest.mark.long
@pytest.mark.skipif("x86-64-v3" not in host_levels(), reason="needs AVX2")
def test_the_name_of_a_level_without_features() -> None:
    """Numba tells LLVM the name alone; the width was that of a CPU without features."""
    result = probe(NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="")
    assert (result["level"], result["width"], result["fma"]) == ("x86-64-v3", 8, True)


def test_without_a_code_generator_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba may be built otherwise one day: then its own compiles, for what it is told."""
    monkeypatch.delattr(code_generator.codegen, "JITCPUCodegen")
    assert code_generator.target.__wrapped__().level == NATIVE
