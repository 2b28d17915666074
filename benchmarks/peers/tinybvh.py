"""tinybvh, compiled from its header."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from .compiled import Compiled

# A batch of rays, one after the other, as the header's authors cast them.
SOURCE = r"""
#define TINYBVH_IMPLEMENTATION
#include "tiny_bvh.h"
using namespace tinybvh;
struct Mesh { BVH8_CPU tree; bvhvec4* vertices; };
extern "C" {
void* build(const float* vertices, long, const unsigned* faces, long count) {
    Mesh* mesh = new Mesh;
    mesh->vertices = (bvhvec4*)malloc64(48 * (size_t)count);
    for (long i = 0; i < 3 * count; i++) {
        const float* p = vertices + 3 * (size_t)faces[i];
        mesh->vertices[i] = bvhvec4(p[0], p[1], p[2], 0);
    }
    mesh->tree.BuildHQ(mesh->vertices, (unsigned)count);
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


class TinyBVH(Compiled):
    """tinybvh's eight children wide tree with spatial splits.

    It is a header for C++: TINYBVH names the folder that has ``tiny_bvh.h``. The CPU must have
    AVX2.
    """

    name = "tinybvh"
    module = "tiny_bvh.h"
    distribution = "tinybvh"
    note = "float32, one thread; its header, in the folder TINYBVH, and a C++ compiler"
    source = SOURCE

    @classmethod
    def flags(cls) -> tuple[str, ...]:
        return "-ffast-math", f"-I{os.environ['TINYBVH']}"

    @classmethod
    def is_installed(cls) -> bool:
        header = Path(os.environ.get("TINYBVH", ""), cls.module)
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        return x86 and header.is_file() and super().is_installed()
