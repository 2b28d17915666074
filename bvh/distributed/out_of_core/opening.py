"""`bvh.load`: saved trees and scenes, and folders of parts."""

import os

from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.part_index import is_url
from bvh.queries.hierarchy import BVH
from bvh.scene.files import loading
from bvh.scene.scene import Scene


def load(
    path: str | os.PathLike[str], *, mmap: bool = False, verify: bool = True, audit: bool = False,
    threads: int | None = None, memory: int | str = "2GB",
) -> BVH | Scene | Parts:  # fmt: skip
    """Read what was saved: a tree, a scene, or a folder of parts that `partition` has written.

    A file can be damaged, or crafted to do harm; no such file leads to anything but a ValueError,
    or to a tree that is safe to query. It holds no code.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder of parts, which may be a URL of fsspec.
    mmap : bool
        Map the file into memory instead of reading it: a tree of any size is available at once, is
        read from the disk as far as queries need it, and is shared by all processes that map it.
        Triangle groups of files of versions 1 and 2 are packed anew, in memory of each process. The
        file must not be changed in place while the tree is in use: where it was cut off, the system
        ends the process. To save to it again is safe.
    verify : bool
        Check checksums and structure, which takes about as long as reading the file does: at once,
        or with `mmap` at the first use of the tree, whatever it is, which then raises the
        ValueError. Without it only the header is checked: for files that you have written
        yourself, and that cannot have been damaged.
    audit : bool
        Run `BVH.validate`, too, and at once: correct answers depend on the boxes of nodes, which a
        carefully crafted file can get wrong in spite of all checksums. Of a folder, it computes the
        digests of all files, too.
    threads : int, optional
        Threads for the checks; one for each CPU by default, -1 for all.
    memory : int or str
        Bytes of parts that are mapped at a time. Parts are mapped when they are needed, and each is
        checked when a process opens it first, whatever the other arguments are.

    Returns
    -------
    BVH, Scene or Parts
        Answers bit for bit as the one that was saved. Where this CPU suits nodes of another width
        than the one that saved the tree, it is built again from its primitives. Of a scene, the
        tables of instances and attributes are always read and checked, and the rest of what is
        documented here applies to each of its trees.

    Raises
    ------
    ValueError
        If the file is neither tree nor scene, is of another version, damaged, or not valid, or if a
        folder of parts is not finished; the message says how.
    FileNotFoundError
        If there is none.

    Examples
    --------
    >>> import bvh, os, tempfile
    >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "boxes.bvh")
    >>> tree.save(path)
    >>> bvh.load(path, mmap=True)
    BVH(2 boxes, 1 node)
    """
    place = os.fspath(path)
    if is_url(place) or os.path.isdir(place):
        parts = Parts(place, memory=memory)
        if audit:
            parts.validate()
        return parts
    return loading.load(path, mmap=mmap, verify=verify, audit=audit, threads=threads)
