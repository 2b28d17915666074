"""Accessors of glTF files as arrays: ranges checked, sparse values applied, integers normalized."""

import base64
import math
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.caller_warnings import warn_caller

Json = dict[str, Any]
Numbers = NDArray[Any]

# Types of numpy by component types, and components of an element by types of accessors.
TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
LANES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
# Component types of indices, and the divisors of normalized integers (glTF 2.0, section 3.11).
UNSIGNED = (5121, 5123, 5125)
LARGEST = {5120: 127.0, 5121: 255.0, 5122: 32767.0, 5123: 65535.0}

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
COMPRESSED = {"KHR_draco_mesh_compression", *MESHOPT}
DECOMPRESS = "decompress it, for example with: gltf-transform copy in.glb out.glb"

# Part of the largest coordinate by which bounds may differ from the data. Writers round bounds to
# some decimals; data that are read in a wrong way differ by far more.
ROUNDED = 1e-3


def natural(owner: Json, name: str, usual: int | None = None, least: int = 0) -> int:
    """Return the integer `owner[name]`, or else `usual`; raise if that is None or below `least`."""
    value = owner.get(name, usual)
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be an integer from {least} up, got {value!r:.99}")
    return value


def item(content: Json, kind: str, number: object) -> Any:
    """Return item `number` of the JSON list `content[kind]`; raise if the file does not have it."""
    items = content.get(kind, [])
    if type(number) is not int or not 0 <= number < len(items):
        raise ValueError(f"it refers to {kind}[{number!r:.99}], and has {len(items)} {kind}")
    return items[number]


class GltfFiles:
    """A resolver of trimesh: arrays in memory by URI, else files that `resolver` reads by name."""

    def __init__(self, resolver: Any) -> None:
        self._resolver = resolver
        self.arrays: dict[str, bytes | memoryview] = {}

    def get(self, uri: str) -> bytes | memoryview:
        """Return the content of a file; its URI may be percent-encoded, but need not be."""
        if uri in self.arrays:
            return self.arrays[uri]
        try:
            content: bytes = self._resolver[unquote(uri)]
        except (OSError, KeyError):
            if "%" not in uri:
                raise
            content = self._resolver[uri]
        return content

    __getitem__ = get


class Accessors:
    """The accessors of a file as arrays; raises if the file has fewer bytes than they need."""

    def __init__(self, content: Json, chunk: bytes | None, files: GltfFiles) -> None:
        """Take the JSON of a file, and the binary chunk of a GLB file or None."""
        self.content, self._chunk, self.files = content, chunk, files
        self._buffers: dict[int, bytes | memoryview] = {}

    def _buffer(self, number: int) -> bytes | memoryview:
        """Return the bytes of a buffer; raise if they are fewer than its byteLength."""
        if number not in self._buffers:
            buffer = item(self.content, "buffers", number)
            uri, size = buffer.get("uri"), natural(buffer, "byteLength")
            given = buffer.get("extensions", {})
            if uri is None:
                for name in MESHOPT:
                    if given.get(name, {}).get("fallback"):
                        raise ValueError(f"buffer {number} is compressed by {name}: {DECOMPRESS}")
                if number > 0 or self._chunk is None:
                    raise ValueError(f"buffer {number} has neither a uri nor a binary chunk")
                data: bytes | memoryview = self._chunk
            elif uri.startswith("data:"):
                head, _, body = uri.partition(",")
                data = unquote_to_bytes(body)
                if head.endswith(";base64"):
                    data = base64.b64decode(data, validate=True)
            else:
                data = self.files[uri]
            if len(data) < size:
                raise ValueError(f"buffer {number} is cut off: it has {len(data)} of {size} bytes")
            self._buffers[number] = data
        return self._buffers[number]

    def view(self, number: int) -> tuple[memoryview, int | None]:
        """Return (bytes, stride in bytes) of a bufferView; the stride is None if not given."""
        view = item(self.content, "bufferViews", number)
        begin, size = natural(view, "byteOffset", 0), natural(view, "byteLength")
        data = self._buffer(view.get("buffer"))
        if begin + size > len(data):
            end = f"{begin + size} of buffer {view['buffer']}, which has {len(data)} bytes"
            raise ValueError(f"bufferView {number} ends at byte {end}")
        stride = natural(view, "byteStride", least=1) if "byteStride" in view else None
        return memoryview(data)[begin : begin + size], stride

    def _rows(
        self, owner: Json, kind: int, lanes: int, count: int, what: str, packed: bool = False
    ) -> Numbers:
        """Return the elements (count, lanes) in the bufferView that `owner` names.

        `owner` is the JSON of an accessor, or of the indices or values of a sparse one. `kind` is
        the component type, and `lanes` the number of components. `what` names the elements in
        errors. If `packed`, elements must follow each other without gaps.
        """
        data, stride = self.view(owner["bufferView"])
        begin, dtype = natural(owner, "byteOffset", 0), np.dtype(TYPES[kind])
        size = lanes * dtype.itemsize
        stride = size if stride is None else stride
        if stride < size or (packed and stride > size):
            raise ValueError(f"{what} has elements of {size} bytes, {stride} bytes apart")
        end = begin + (count - 1) * stride + size
        if count == 0:
            return np.empty((0, lanes), dtype)
        if end > len(data):
            where = f"bufferView {owner['bufferView']}, which has {len(data)} bytes"
            raise ValueError(f"{what} ends at byte {end} of {where}")
        return np.ndarray((count, lanes), dtype, data, begin, (stride, dtype.itemsize))

    def raw(self, number: object, types: tuple[str, ...], may_be_empty: bool = True) -> Numbers:
        """Return the components of an accessor of one of `types` as stored, (count, lanes).

        Without data they are zeros or, if not `may_be_empty`, an error.
        """
        accessor = item(self.content, "accessors", number)
        name, kind = f"accessor {number}", accessor["componentType"]
        count = natural(accessor, "count")
        if accessor["type"] not in types or kind not in TYPES:
            given = f"{accessor['type']!r:.99} of component type {kind!r:.99}"
            raise ValueError(f"{name} must be {' or '.join(types)}, got {given}")
        lanes, sparse = LANES[accessor["type"]], accessor.get("sparse")
        if "bufferView" in accessor:
            values = self._rows(accessor, kind, lanes, count, name)
        elif sparse is None and not may_be_empty:
            used = sorted(COMPRESSED & set(self.content.get("extensionsUsed", [])))
            hint = f": compressed by {' or '.join(used)}, {DECOMPRESS}" if used else ""
            raise ValueError(f"{name} has no data{hint}")
        else:
            values = np.zeros((count, lanes), TYPES[kind])
        if sparse is not None:
            # `rows` of `values` are replaced by `few` other elements.
            few, where = natural(sparse, "count"), sparse["indices"]
            if where["componentType"] not in UNSIGNED:
                raise ValueError(f"{name} has sparse indices that are not unsigned integers")
            what, of_rows = f"{name}, its sparse", where["componentType"]
            rows = self._rows(where, of_rows, 1, few, f"{what} indices", packed=True)[:, 0]
            if few and rows.max() >= count:
                raise ValueError(f"{name} has a sparse index {rows.max()} for {count} elements")
            more = self._rows(sparse["values"], kind, lanes, few, f"{what} values", packed=True)
            values = values.copy()
            values[rows] = more
        return values

    def indices(self, number: object, vertices: int) -> NDArray[np.uint32]:
        """Return the vertex indices (n,) of an accessor; raise unless all are below `vertices`."""
        values = self.raw(number, ("SCALAR",), may_be_empty=False)[:, 0]
        kind = self.content["accessors"][number]["componentType"]
        if kind not in UNSIGNED:
            raise ValueError(f"accessor {number} has indices that are not unsigned: {kind}")
        if len(values) and values.max() >= vertices:
            most = f"index {values.max()} for {vertices} vertices"
            raise ValueError(f"accessor {number} has an {most}")
        return values.astype(np.uint32)

    def floats(
        self, number: object, types: tuple[str, ...], may_be_empty: bool = True
    ) -> NDArray[np.float32]:
        """Return `raw` elements (count, lanes) as floats, with normalized integers divided."""
        values = self.raw(number, types, may_be_empty)
        accessor = self.content["accessors"][number]
        if values.dtype.kind == "f":
            return np.asarray(values, np.float32)
        kind = accessor["componentType"]
        if kind not in LARGEST:
            raise ValueError(f"accessor {number} has component type {kind}, which is for indices")
        normalized = accessor.get("normalized", False)
        if not isinstance(normalized, bool):
            raise ValueError(f"accessor {number} must be normalized or not, got {normalized!r:.99}")
        if normalized:
            # By the specification, -128 becomes -1, as -127 does.
            values = np.maximum(values / LARGEST[kind], -1.0)
        return values.astype(np.float32)

    def positions(self, number: object, may_be_empty: bool = False) -> NDArray[np.float32]:
        """Return the positions (n, 3) of an accessor; warn if they do not fit its min and max."""
        points = self.floats(number, ("VEC3",), may_be_empty)
        accessor = self.content["accessors"][number]
        given = accessor.get("min"), accessor.get("max")
        bounded = all(are_numbers(corner) and len(corner) == 3 for corner in given)
        if len(points) == 0 or not bounded:
            return points
        # The bounds of normalized integers are integers, but some writers normalize them, too.
        readings = [points, self.raw(number, ("VEC3",))] if accessor.get("normalized") else [points]
        boxes = [np.array([v.min(axis=0), v.max(axis=0)], np.float64) for v in readings]
        expected = np.array(given, np.float64)
        for box in boxes:
            # Writers round bounds, so small differences are accepted.
            most = ROUNDED * max(np.abs(box).max(), np.abs(expected).max())
            if not (np.abs(box - expected) > most).any():
                return points
        got, said = (f"{box[0].tolist()} to {box[1].tolist()}" for box in (boxes[-1], expected))
        warn_caller(
            f"accessor {number} of the glTF file has data from {got}, but min and max say {said}: "
            "the file is damaged, or was written with wrong bounds"
        )
        return points


def are_numbers(value: object) -> bool:
    """Return whether a value is a list of finite numbers."""
    return isinstance(value, list) and all(
        type(x) in (int, float) and math.isfinite(x) for x in value
    )
