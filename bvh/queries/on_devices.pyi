"""Types of the results of `BVH.to` and `Scene.to`, for type checkers; enrolled at run time."""

from bvh.devices.trees import DeviceBVH as DeviceBVH
from bvh.devices.trees import DeviceScene as DeviceScene
