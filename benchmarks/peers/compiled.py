"""Base of peers that a C++ compiler compiles where the benchmarks run."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Query

SHARED = ("-std=c++20", "-O3", "-march=native", "-w", "-shared", "-fPIC")


class Compiled(Caster):
    """C++ library that is called in loops of C++, so without the cost of any binding.

    CXX names a compiler other than ``c++``. The source defines ``build``, ``destroy``, ``closest``
    and ``occluded``, of the arguments that `compiled` declares.
    """

    one_thread = True
    ids = np.uint32
    # C++ code.
    source: ClassVar[str]

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.uint32]) -> None:
        self.library = compiled(self.source, self.flags())
        counts = len(vertices), len(faces)
        self.mesh = self.library.build(_at(vertices), counts[0], _at(faces), counts[1])

    def __del__(self) -> None:
        if mesh := self.__dict__.pop("mesh", None):
            self.library.destroy(mesh)

    @classmethod
    def flags(cls) -> tuple[str, ...]:
        """Return the compiler's arguments besides `SHARED`."""
        raise NotImplementedError

    @classmethod
    def is_installed(cls) -> bool:
        return shutil.which(compiler()) is not None

    def rays(self, work: Workload) -> Query:
        rays = [np.ascontiguousarray(rows, np.float32) for rows in work.rays]
        o, d = map(_at, rays)
        count, cast = len(work), self.library
        if work.query == "any_hit":
            hit = np.empty(count, np.bool_)
            t_max = min(work.t_max, 1e30)
            return Query(
                lambda kept=rays: cast.occluded(self.mesh, o, d, count, t_max, _at(hit)),
                lambda found: Answer(hit),
            )
        t, ids = np.empty(count, np.float32), np.empty(count, np.int32)

        def answer(found: Any) -> Answer:
            return Answer(ids >= 0, ids.astype(np.int64), np.where(ids < 0, np.inf, t))

        return Query(
            lambda kept=rays: cast.closest(self.mesh, o, d, count, _at(t), _at(ids)), answer
        )


@cache
def compiled(source: str, flags: tuple[str, ...]) -> Any:
    """Return the functions of C++ code; raises RuntimeError with the compiler's message."""
    with tempfile.TemporaryDirectory() as folder:
        code, target = Path(folder, "peer.cpp"), Path(folder, "peer.so")
        code.write_text(source)
        command = [compiler(), *SHARED, str(code), "-o", str(target), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"it could not be compiled: {done.stderr[-2000:]}")
        functions = ctypes.CDLL(str(target))
    at, size = ctypes.c_void_p, ctypes.c_long
    functions.build.restype = at
    functions.build.argtypes = at, size, at, size
    functions.destroy.argtypes = (at,)
    functions.closest.argtypes = at, at, at, size, at, at
    functions.occluded.argtypes = at, at, at, size, ctypes.c_float, at
    return functions


def compiler() -> str:
    """Return the command of the C++ compiler."""
    return os.environ.get("CXX", "c++")


def _at(array: NDArray[Any]) -> int:
    return array.ctypes.data
