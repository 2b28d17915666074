"""Files of rays and hits, as the command line reads and writes them."""

from __future__ import annotations

import csv
import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import replace_file
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits, SceneHits
from bvh.scene.scene import Scene

RAY_COLUMNS = ("ox", "oy", "oz", "dx", "dy", "dz", "t_min", "t_max")
HIT_COLUMNS = ("t", "prim_id", "u", "v", "front")
SCENE_COLUMNS = ("instance_id", "leaf")
HIT_FORMATS = ("%.17g", "%d", "%.17g", "%.17g", "%d")
HIT_ENDINGS = (".npz", ".csv")


def read_rays(path: Path) -> NDArray[np.float64]:
    """Read rays from a .npy or .csv file.

    Parameters
    ----------
    path : Path
        Rows of six numbers, origin and direction, or eight, with t_min and t_max. A .csv file may
        begin with a line of names.

    Returns
    -------
    ndarray of float64, shape (n, 6) or (n, 8)

    Raises
    ------
    ValueError
        If the file has other content; the message names it.
    FileNotFoundError
        If there is no such file.
    """
    if path.suffix not in (".npy", ".csv"):
        raise ValueError(f"rays must be in a .npy or .csv file, got {path}")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        columns = _read_npy(path) if path.suffix == ".npy" else _read_csv(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"cannot read rays from {path}: {error}") from error
    if columns.dtype.kind not in "iuf":
        raise ValueError(f"{path} must hold real numbers, got {columns.dtype}")
    if columns.ndim != 2 or columns.shape[1] not in (6, 8):
        names = " ".join(RAY_COLUMNS)
        raise ValueError(f"{path} must have 6 or 8 columns ({names}), got shape {columns.shape}")
    return columns.astype(np.float64)


def write_hits(path: Path, hits: Hits, source: BVH | Scene | None = None) -> None:
    """Write hits to a .npz file with an array for each field, or to a .csv file with names.

    An existing file is replaced only by a complete one. Hits of a scene also have the columns of
    `SCENE_COLUMNS`, and those of a source of polygons a column `face_id`.
    """
    extra: tuple[str, ...] = SCENE_COLUMNS if isinstance(hits, SceneHits) else ()
    arrays = {name: np.atleast_1d(getattr(hits, name)) for name in HIT_COLUMNS + extra}
    faces = None if source is None else _face_ids(source, hits)
    if faces is not None:
        arrays["face_id"] = np.atleast_1d(faces)
        extra = (*extra, "face_id")
    stream = io.BytesIO()
    if path.suffix == ".npz":
        # numpy's types take any name for its option allow_pickle.
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    else:
        formats = HIT_FORMATS + ("%d",) * len(extra)
        columns = np.column_stack(list(arrays.values()))
        np.savetxt(stream, columns, formats, ",", header=",".join(arrays), comments="")
    replace_file(os.fspath(path), iter([np.frombuffer(stream.getbuffer(), np.uint8)]))


def _face_ids(source: BVH | Scene, hits: Any) -> Any:
    """Return the source's own face indices of hits, or None where these are `prim_id`."""
    trees = source.leaves.trees if isinstance(source, Scene) else [source]
    if all(tree.face_ids is None for tree in trees):
        return None
    if isinstance(source, Scene):
        return source.face_of(hits.leaf, hits.prim_id)
    return source.face_of(hits.prim_id)


def _read_npy(path: Path) -> NDArray[Any]:
    # Not `np.load`, which also reads zip files and pickles under any name.
    with path.open("rb") as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _read_csv(path: Path) -> NDArray[np.float64]:
    with path.open(newline="") as file:
        first = next(csv.reader(file), [])
    with warnings.catch_warnings():
        # A file without rows is rejected by its shape.
        warnings.simplefilter("ignore", UserWarning)
        return np.loadtxt(path, delimiter=",", skiprows=int(not _numeric(first)), ndmin=2)


def _numeric(fields: list[str]) -> bool:
    """Return whether a row has at least one number, and so is not a line of names."""
    for field in fields:
        try:
            float(field)
        except ValueError:
            continue
        return True
    return not fields
