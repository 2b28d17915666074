"""Embree through its C API, to tell its speed from that of its bindings."""

from __future__ import annotations

import subprocess
from functools import cache

from .compiled import Compiled, compiler

# Rays one by one, or in packets of 16, each transposed as Embree wants it.
SOURCE = r"""
#if EMBREE >= 4
#include <embree4/rtcore.h>
#define COHERENT RTC_RAY_QUERY_FLAG_COHERENT
typedef RTCIntersectArguments Intersecting;
typedef RTCOccludedArguments Occluding;
static void init(Intersecting* call) { rtcInitIntersectArguments(call); }
static void init(Occluding* call) { rtcInitOccludedArguments(call); }
#define ONE(function, scene, call, ray) function(scene, ray, call)
#define SOME(function, valid, scene, call, rays) function(valid, scene, rays, call)
#else
#include <embree3/rtcore.h>
#define COHERENT RTC_INTERSECT_CONTEXT_FLAG_COHERENT
typedef RTCIntersectContext Intersecting;
typedef RTCIntersectContext Occluding;
static void init(RTCIntersectContext* call) { rtcInitIntersectContext(call); }
#define ONE(function, scene, call, ray) function(scene, call, ray)
#define SOME(function, valid, scene, call, rays) function(valid, scene, call, rays)
#endif
struct Mesh { RTCDevice device; RTCScene scene; };
static RTCRay ray_of(const float* o, const float* d, float t_max) {
    return {o[0], o[1], o[2], 0, d[0], d[1], d[2], 0, t_max, ~0u, 0, 0};
}
// Read a packet; return whether its rays start at one point, as those of a camera do.
static bool read(
    const float* o, const float* d, long n, float t_max, int* valid, RTCRay16* rays) {
    bool camera = true;
    for (int k = 0; k < 16; k++) {
        long at = k < n ? 3 * k : 0;
        valid[k] = k < n ? -1 : 0;
        rays->org_x[k] = o[at], rays->org_y[k] = o[at + 1], rays->org_z[k] = o[at + 2];
        rays->dir_x[k] = d[at], rays->dir_y[k] = d[at + 1], rays->dir_z[k] = d[at + 2];
        rays->tnear[k] = rays->time[k] = 0, rays->tfar[k] = t_max;
        rays->mask[k] = ~0u, rays->id[k] = rays->flags[k] = 0;
        for (int axis = 0; axis < 3; axis++) camera &= o[at + axis] == o[axis];
    }
    return camera;
}
extern "C" {
void* build(const float* vertices, long nv, const unsigned* faces, long nf) {
    RTCDevice device = rtcNewDevice("threads=1");
    RTCScene scene = rtcNewScene(device);
    RTCGeometry mesh = rtcNewGeometry(device, RTC_GEOMETRY_TYPE_TRIANGLE);
    // Embree pads its own buffers, as it reads four bytes past the last vertex.
    float* v = (float*)rtcSetNewGeometryBuffer(
        mesh, RTC_BUFFER_TYPE_VERTEX, 0, RTC_FORMAT_FLOAT3, 12, nv);
    unsigned* f = (unsigned*)rtcSetNewGeometryBuffer(
        mesh, RTC_BUFFER_TYPE_INDEX, 0, RTC_FORMAT_UINT3, 12, nf);
    for (long i = 0; i < 3 * nv; i++) v[i] = vertices[i];
    for (long i = 0; i < 3 * nf; i++) f[i] = faces[i];
    rtcCommitGeometry(mesh);
    rtcAttachGeometry(scene, mesh);
    rtcReleaseGeometry(mesh);
    rtcCommitScene(scene);
    return new Mesh{device, scene};
}
void destroy(void* mesh) {
    rtcReleaseScene(((Mesh*)mesh)->scene), rtcReleaseDevice(((Mesh*)mesh)->device);
    delete (Mesh*)mesh;
}
#ifndef PACKETS
void closest(void* mesh, const float* o, const float* d, long n, float* t, int* ids) {
    RTCScene scene = ((Mesh*)mesh)->scene;
    Intersecting call;
    init(&call);
    for (long i = 0; i < n; i++, o += 3, d += 3) {
        RTCRayHit query = {ray_of(o, d, __builtin_inff())};
        query.hit.geomID = RTC_INVALID_GEOMETRY_ID;
        ONE(rtcIntersect1, scene, &call, &query);
        bool hit = query.hit.geomID != RTC_INVALID_GEOMETRY_ID;
        t[i] = query.ray.tfar, ids[i] = hit ? (int)query.hit.primID : -1;
    }
}
void occluded(void* mesh, const float* o, const float* d, long n, float t_max, char* hit) {
    RTCScene scene = ((Mesh*)mesh)->scene;
    Occluding call;
    init(&call);
    for (long i = 0; i < n; i++, o += 3, d += 3) {
        RTCRay ray = ray_of(o, d, t_max);
        ONE(rtcOccluded1, scene, &call, &ray);
        hit[i] = ray.tfar < 0;
    }
}
#else
void closest(void* mesh, const float* o, const float* d, long n, float* t, int* ids) {
    RTCScene scene = ((Mesh*)mesh)->scene;
    alignas(64) int valid[16];
    RTCRayHit16 query;
    for (long i = 0; i < n; i += 16, o += 48, d += 48) {
        Intersecting call;
        init(&call);
        if (read(o, d, n - i, __builtin_inff(), valid, &query.ray)) call.flags = COHERENT;
        for (int k = 0; k < 16; k++) query.hit.geomID[k] = RTC_INVALID_GEOMETRY_ID;
        SOME(rtcIntersect16, valid, scene, &call, &query);
        for (int k = 0; k < 16 && i + k < n; k++) {
            bool hit = query.hit.geomID[k] != RTC_INVALID_GEOMETRY_ID;
            t[i + k] = query.ray.tfar[k], ids[i + k] = hit ? (int)query.hit.primID[k] : -1;
        }
    }
}
void occluded(void* mesh, const float* o, const float* d, long n, float t_max, char* hit) {
    RTCScene scene = ((Mesh*)mesh)->scene;
    alignas(64) int valid[16];
    RTCRay16 rays;
    for (long i = 0; i < n; i += 16, o += 48, d += 48) {
        Occluding call;
        init(&call);
        if (read(o, d, n - i, t_max, valid, &rays)) call.flags = COHERENT;
        SOME(rtcOccluded16, valid, scene, &call, &rays);
        for (int k = 0; k < 16 && i + k < n; k++) hit[i + k] = rays.tfar[k] < 0;
    }
}
#endif
}
"""


class Embree(Compiled):
    """Embree itself, whose headers and library the C++ compiler finds: libembree-dev of Debian."""

    name = "Embree"
    module = "rtcore.h"
    distribution = "libembree-dev"
    note = "Embree's C API, float32, one thread, rays one by one; its headers, a C++ compiler"
    source = SOURCE

    @classmethod
    def flags(cls) -> tuple[str, ...]:
        return f"-DEMBREE={installed()}", f"-lembree{installed()}"

    @classmethod
    def is_installed(cls) -> bool:
        return super().is_installed() and installed() > 0


class EmbreePackets(Embree):
    """Embree's packets of 16 rays, those of a camera marked as coherent.

    No Python binding of Embree has them. They are for programs that know that their rays are
    coherent: packets cost time where neighbouring rays differ.
    """

    name = "Embree x 16"
    note = "Embree's C API, float32, one thread, packets of 16 rays"

    @classmethod
    def flags(cls) -> tuple[str, ...]:
        return *super().flags(), "-DPACKETS"


@cache
def installed() -> int:
    """Return the version of Embree whose headers the compiler finds, 0 if it finds none."""
    for version in (4, 3):
        code = f"#include <embree{version}/rtcore.h>"
        command = [compiler(), "-fsyntax-only", "-x", "c++", "-"]
        if not subprocess.run(command, input=code, capture_output=True, text=True).returncode:
            return version
    return 0
