"""Base colours: of images, factors, vertices and faces, sampled by the hits of exact rays."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Camera, Scene
from bvh.apps.viewer.drawing import PageFrame, drawing_of
from bvh.io.materials import Images, linear_of, srgb_of
from bvh.pictures.rendering import render
from bvh.pictures.shading import PLAIN
from bvh.pictures.surfaces import Surfaces

trimesh = pytest.importorskip("trimesh")
image = pytest.importorskip("PIL.Image")

SQUARE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
HALVES = np.array([[0, 1, 2], [0, 2, 3]])
# From above, four by two pixels, in rows from above.
LOOK = Camera.orthographic([0.5, 0.5, 5], [0.5, 0.5, 0], [0, 1, 0], 1.0, 4, 4)


def square(**visual: Any) -> Any:
    """Return a square mesh with the texture coordinates of its corners, or with colours."""
    mesh = trimesh.Trimesh(SQUARE, HALVES, process=False)
    if "material" in visual:
        mesh.visual = trimesh.visual.TextureVisuals(uv=SQUARE[:, :2], **visual)
    else:
        mesh.visual = trimesh.visual.ColorVisuals(mesh, **visual)
    return mesh


def colours_of(*meshes: Any) -> np.ndarray:
    """Return the linear base colours at the pixels of a scene."""
    scene = Scene()
    for mesh in meshes:
        scene.add(mesh)
    hits = scene.closest_hit(*LOOK.rays())
    assert hits.mask.all()
    return Surfaces(scene).base_colours(hits.reshape(-1) if hits.mask.ndim == 1 else flat(hits),
                                        PLAIN).reshape(4, 4, 3)  # fmt: skip


def flat(hits: Any) -> Any:
    """Return hits in a row."""
    return hits[hits.mask]


def test_transfer_functions() -> None:
    """Those of sRGB: inverse to each other, and known values."""
    values = np.linspace(0.0, 1.0, 1001)
    assert np.allclose(srgb_of(linear_of(values)), values, atol=1e-9)
    assert np.allclose(linear_of([0.0, 0.02, 0.5, 1.0]), [0.0, 0.02 / 12.92, 0.21404114, 1.0])


def test_images(rng: np.random.Generator) -> None:
    """Rays through the centres of pixels see these, in linear light; the first row is above."""
    pixels = rng.integers(0, 256, (4, 4, 3), np.uint8)
    for material in (
        trimesh.visual.material.SimpleMaterial(image=image.fromarray(pixels)),
        trimesh.visual.material.PBRMaterial(baseColorTexture=image.fromarray(pixels)),
    ):
        assert np.allclose(colours_of(square(material=material)), linear_of(pixels / 255.0))
    red = trimesh.visual.material.PBRMaterial(
        baseColorTexture=image.fromarray(pixels), baseColorFactor=[255, 51, 0, 255]
    )
    wanted = linear_of(pixels / 255.0) * [1.0, 0.2, 0.0]
    assert np.allclose(colours_of(square(material=red)), wanted)


def test_between_pixels() -> None:
    """Images repeat, and are blended in linear light, also across their border."""
    two = image.fromarray(np.array([[[0] * 3, [255] * 3]], np.uint8))
    at = np.array([0.25, 0.5, 0.75, 1.0, 0.375, -0.75, 7.75])
    found = Images().sample(two, np.stack([at, np.zeros(7)], axis=1))
    assert np.allclose(found[:, 0], [0.0, 0.5, 1.0, 0.5, 0.25, 0.0, 1.0])
    rows = image.fromarray(np.array([[[255] * 3], [[0] * 3]], np.uint8))
    found = Images().sample(rows, np.array([[0.3, 0.25], [0.3, 0.75], [0.3, 0.5]]))
    assert np.allclose(found[:, 0], [0.0, 1.0, 0.5])
    assert np.allclose(Images().sample(rows.convert("L"), np.array([[0.3, 0.75]])), 1.0)


def test_images_that_are_damaged(rng: np.random.Generator) -> None:
    """They are opened before they are decoded: pictures and pages are drawn without them."""
    whole, cut = io.BytesIO(), io.BytesIO()
    image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(whole, "PNG")
    cut.write(whole.getvalue()[:2000])
    material = trimesh.visual.material.SimpleMaterial(image=image.open(cut), diffuse=[255, 0, 0])
    with pytest.warns(bvh.BVHWarning, match="a texture is left out, .*: image file is truncated"):
        assert (colours_of(square(material=material)) == [1.0, 0.0, 0.0]).all()
    pytest.importorskip("viser")
    scene = Scene()
    scene.add(square(material=material))
    with pytest.warns(bvh.BVHWarning, match="a texture is left out"):
        (part,) = drawing_of(scene, PageFrame.around(scene.bounds)).parts
    assert part.glb is not None and b"baseColorTexture" not in part.glb


def test_colours_of_vertices_and_faces(tmp_path: Path) -> None:
    """In sRGB; linear where glTF says so; of a mesh without any a plain one."""
    colours = np.array([[255, 0, 0, 255], [0, 0, 128, 255]], np.uint8)
    found = colours_of(square(face_colors=colours))
    # The first face is below the diagonal.
    assert np.allclose(found[3, 3], [1.0, 0.0, 0.0])
    assert np.allclose(found[0, 0], [0.0, 0.0, linear_of(128 / 255.0)])
    corners = np.array([[0, 0, 0, 255], [255, 0, 0, 255], [255, 255, 0, 255], [0, 255, 0, 255]])
    centres = (np.arange(4) + 0.5) / 4
    wanted = np.zeros((4, 4, 3))
    wanted[..., 0], wanted[..., 1] = centres, centres[::-1, None]
    assert np.allclose(colours_of(square(vertex_colors=corners.astype(np.uint8))), wanted)
    grey = square(vertex_colors=np.full((4, 4), 128, np.uint8))
    assert np.allclose(colours_of(grey), linear_of(128 / 255.0))
    grey.export(tmp_path / "grey.glb")
    tree = bvh.load_scene(tmp_path / "grey.glb")
    material = tree.attributes(tree[0].child).material
    assert material is not None and material.linear
    assert np.allclose(colours_of(square()), PLAIN)


def test_what_is_no_material() -> None:
    """Unset ones of trimesh, colours that do not fit, and meshes of other kinds."""
    unset = trimesh.visual.material.SimpleMaterial()
    for mesh in (square(), square(material=unset), (SQUARE, HALVES)):
        scene = Scene()
        scene.add(mesh)
        assert scene.attributes(scene[0].child).material is None


def test_pictures(tmp_path: Path) -> None:
    """The shade is that of the light on the base colour, also in saved scenes; trees are plain."""
    red = trimesh.visual.material.PBRMaterial(baseColorFactor=[255, 0, 0, 255])
    white = trimesh.visual.material.PBRMaterial(baseColorFactor=[255, 255, 255, 255])
    scenes = [Scene(), Scene()]
    for scene, material in zip(scenes, (red, white), strict=True):
        scene.add(square(material=material))
    pixels, light = (render(scene, LOOK, "material").pixels for scene in scenes)
    assert np.array_equal(pixels[..., 0], light[..., 0]) and light.min() > 128
    assert pixels[..., 1:].max() == 0
    scenes[0].save(tmp_path / "red.bvh")
    loaded: Any = bvh.load(tmp_path / "red.bvh")
    assert np.array_equal(render(loaded, LOOK, "material").pixels, pixels)
    tree = BVH.from_triangles(SQUARE, HALVES)
    plain = render(tree, LOOK, "material").pixels
    spread = plain.max(axis=-1).astype(int) - plain.min(axis=-1)
    assert spread.max() < 16 < plain.min()
