"""Meshes with materials, as pages take them."""

from __future__ import annotations

import json
import struct
import warnings
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import Scene
from bvh.apps.viewer.drawing import PageFrame, drawing_of


def header_of(mesh: Any) -> str:
    """Return the JSON of the GLB that a page is sent for a mesh."""
    scene = Scene()
    scene.add(mesh)
    (part,) = drawing_of(scene, PageFrame.around(scene.bounds)).parts
    assert part.glb is not None
    (size,) = struct.unpack("<I", part.glb[12:16])
    return part.glb[20 : 20 + size].decode()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite(bad: float) -> None:
    """JSON has none: a page that was sent one showed nothing of the mesh."""
    image: Any = pytest.importorskip("PIL.Image")
    look: Any = trimesh.visual
    box = trimesh.creation.box()
    uv, normals = np.full((8, 2), 0.5), np.array(box.vertex_normals)
    uv[0], normals[0] = bad, bad
    textured = trimesh.Trimesh(box.vertices, box.faces, vertex_normals=normals, process=False)
    paint = look.material.SimpleMaterial(image=image.new("RGB", (2, 2)))
    textured.visual = look.TextureVisuals(uv=uv, material=paint)

    def refuse(word: str) -> None:
        raise ValueError(word)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        json.loads(header_of(textured), parse_constant=refuse)
