"""Container format of saved trees and scenes: a header with a table of arrays, then the arrays.

A file is a header of 1024 bytes, then flat arrays, each at the next multiple of 64 bytes, and zeros
in between and up to a multiple of 64 at the end. All numbers are little-endian.

====== ===== =====================================================================================
offset bytes header
====== ===== =====================================================================================
0      8     magic, which identifies the kind of file, and which any transfer as text changes
8      4 * 3 version, byte order mark 0x01020304, bytes of the header
20     ...   fields of the kind of file (see `file_formats`)
...    72 n  arrays: name (16), dtype (8), rows, columns, offset, bytes (8 each), digest (16)
...          zeros
1008   16    BLAKE2b of all before
====== ===== =====================================================================================

The digest of an array is the BLAKE2b of the CRC-32s of its pieces of 1 MiB: pieces can be checked
in parallel, as fast as memory is read. It finds damage, not forgery: whoever writes a file can
also write its digests, or other arrays with the same ones. So arrays are checked whatever their
digests are (see `untrusted`), and files are not identified by them (see `part_folder`).
"""

import contextlib
import os
import secrets
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.untrusted_files import path_name
from bvh.runtime.threads import share

ORDER_MARK = 0x01020304
HEADER_SIZE = 1024
ALIGNMENT = 64
DIGEST_SIZE = 16
# Bytes of a piece of an array, which has a CRC-32.
PIECE = 1 << 20
# Bytes that are written at a time; Ctrl-C is noticed in between.
WRITTEN_PIECE = 1 << 24

Digests = tuple[bytes, ...]
Piece = NDArray[np.uint8]

_BEGIN = struct.Struct("<8sII")
_ENTRY = struct.Struct("<16s8s4Q16s")


class ArrayEntry(NamedTuple):
    """An array in a file: its type such as "<f8", its shape, and where its bytes are."""

    name: str
    dtype: str
    rows: int
    columns: int  # 0 for a flat array
    offset: int
    size: int


def padded(size: int) -> int:
    """Return `size`, a number of bytes, rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def laid_out(shapes: list[tuple[str, str, int, int]]) -> list[ArrayEntry]:
    """Return table entries that place arrays one after another, from HEADER_SIZE on, aligned.

    A shape is (name, dtype, rows, columns) of an array; flat arrays have 0 columns.
    """
    entries, offset = [], HEADER_SIZE
    for name, dtype, rows, columns in shapes:
        # The last character of a dtype such as "<f8" is its bytes.
        size = rows * max(columns, 1) * int(dtype[2])
        entries.append(ArrayEntry(name, dtype, rows, columns, offset, size))
        offset += padded(size)
    return entries


def end_of(entries: list[ArrayEntry]) -> int:
    """Return the offset in bytes of the end of all arrays, including zeros up to the alignment."""
    return entries[-1].offset + padded(entries[-1].size)


def packed_header(fields: bytes, entries: list[ArrayEntry], digests: tuple[bytes, ...]) -> bytes:
    """Return a header: `fields`, bytes before the table; the table of arrays; the checksum."""
    parts = [fields]
    for entry, digest in zip(entries, digests, strict=True):
        name, dtype, *numbers = entry
        parts.append(_ENTRY.pack(name.encode(), dtype.encode(), *numbers, digest))
    body = b"".join(parts).ljust(HEADER_SIZE - DIGEST_SIZE, b"\0")
    return body + blake2b(body, digest_size=DIGEST_SIZE).digest()


NOT_SAVED = "is not a saved tree or scene; bvh.BVH.from_file and bvh.load_scene read other files"


def check_header(data: bytes, magic: bytes, newest: int) -> None:
    """Raise unless `data`, the first bytes of a file, is an undamaged header of a known version.

    `magic` and `newest` are those of the kind of file. Callers add the name of the file.
    """
    if not data.startswith(magic):
        raise ValueError(NOT_SAVED)
    if len(data) < HEADER_SIZE:
        raise ValueError(f"is cut off: it has {len(data)} of the {HEADER_SIZE} bytes of a header")
    version, mark = _BEGIN.unpack_from(data)[1:]
    if mark != ORDER_MARK:
        raise ValueError("is damaged: its byte order mark is wrong")
    if not 1 <= version <= newest:
        raise ValueError(f"has format version {version}; this version of bvh reads 1 to {newest}")
    body = data[: HEADER_SIZE - DIGEST_SIZE]
    if blake2b(body, digest_size=DIGEST_SIZE).digest() != data[HEADER_SIZE - DIGEST_SIZE :]:
        raise ValueError("is damaged: the checksum of its header is wrong")


def check_packed(data: bytes, packed: bytes, size: int, expected_size: int) -> None:
    """Raise unless the header in `data`, the first bytes of a file, agrees with its own counts.

    `packed` is the header packed again from these counts, which determine the table of arrays. The
    file has `size` bytes, by its header `expected_size`.
    """
    if packed != data[:HEADER_SIZE]:
        raise ValueError("is not valid: its table of arrays contradicts its counts")
    if size != expected_size:
        what = "is cut off" if size < expected_size else "is too long"
        raise ValueError(f"{what}: it has {size} bytes, its header says {expected_size}")


def digests_in(data: bytes, begin: int, count: int) -> tuple[bytes, ...]:
    """Return the digests in a header whose table of `count` arrays begins at byte `begin`."""
    table = data[begin : begin + count * _ENTRY.size]
    # The digest is the last field of an entry.
    return tuple(row[-1] for row in _ENTRY.iter_unpack(table))


def digest_of(array: NDArray[Any], threads: int) -> bytes:
    """Return the digest of a C-contiguous array's bytes: the BLAKE2b of its pieces' CRC-32s."""
    data = array.reshape(-1).view(np.uint8)
    sums = np.empty(-(-len(data) // PIECE), "<u4")

    def work(begin: int, end: int) -> None:
        for i in range(begin, end):
            sums[i] = zlib.crc32(data[i * PIECE : (i + 1) * PIECE].data)

    # A thread takes four pieces at a time.
    share(len(sums), 4, work, threads)
    return blake2b(sums.tobytes(), digest_size=DIGEST_SIZE).digest()


def read_arrays(
    content: Piece, entries: list[ArrayEntry], digests: Digests | None, threads: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays in `content`, a file's bytes, by name, as views.

    If `digests` are given, `threads` threads check those of the arrays, and padding must be zeros.
    """
    arrays = {}
    for k, entry in enumerate(entries):
        end = entry.offset + entry.size
        data = content[entry.offset : end]
        if digests is not None:
            if digest_of(data, threads) != digests[k]:
                raise ValueError(f"is damaged: the checksum of its array {entry.name!r} is wrong")
            if content[end : entry.offset + padded(entry.size)].any():
                raise ValueError(f"is damaged: there is something behind its array {entry.name!r}")
        array = data.view(entry.dtype)
        if entry.columns:
            array = array.reshape(entry.rows, entry.columns)
        # This copies on big-endian machines only.
        arrays[entry.name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


def file_pieces(
    entries: list[ArrayEntry], arrays: dict[str, Any], packed: Callable[[Digests], bytes],
    threads: int,
) -> Iterator[Piece]:  # fmt: skip
    """Yield the bytes of a file piece by piece: header, then `arrays` by `entries`, and padding.

    ``packed(digests)`` returns the header, for digests that `threads` threads compute.
    """
    stored = [np.ascontiguousarray(arrays[entry.name], entry.dtype) for entry in entries]
    header = packed(tuple(digest_of(array, threads) for array in stored))
    yield np.frombuffer(header, np.uint8)
    for array in stored:
        data = array.reshape(-1).view(np.uint8)
        for begin in range(0, len(data), WRITTEN_PIECE):
            yield data[begin : begin + WRITTEN_PIECE]
        yield np.zeros(-len(data) % ALIGNMENT, np.uint8)


def write_pieces(file: BinaryIO, pieces: Iterable[Piece]) -> None:
    """Write pieces of bytes to an open file, and wait until they are on the disk."""
    for piece in pieces:
        file.write(piece.data)
    file.flush()
    os.fsync(file.fileno())


def replace_file(target: str | os.PathLike[str], pieces: Iterable[Piece]) -> None:
    """Write a file atomically: its path refers to the old content or to the complete new one."""
    # A link stays, and the file that it points at is replaced, as by a plain write. Errors name
    # the path that was given.
    given_path = path_name(target)
    path = os.path.realpath(given_path)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"{given_path} is something else than a file")
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}")
    try:
        # Mode "x" creates the file, with the permissions that every new file gets.
        with open(temporary, "xb") as file:
            write_pieces(file, pieces)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is not None:
            raise OSError(error.errno, error.strerror, given_path) from None
        raise
    # Bring the new name to the disk, too, if the system can open a folder for that.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
