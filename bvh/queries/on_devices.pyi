"""What `BVH.to` and `Scene.to` return, for type checkers alone; at run time it is enrolled."""

from bvh.devices.trees import DeviceBVH as DeviceBVH
from bvh.devices.trees import DeviceScene as DeviceScene
