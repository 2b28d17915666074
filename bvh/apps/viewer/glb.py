"""Meshes with materials as GLB, the form in which a page takes them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.materials import Material
from bvh.io.trimesh_scenes import Attributes


def glb_of(
    vertices: NDArray[np.floating], faces: NDArray[np.integer], known: Attributes, smooth: bool,
    given_normals: bool,
) -> bytes:  # fmt: skip
    """Return a mesh with its material; normals are its own if `given_normals`, or computed."""
    import trimesh
    from trimesh.exchange import gltf

    visual: Any = trimesh.visual
    material = known.material
    assert material is not None
    # A page can read no number that is not finite.
    uv, normals = _finite(known.uv, [0.0, 0.0]), _finite(known.vertex_normals, [0.0, 0.0, 1.0])
    colours = material.vertex_colors
    if colours is not None:
        colours = _linear(material, colours) if len(colours) == len(vertices) else None
    if material.face_colors is not None:
        # Corners of different colours are vertices of their own.
        corners = faces.reshape(-1)
        colours = np.repeat(_linear(material, material.face_colors), 3, axis=0)
        vertices, faces = vertices[corners], np.arange(len(corners)).reshape(-1, 3)
        uv = None if uv is None else uv[corners]
        normals = None if normals is None else normals[corners]
        smooth = False
    known_normals = normals if given_normals else None
    mesh = trimesh.Trimesh(vertices, faces, vertex_normals=known_normals, process=False)
    factor = [*material.factor.tolist(), 1.0]
    look = visual.material.PBRMaterial(
        baseColorFactor=(255.0 * np.array(factor)).round().astype(np.uint8),
        baseColorTexture=None if uv is None else material.image,
        metallicFactor=0.0, roughnessFactor=0.9, doubleSided=True,
    )  # fmt: skip
    # Without texture coordinates there is no texture, and the colours have a place of their own.
    mesh.visual = visual.TextureVisuals(uv=uv, material=look)
    if colours is not None:
        mesh.visual = visual.ColorVisuals(mesh, vertex_colors=colours)
    with_normals = smooth or known_normals is not None
    return bytes(gltf.export_glb(mesh, include_normals=with_normals))  # type: ignore[no-untyped-call]


def _finite(rows: NDArray[np.floating] | None, other: list[float]) -> NDArray[np.float32] | None:
    """Return rows, if there are any, as float32, those that are not finite as another."""
    if rows is None:
        return None
    with np.errstate(over="ignore"):
        found = np.asarray(rows, np.float32)
    finite = np.all(np.isfinite(found), axis=1, keepdims=True)
    return np.where(finite, found, np.array(other, np.float32))


def _linear(material: Material, colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return colours times the factor as glTF has them, linear, with full opacity."""
    found = np.full((len(colours), 4), 255, np.uint8)
    found[:, :3] = np.round(255.0 * material.light_of(colours) * material.factor)
    return found
