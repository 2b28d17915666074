"""`bvh.load`: saved trees and scenes, and folders of parts."""

from __future__ import annotations

import os

from bvh.distributed.out_of_core.part_folder import is_url
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.hierarchy import BVH
from bvh.scene.files import loading
from bvh.scene.scene import Scene


def load(
    path: str | os.PathLike[str],
    *,
    mmap: bool = False,
    verify: bool = True,
    audit: bool = False,
    threads: int | None = None,
    memory: int | str = "2GB",
) -> BVH | Scene | Parts:
    """TODO"""
    place = os.fspath(path)
    if is_url(place) or os.path.isdir(place):
        return Parts(place, memory=memory)
    return loading.load(path, mmap=mmap, verify=verify, audit=audit, threads=threads)
