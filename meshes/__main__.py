"""Write the mesh files: ``python -m meshes`` those kept here, ``--large`` the big ones as well."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import hostile, instanced, ply
from .cad_part import cad_part
from .interior import interior
from .organic import organic
from .shapes import Mesh
from .terrain import terrain

HERE = Path(__file__).parent


def write_hostile(path: Path) -> None:
    """Write all hostile meshes as ``name.vertices`` and ``name.faces`` of one npz file."""
    arrays: dict[str, Any] = {}
    for name, (vertices, faces) in hostile.meshes().items():
        arrays[f"{name}.vertices"] = vertices
        arrays[f"{name}.faces"] = faces
    # Leave it uncompressed: compressors differ between machines, arrays do not.
    np.savez(path, **arrays)


def write_scene(path: Path) -> None:
    """Write the instanced scene as GLB, in which y is up."""
    scene: Any = instanced.scene()
    scene.apply_transform([[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    path.write_bytes(scene.export(file_type="glb"))


def as_float(generate: Callable[[], Mesh]) -> Callable[[Path], None]:
    """Return what writes a mesh with float32 coordinates."""
    return lambda path: ply.write(path, generate(), "float")


def as_double(generate: Callable[[], Mesh]) -> Callable[[Path], None]:
    """Return what writes a mesh with float64 coordinates."""
    return lambda path: ply.write(path, generate(), "double")


KEPT: dict[str, Callable[[Path], None]] = {
    "organic.ply": as_float(organic),
    "interior.ply": as_float(interior),
    "terrain.ply": as_double(terrain),
    "cad_part.ply": as_double(cad_part),
    "instanced.glb": write_scene,
    "hostile.npz": write_hostile,
}

LARGE: dict[str, Callable[[Path], None]] = {
    "organic.ply": as_float(lambda: organic(224)),
    "interior.ply": as_float(lambda: interior(20.0)),
    "terrain.ply": as_double(lambda: terrain(512)),
    "cad_part.ply": as_double(lambda: cad_part(384)),
}


def write_all(folder: Path, writers: dict[str, Callable[[Path], None]]) -> None:
    """Write files into a folder and say what each took."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in writers.items():
        start = time.perf_counter()
        write(folder / name)
        seconds = time.perf_counter() - start
        print(f"{folder / name}: {(folder / name).stat().st_size:,} bytes, {seconds:.2f} s")


def main() -> None:
    """Read the command line and write."""
    parser = argparse.ArgumentParser(prog="python -m meshes", description=__doc__)
    parser.add_argument("--large", action="store_true", help="also write meshes/generated/")
    parser.add_argument("--folder", type=Path, default=HERE, help="where to write instead")
    options = parser.parse_args()
    write_all(options.folder, KEPT)
    if options.large:
        write_all(options.folder / "generated", LARGE)


if __name__ == "__main__":
    main()
