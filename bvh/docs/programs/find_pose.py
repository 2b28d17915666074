"""Find the pose of a mesh from 64 distances, by gradient descent (needs PyTorch).

Run with ``python -m bvh.docs.programs.find_pose``.
"""

import torch
import trimesh

import bvh.torch


def placed(points: torch.Tensor, pose: torch.Tensor) -> torch.Tensor:
    """Return points in the frame of a body with a pose: a rotation vector and a translation."""
    x, y, z = pose[:3]
    zero = torch.zeros_like(x)
    turning = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    return (points - pose[3:]) @ torch.linalg.matrix_exp(turning)


def find_pose(steps: int = 150, seed: int = 0) -> tuple[float, float]:
    """Return the error of the pose at the start and at the end."""
    torch.manual_seed(seed)
    tree = bvh.BVH.from_mesh(trimesh.creation.box([1.0, 0.6, 0.3]))
    truth = torch.tensor([0.3, -0.2, 0.4, 0.2, -0.1, 0.15], dtype=torch.float64)
    sensors = torch.nn.functional.normalize(torch.randn(64, 3, dtype=torch.float64), dim=1) * 1.5
    measured = bvh.torch.distance(tree, placed(sensors, truth))
    pose = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.Adam([pose], lr=0.03)
    for _ in range(steps):
        descent.zero_grad()
        (bvh.torch.distance(tree, placed(sensors, pose)) - measured).square().sum().backward()
        descent.step()
    return float(truth.norm()), float((pose.detach() - truth).norm())


if __name__ == "__main__":
    print("error of the pose: {:.3f} at first, {:.6f} at last".format(*find_pose()))  # noqa: T201
