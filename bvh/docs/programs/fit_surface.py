"""Fit a surface to a cloud of points: move its vertices, refit the tree, repeat (needs PyTorch).

Run with ``python -m bvh.docs.programs.fit_surface``.
"""

import torch
import trimesh

import bvh.torch


def fit_surface(steps: int = 100, seed: int = 0) -> tuple[float, float]:
    """Return the mean distance of the points from the surface, at the start and at the end."""
    torch.manual_seed(seed)
    # Points of an ellipsoid, to be met by a sphere.
    cloud = torch.nn.functional.normalize(torch.randn(2_000, 3, dtype=torch.float64), dim=1)
    cloud *= torch.tensor([1.4, 1.0, 0.7])
    sphere = trimesh.creation.icosphere(2)
    vertices = torch.tensor(sphere.vertices, dtype=torch.float64, requires_grad=True)
    edges = torch.tensor(sphere.edges_unique)
    tree = bvh.BVH.from_triangles(sphere.vertices, sphere.faces)
    descent = torch.optim.Adam([vertices], lr=0.02)
    distances = []
    for _ in range(steps):
        tree.refit(vertices.detach().numpy())
        far = bvh.torch.distance(tree, cloud, vertices)
        distances.append(float(far.detach().mean()))
        # Short edges keep the surface smooth.
        lengths = (vertices[edges[:, 0]] - vertices[edges[:, 1]]).square().sum(1)
        descent.zero_grad()
        (far.square().mean() + 1e-3 * lengths.mean()).backward()
        descent.step()
    return distances[0], distances[-1]


if __name__ == "__main__":
    print("mean distance: {:.4f} at first, {:.4f} at last".format(*fit_surface()))  # noqa: T201
