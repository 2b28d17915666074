"""The CPU that kernels are compiled for: a level that many CPUs share, or the host itself.

Machine code for a level runs on each CPU that has its features, so that one folder of kernels works
on all machines of a cluster, and one wheel for all users of a platform. ``BVH_CPU`` is a level, or
``native`` for the CPU that Numba compiles for: the host with all its features, or that of
``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES``. By default, kernels are compiled for the highest
level of the host, or for Numba's CPU if one is set.
"""

import os
from typing import NamedTuple

import llvmlite.binding as llvm
import numba  # noqa: F401 (whole before its parts: threads may import at once)
from numba.core import config
from numba.core.codegen import get_host_cpu_features

NATIVE = "native"


class Target(NamedTuple):
    """The CPU that LLVM compiles for."""

    level: str  # one of LEVELS, or NATIVE: then Numba sets the CPU
    cpu: str
    features: str  # +feature or -feature, with commas between


class Level(NamedTuple):
    """A set of features that many CPUs of an architecture have."""

    architecture: str
    cpu: str  # whose timings LLVM orders instructions by
    features: tuple[str, ...]
    without: tuple[str, ...] = ()  # features of that CPU beyond the level


_V2 = (
    "cmov", "cx16", "cx8", "fxsr", "mmx", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1",
    "sse4.2", "ssse3",
)  # fmt: skip
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_BEYOND_V4 = (
    "adx", "aes", "clflushopt", "clwb", "fsgsbase", "invpcid", "pclmul", "pku", "prfchw", "rdrnd",
    "rdseed", "xsavec", "xsaveopt", "xsaves",
)  # fmt: skip

# From the lowest to the highest of an architecture. Every 64-bit Arm has its baseline.
LEVELS = {
    "x86-64-v2": Level("x86_64", "x86-64-v2", _V2),
    "x86-64-v3": Level("x86_64", "x86-64-v3", _V3),
    # By the timings of "x86-64-v4", which are those of no CPU, kernels are 3 % slower.
    "x86-64-v4": Level("x86_64", "skylake-avx512", _V4, _BEYOND_V4),
    "aarch64": Level("aarch64", "generic", ("fp-armv8", "neon")),
}


def parsed(features: str) -> dict[str, bool]:
    """Return LLVM's list of features as a dict."""
    names = (name.strip() for name in features.split(","))
    return {name.strip("+-"): name.startswith("+") for name in names if name}


def host_levels() -> list[str]:
    """Return the levels that this machine can run, the highest last."""
    # ``NUMBA_ENABLE_AVX=0`` counts as a CPU without AVX.
    name = llvm.get_process_triple().split("-")[0]
    architecture = {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)
    features = parsed(get_host_cpu_features())
    # LLVM does not know the features of some Arm systems; all have the baseline.
    return [
        name
        for name, level in LEVELS.items()
        if level.architecture == architecture
        and (architecture == "aarch64" or all(map(features.get, level.features)))
    ]


def _numba_has(level: Level) -> bool:
    """Return whether Numba also compiles for CPUs of a level."""
    if config.CPU_FEATURES is None:
        # The host's.
        return True
    features = parsed(config.CPU_FEATURES)
    named = LEVELS.get(config.CPU_NAME or "")
    return all(features.get(name, named and name in named.features) for name in level.features)


def target_of(wanted: str, setting: str = "BVH_CPU") -> Target:
    """Return the target of a level's name, or of `NATIVE`; raises ValueError if it cannot run."""
    if wanted == NATIVE:
        given = config.CPU_FEATURES
        name = config.CPU_NAME or llvm.get_host_cpu_name()
        return Target(NATIVE, name, get_host_cpu_features() if given is None else given)
    if wanted not in LEVELS:
        raise ValueError(f"{setting} must be native or one of {', '.join(LEVELS)}, got {wanted!r}")
    here = host_levels()
    if wanted not in here:
        raise ValueError(
            f"{setting}: this machine cannot run kernels for {wanted}; "
            f"it has {', '.join(here) or 'none of the levels, only native'}"
        )
    level = LEVELS[wanted]
    if not _numba_has(level):
        # Users' kernels that inline ours could not be compiled.
        raise ValueError(
            f"{setting}: Numba compiles for less than {wanted}; "
            "unset NUMBA_CPU_NAME and NUMBA_CPU_FEATURES, or use BVH_CPU=native"
        )
    features = [f"+{name}" for name in level.features] + [f"-{name}" for name in level.without]
    return Target(wanted, level.cpu, ",".join(features))


def wanted_target() -> Target:
    """Return the target of the settings; raises ValueError if they are wrong."""
    wanted = os.environ.get("BVH_CPU", "")
    if wanted:
        return target_of(wanted)
    if config.CPU_NAME in LEVELS and not config.CPU_FEATURES:
        # Numba would use the host's features, or none, instead of the level's.
        return target_of(config.CPU_NAME, "NUMBA_CPU_NAME")
    here = host_levels()
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None or not here:
        return target_of(NATIVE)
    return target_of(here[-1])


def natural_width(features: dict[str, bool]) -> int:
    """Return the number of float32 lanes that suits a CPU; ``BVH_WIDTH`` overrides it."""
    wanted = os.environ.get("BVH_WIDTH", "")
    if wanted:
        if wanted not in ("4", "8", "16"):
            raise ValueError(f"BVH_WIDTH must be 4, 8 or 16, got {wanted!r}")
        return int(wanted)
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx2") else 4
