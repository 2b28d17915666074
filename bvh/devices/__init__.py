"""Trees and scenes on a GPU, or on Warp's CPU device: the same answers, bit for bit.

Kernels are those of NVIDIA Warp. Nothing of other folders imports this one: `BVH.to` and `Scene.to`
ask for it. Floating-point operations are never contracted: the modules of kernels set `fuse_fp` to
False, and a test reads what is compiled for GPUs.

Each file imports only from those above it.

| file | contents |
|---|---|
| `exact/` | Exact arithmetic of device kernels: bit for bit what `geometry` has for CPUs. |
| `layout.py` | The arrays of trees and scenes on a device |
| `searches/` | Rays and points in a tree or a scene: float32 discards, what is left is decided exactly. |
| `exchange.py` | Arrays in and out of devices, in the library of the caller |
| `ray_kernels.py` | The kernels of ray queries |
| `point_kernels.py` | The kernels of point queries |
| `calls.py` | Calls of kernels that list what they leave to the CPU |
| `ray_calls.py` | Ray queries: arguments, kernels, what is left to the CPU, answers |
| `point_calls.py` | Point queries, likewise |
| `trees.py` | `DeviceBVH` and `DeviceScene`, and the devices that there are |
| `camera_rays.py` | Rays of cameras, made on a device |
"""

from bvh.runtime.registry import extra

with extra("gpu", "trees on devices need NVIDIA Warp"):
    import warp as warp
