"""Trees and scenes on a GPU, or on Warp's CPU device: the same answers, bit for bit.

Kernels are written in NVIDIA Warp. `BVH.to` and `Scene.to` import this folder on first use.
Floating-point operations are never contracted: modules of kernels set `fuse_fp` to False, and a
test reads the code that is compiled for GPUs.

Each file imports only from those above it.

| file | contents |
|---|---|
| `exact/` | Exact arithmetic of device kernels: bit for bit what `geometry` has for CPUs |
| `exchange.py` | Arrays in and out of devices, in the library of the caller |
| `layout.py` | The arrays of trees and scenes on a device, made from those for CPUs |
| `stages/` | Rays and points in stages: float32 search, decisions, measures, exact sums |
| `building.py` | Nodes: built over faces or over the leaves of a scene, and refitted |
| `rebuilding.py` | Refits and rebuilds of trees whose vertices have moved on a device |
| `instances.py` | Leaves of a scene: their maps, inverses and boxes, and the top over them |
| `transfers.py` | Base class of calls; numpy arrays in and out, in chunks, through reused buffers |
| `calls.py` | Queries of rays, lines of sight and points; the CPU answers what kernels leave open |
| `trees.py` | `DeviceBVH` and `DeviceScene`: a tree, or a scene, on a device, and its queries |
| `camera_rays.py` | Rays of cameras, made on a device |
"""

from bvh.runtime.registry import extra

with extra("gpu", "trees on devices need NVIDIA Warp"):
    import warp as warp
