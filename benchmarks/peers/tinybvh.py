"""tinybvh, compiled from its header by the C++ compiler at hand."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..workloads import Workload
from .caster import Answer, Caster, Query

# A batch of rays, one after the other, as the header's authors cast them.
SOURCE = r"""
#define TINYBVH_IMPLEMENTATION
#include "tiny_bvh.h"
using namespace tinybvh;
struct Mesh { BVH8_CPU tree; bvhvec4* vertices; };
extern "C" {
void* build(const float* vertices, const unsigned* faces, unsigned count) {
    Mesh* mesh = new Mesh;
    mesh->vertices = (bvhvec4*)malloc64(48 * (size_t)count);
    for (size_t i = 0; i < 3 * (size_t)count; i++) {
        const float* p = vertices + 3 * (size_t)faces[i];
        mesh->vertices[i] = bvhvec4(p[0], p[1], p[2], 0);
    }
    mesh->tree.BuildHQ(mesh->vertices, count);
    return mesh;
}
void destroy(void* mesh) { free64(((Mesh*)mesh)->vertices); delete (Mesh*)mesh; }
static Ray ray_of(const float* o, const float* d, float t_max, float* length) {
    bvhvec3 direction(d[0], d[1], d[2]);
    *length = tinybvh_length(direction);
    return Ray(bvhvec3(o[0], o[1], o[2]), direction, t_max * *length);
}
void closest(void* mesh, const float* o, const float* d, long n, float* t, int* ids) {
    for (long i = 0; i < n; i++, o += 3, d += 3) {
        float length;
        Ray ray = ray_of(o, d, 1e30f, &length);
        ((Mesh*)mesh)->tree.Intersect(ray);
        bool hit = ray.hit.t < 1e29f;
        t[i] = ray.hit.t / length, ids[i] = hit ? (int)ray.hit.prim : -1;
    }
}
void occluded(void* mesh, const float* o, const float* d, long n, float t_max, char* hit) {
    for (long i = 0; i < n; i++, o += 3, d += 3) {
        float length;
        hit[i] = ((Mesh*)mesh)->tree.IsOccluded(ray_of(o, d, t_max, &length));
    }
}
}
"""
FLAGS = ("-std=c++20", "-O3", "-march=native", "-ffast-math", "-w", "-shared", "-fPIC")


class TinyBVH(Caster):
    """tinybvh's eight children wide tree with spatial splits.

    It is a header for C++: TINYBVH names the folder that has ``tiny_bvh.h``, and CXX a compiler
    other than ``c++``. The CPU must have AVX2.
    """

    name = "tinybvh"
    module = "tiny_bvh.h"
    distribution = "tinybvh"
    ids = np.uint32
    one_thread = True
    note = "float32, one thread; its header, in the folder TINYBVH, and a C++ compiler"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.uint32]) -> None:
        self.library = library()
        self.mesh = self.library.build(_at(vertices), _at(faces), len(faces))

    def __del__(self) -> None:
        if mesh := self.__dict__.pop("mesh", None):
            self.library.destroy(mesh)

    @classmethod
    def is_installed(cls) -> bool:
        header = Path(os.environ.get("TINYBVH", ""), cls.module)
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        return x86 and header.is_file() and shutil.which(_compiler()) is not None

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
def library() -> Any:
    """Return the compiled functions; raises RuntimeError with the compiler's words."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "tinybvh.cpp"), Path(folder, "tinybvh.so")
        source.write_text(SOURCE)
        command = [
            _compiler(),
            *FLAGS,
            f"-I{os.environ['TINYBVH']}",
            str(source),
            "-o",
            str(target),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"tinybvh could not be compiled: {done.stderr[-2000:]}")
        functions = ctypes.CDLL(str(target))
    at, size = ctypes.c_void_p, ctypes.c_long
    functions.build.restype = at
    functions.build.argtypes = at, at, ctypes.c_uint
    functions.destroy.argtypes = (at,)
    functions.closest.argtypes = at, at, at, size, at, at
    functions.occluded.argtypes = at, at, at, size, ctypes.c_float, at
    return functions


def _compiler() -> str:
    return os.environ.get("CXX", "c++")


def _at(array: NDArray[Any]) -> int:
    return array.ctypes.data
