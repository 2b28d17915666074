"""The public names, and the module of each."""

from bvh.distributed.kernel_plugin import KernelPlugin as KernelPlugin
from bvh.distributed.lazy_queries import LazyLists as LazyLists
from bvh.distributed.lazy_queries import join as join
from bvh.distributed.out_of_core.parts import Parts as Parts
from bvh.distributed.ray_sources import RaySource as RaySource
from bvh.distributed.ray_sources import camera_rays as camera_rays
