"""Folder of a partitioned mesh: one file for each part's tree, one for its ids, and an index.

========== ==================================================================================
file       content
========== ==================================================================================
index.json version, number of triangles, sources, of each part its box, counts, digests and bits
           of groups, and the checksum of all this (see `part_index`)
00000.bvh  the tree of a part, as `BVH.save` writes it
00000.npy  the ids of its triangles in the mesh, int64, ascending
========== ==================================================================================

The index is written last, so that a folder without one is not finished. A folder may be a URL of
fsspec (see `fetched_files`).
"""

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bvh.distributed import part_index
from bvh.distributed.part_index import INDEX, PartRecord, Source, file_names, file_system, is_url
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE, write_pieces
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_base import file_of
from bvh.runtime.threads import watch

SCRATCH = "unfinished"

# Names of files of parts.
OURS = re.compile(r"\d{5,}\.(bvh|npy)")


class NewPartFolder:
    """Local folder in which parts are being written, and the place that they are for."""

    def __init__(self, place: str, path: Path) -> None:
        self._place, self.path = place, path
        self.scratch = path / SCRATCH

    def add(self, number: int, tree: BVH, ids: NDArray[np.int64]) -> PartRecord:
        """Write the files of a part; return its record."""
        tree_path, ids_path = (self.path / name for name in file_names(number))
        size, contents = file_of(tree, 1)
        pieces, stream = list(contents), io.BytesIO()

        def write() -> None:
            with open(tree_path, "xb") as file:
                write_pieces(file, pieces)

        # The digest is computed while the file is written, which waits for the disk.
        digest = partial(part_index.content_digest, pieces)
        digest_of_tree, _ = watch((digest, write), 2, np.zeros(1, np.int32))
        np.save(stream, ids)
        with open(ids_path, "xb") as file:
            file.write(stream.getbuffer())
        header = pieces[0][HEADER_SIZE - DIGEST_SIZE :].tobytes().hex()
        of_ids = stream.tell(), part_index.content_digest([stream.getbuffer()])
        details = size, header, *of_ids, part_index.bits_of(tree), digest_of_tree
        box = tree.bounds.reshape(-1).tolist()
        return PartRecord(len(ids), box if np.isfinite(box).all() else None, *details)

    def publish(self, parts: list[PartRecord], sources: list[Source], quality: str) -> None:
        """Copy the parts to the URL, if the place is one, and write the index last."""
        content = {
            "format": part_index.FORMAT, "version": part_index.VERSION,
            "triangles": sum(part.triangles for part in parts), "quality": quality,
            "sources": [*map(asdict, sources)], "parts": [*map(asdict, parts)],
        }  # fmt: skip
        content["digest"] = part_index.index_digest(content)
        text = json.dumps(content, indent=1).encode()
        if not is_url(self._place):
            new = self.scratch / INDEX
            with open(new, "xb") as file:
                write_pieces(file, [np.frombuffer(text, np.uint8)])
            os.replace(new, self.path / INDEX)
            return
        files, root = file_system(self._place)
        files.makedirs(root, exist_ok=True)
        for number in range(len(parts)):
            for name in file_names(number):
                files.put_file(str(self.path / name), f"{root}/{name}")
        files.pipe_file(f"{root}/{INDEX}", text)


@contextlib.contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[NewPartFolder]:
    """Prepare an empty folder for parts; after an exception, remove the files."""
    place = os.fspath(folder)
    if is_url(place):
        files, root = file_system(place)
        try:
            names = [os.path.basename(path) for path in files.find(root, maxdepth=1)]
        except FileNotFoundError:
            names = []
        if not all(OURS.fullmatch(name) for name in names):
            raise FileExistsError(f"folder has files in it: {place}")
        with tempfile.TemporaryDirectory() as local:
            target = NewPartFolder(place, Path(local))
            target.scratch.mkdir()
            yield target
        return
    path = Path(place)
    path.mkdir(parents=True, exist_ok=True)
    if left := os.listdir(path):
        hint = "; of another process, or of one that was killed: then remove them"
        raise FileExistsError(f"folder has files in it: {path}{hint if SCRATCH in left else ''}")
    target = NewPartFolder(place, path)
    # By one process alone; all files are new ones, so no link is followed.
    target.scratch.mkdir()
    try:
        yield target
    except BaseException:
        if not (path / INDEX).exists():
            for name in filter(OURS.fullmatch, os.listdir(path)):
                (path / name).unlink()
        raise
    finally:
        shutil.rmtree(target.scratch, ignore_errors=True)
