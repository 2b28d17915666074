"""The CPU that kernels are compiled for: a level that many CPUs share, or the host itself.

Machine code for a level runs on each CPU that has its features, so that one folder of kernels works
on all machines of a cluster, and one wheel for all users of a platform. ``BVH_CPU`` is a level, or
``native`` for the CPU that Numba compiles for: the host with all its features, or that of
``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES``. By default, kernels are compiled for the level that
suits the host best, or for Numba's CPU if one is set.

numpy knows the features of the host as well as LLVM does, so that no import waits for Numba; where
it does not, or if Numba has settings of a CPU, Numba's are used.
"""

import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")

NATIVE = "native"


class Target(NamedTuple):
    """The CPU that LLVM compiles for."""

    level: str  # one of LEVELS, or NATIVE: then Numba sets the CPU
    cpu: str
    features: str  # +feature or -feature, with commas between


class Level(NamedTuple):
    """A set of features that many CPUs of an architecture have."""

    architecture: str
    cpu: str  # the CPU by whose timings LLVM orders instructions
    width: int  # the number of float32 lanes that suits its CPUs
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

# The instructions of AVX-512 on vectors of 256 bits, for CPUs that take 512 bits in two steps.
HALVED = "x86-64-v4-256"
# From the lowest to the highest of an architecture. Every 64-bit Arm has its baseline.
LEVELS = {
    "x86-64-v2": Level("x86_64", "x86-64-v2", 4, _V2),
    "x86-64-v3": Level("x86_64", "x86-64-v3", 8, _V3),
    # By the timings of "x86-64-v4", which are those of no CPU, kernels are 3 % slower.
    HALVED: Level("x86_64", "skylake-avx512", 8, _V4, _BEYOND_V4),
    "x86-64-v4": Level("x86_64", "skylake-avx512", 16, _V4, _BEYOND_V4),
    "aarch64": Level("aarch64", "generic", 4, ("fp-armv8", "neon")),
}


def parsed(features: str) -> dict[str, bool]:
    """Return LLVM's list of features, such as "+avx,-fma", as a dict: True for +, False for -."""
    names = (name.strip() for name in features.split(","))
    return {name.strip("+-"): name.startswith("+") for name in names if name}


class Settings(NamedTuple):
    """Numba's settings of the CPU; a None means that Numba detects the host's."""

    name: str | None = None
    features: str | None = None


def numba_settings() -> Settings | None:
    """Return Numba's settings, if there are any; else None, without importing Numba."""
    names = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"
    if not any(name in os.environ for name in names) and not os.path.exists(".numba_config.yaml"):
        return None
    import numba  # noqa: F401 (whole before its parts: threads may import at once)
    from numba.core import config

    return Settings(config.CPU_NAME, config.CPU_FEATURES)


def numpy_features() -> dict[str, bool]:
    """Return whether this CPU has each feature, by numpy's names; empty if unknown."""
    # numpy 1 has the module as `np.core`. No level is for processes of 32 bits.
    core: Any = getattr(np, "_core", None) or np.core
    core = core._multiarray_umath
    return dict(getattr(core, "__cpu_features__", {})) if sys.maxsize > 2**32 else {}


# numpy's names of LLVM's features, where upper case is not the only difference. Some others have no
# name in numpy, or one since version 2.4; CPUs that have the rest of a level have these.
_NUMPYS = {"sse4.1": "SSE41", "sse4.2": "SSE42", "fma": "FMA3", "sahf": "LAHF"}


def numba_features() -> tuple[str, dict[str, bool]]:
    """Return the architecture of this process, and whether its CPU has each feature, by Numba."""
    import llvmlite.binding as llvm
    import numba  # noqa: F401 (whole before its parts: threads may import at once)
    from numba.core.codegen import get_host_cpu_features

    name = llvm.get_process_triple().split("-")[0]
    # ``NUMBA_ENABLE_AVX=0`` counts as a CPU without AVX.
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name), parsed(get_host_cpu_features())


def host_levels() -> list[str]:
    """Return the levels that this machine can run, the highest last."""
    present = numpy_features()
    if numba_settings() is None and (present.get("SSE2") or present.get("ASIMD")):
        architecture = "x86_64" if present.get("SSE2") else "aarch64"
        names = {name: _NUMPYS.get(name, name.upper()) for name in _V4}
        features = {name: present.get(other, True) for name, other in names.items()}
    else:
        architecture, features = numba_features()
    return levels_of(architecture, features)


def levels_of(architecture: str, features: dict[str, bool]) -> list[str]:
    """Return the levels that a CPU can run, the highest last; `features` has True for its own."""
    # LLVM does not know the features of some Arm systems; all have the baseline.
    return [
        name
        for name, level in LEVELS.items()
        if level.architecture == architecture
        and (architecture == "aarch64" or all(map(features.get, level.features)))
    ]


def _numba_has(level: Level) -> bool:
    """Return whether the CPU of Numba's settings, or the host, has all features of a level."""
    config = numba_settings()
    if config is None or config.features is None:
        # Numba uses the features of the host, which `target_of` has checked.
        return True
    # A CPU that is set by the name of a level has the level's features, unless they are removed.
    features = parsed(config.features)
    named = LEVELS.get(config.name or "")
    return all(features.get(name, named and name in named.features) for name in level.features)


def target_of(level_name: str, setting: str = "BVH_CPU") -> Target:
    """Return the target of a level's name, or of `NATIVE`; raises ValueError if it cannot run.

    `setting` is the environment variable that the error names.
    """
    if level_name == NATIVE:
        import llvmlite.binding as llvm
        import numba  # noqa: F401 (whole before its parts: threads may import at once)
        from numba.core.codegen import get_host_cpu_features

        name, given = numba_settings() or Settings()
        name = name or llvm.get_host_cpu_name()
        return Target(NATIVE, name, get_host_cpu_features() if given is None else given)
    if level_name not in LEVELS:
        known = f"native or one of {', '.join(LEVELS)}"
        raise ValueError(f"{setting} must be {known}, got {level_name!r}")
    on_host = host_levels()
    if level_name not in on_host:
        has = ", ".join(on_host) or "none of the levels, only native"
        what = f"this machine cannot run kernels for {level_name}"
        raise ValueError(f"{setting}: {what}; it has {has}")
    level = LEVELS[level_name]
    if not _numba_has(level):
        # Users' kernels that inline ours could not be compiled.
        cure = "unset NUMBA_CPU_NAME and NUMBA_CPU_FEATURES, or use BVH_CPU=native"
        raise ValueError(f"{setting}: Numba compiles for less than {level_name}; {cure}")
    features = [f"+{name}" for name in level.features] + [f"-{name}" for name in level.without]
    return Target(level_name, level.cpu, ",".join(features))


def target_of_settings() -> Target:
    """Return the target of BVH_CPU and Numba's settings; raises ValueError if they are wrong."""
    setting = os.environ.get("BVH_CPU", "")
    if setting:
        return target_of(setting)
    name, features = numba_settings() or Settings()
    if name in LEVELS and not features:
        # Numba would use the host's features, or none, instead of the level's.
        return target_of(name, "NUMBA_CPU_NAME")
    here = host_levels()
    if name is not None or features is not None or not here:
        return target_of(NATIVE)
    return target_of(best_level(here))


def best_level(levels: list[str]) -> str:
    """Return the level whose kernels are the fastest on this CPU, of those that it can run."""
    # On Zen 4, which takes operations of 512 bits in two steps, kernels are 1.1 times as fast with
    # 8 lanes as with 16. It is the one generation of family 25 with AVX-512; Zen 5 is family 26.
    identity = cpu_identity() if HALVED in levels else ""
    is_zen_4 = "AMD" in identity and re.search(r"family\D*25\b", identity, re.I)
    return HALVED if is_zen_4 else levels[-1]


def cpu_identity() -> str:
    """Return the system's description of this CPU, with vendor and family; empty if unknown."""
    if sys.platform == "win32":
        return os.environ.get("PROCESSOR_IDENTIFIER", "")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            # All CPUs of a machine are described, one after the other.
            return file.read(512)
    except OSError:
        return ""


# The target as it was at the first call.
chosen_target = lru_cache(maxsize=1)(target_of_settings)


# Functions that clear caches of the target; see `code_generator.leave_to_numba`.
_cache_clears: list[Callable[[], None]] = []


def cached_for_target(find: Callable[..., T]) -> Callable[..., T]:
    """Cache results that depend on the CPU that kernels are for; `forget_target` clears them."""
    cached = lru_cache(maxsize=2)(find)
    _cache_clears.append(cached.cache_clear)
    return cached


def forget_target() -> None:
    """Clear all caches that depend on the CPU that kernels are compiled for."""
    for forget in _cache_clears:
        forget()


def natural_width(target: Target) -> int:
    """Return the number of float32 lanes that suits a target; ``BVH_WIDTH`` overrides it."""
    setting = os.environ.get("BVH_WIDTH", "")
    if setting:
        if setting not in ("4", "8", "16"):
            raise ValueError(f"BVH_WIDTH must be 4, 8 or 16, got {setting!r}")
        return int(setting)
    if target.level in LEVELS:
        return LEVELS[target.level].width
    features = parsed(target.features)
    if features.get("avx512f"):
        return 8 if target.cpu == "znver4" else 16
    return 8 if features.get("avx2") else 4
