"""Files of meshes that take far more memory or time to read than their size tells."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Bytes that hostile files unpack to, and what they may.
LARGE, LIMIT = 1 << 23, 1 << 21
BIN = "data:application/octet-stream;base64,"


def gltf(**changes: Any) -> bytes:
    """Return a glTF file of a triangle, with other entries."""
    data = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    content = {
        "asset": {"version": "2.0"},
        "buffers": [{"uri": BIN + base64.b64encode(data).decode(), "byteLength": 36}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "nodes": [{"mesh": 0}], "scenes": [{"nodes": [0]}], "scene": 0,
    }  # fmt: skip
    return json.dumps(content | changes).encode()


def glb(**changes: Any) -> bytes:
    """Return the same as GLB."""
    text = gltf(**changes)
    text += b" " * (-len(text) % 4)
    return struct.pack("<4sIIII", b"glTF", 2, 20 + len(text), len(text), 0x4E4F534A) + text


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def understated(method: int) -> bytes:
    """Return an archive whose only file says that it has 99 bytes."""
    data = bytearray(zipped({"a.stl": bytes(LARGE)}, method))
    for at in (22, data.rindex(b"PK\1\2") + 24):
        data[at : at + 4] = struct.pack("<I", 99)
    return bytes(data)


def accessor(count: int, **more: Any) -> dict[str, Any]:
    """Return an accessor of vectors of bytes."""
    return {"componentType": 5121, "count": count, "type": "VEC4", **more}


def _no_data(count: int = 2**31) -> dict[str, Any]:
    return {"accessors": [accessor(count, componentType=5126)]}


# The content of `a`, and the message of the refusal.
TOO_LARGE = rf"over {LIMIT} bytes more than 8 times the file: set BVH_MAX_UNPACKED"
VIEW = {"buffer": 0, "byteLength": 1 << 20}
MANY: dict[str, Any] = {
    "buffers": [{"uri": BIN + base64.b64encode(bytes(1 << 20)).decode(), "byteLength": 1 << 20}]
}
UNPACKED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "zip": (".zip", lambda: zipped({"a.stl": bytes(LARGE)})),
    "3mf": (".3mf", lambda: zipped({"3D/3dmodel.model": bytes(LARGE)})),
    "npz": (".npz", lambda: zipped({"vertices.npy": bytes(LARGE)})),
    "accessor": (".gltf", lambda: gltf(**_no_data())),
    "accessor of a binary": (".glb", lambda: glb(**_no_data())),
    "accessor in a zip": (".zip", lambda: zipped({"a.glb": glb(**_no_data())})),
    "accessor in latin-1": (
        ".gltf", lambda: gltf(**_no_data()).replace(b'"2.0"', b'"2.0", "generator": "\xf6"'),
    ),
    "views": (".gltf", lambda: gltf(**MANY, bufferViews=[VIEW] * 300)),
    "accessors": (
        ".gltf",
        lambda: gltf(**MANY, bufferViews=[VIEW], accessors=[accessor(1 << 18, bufferView=0)] * 300),
    ),
    "overlapping rows": (
        ".gltf",
        lambda: gltf(
            **MANY, bufferViews=[{**VIEW, "byteStride": 1}],
            accessors=[accessor((1 << 20) - 63, type="MAT4", componentType=5126, bufferView=0)] * 9,
        ),
    ),
    "meshes": (
        ".gltf",
        lambda: gltf(
            **MANY, bufferViews=[VIEW], accessors=[accessor(1 << 18, bufferView=0)],
            meshes=[{"primitives": [{"attributes": {"POSITION": 0}}] * 99}],
        ),
    ),
}  # fmt: skip

NO_FILE = "pipe', which it names, is something else than a file"
IMAGE: dict[str, Any] = {
    "images": [{"uri": "pipe"}], "textures": [{"source": 0}],
    "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}],
    "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "material": 0}]}],
}  # fmt: skip
FACE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
PLY = b"ply\nformat ascii 1.0\ncomment TextureFile pipe\nelement vertex 3\nproperty float x\n"
PLY += (
    b"property float y\nproperty float z\nelement face 1\nproperty list uchar int vertex_indices\n"
)
PLY += b"end_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
ITEM = '<DataItem DataType="{}" Precision="8" Dimensions="1 3" Format="{}">{}</DataItem>'
XDMF = (
    '<Xdmf Version="3.0"><Domain><Grid><Geometry GeometryType="XYZ">'
    + ITEM.format("Float", "Binary", "@pipe")
    + '</Geometry><Topology TopologyType="Triangle" NumberOfElements="1">'
    + ITEM.format("Int", "XML", "0 0 0")
    + "</Topology></Grid></Domain></Xdmf>"
).encode()
PIPES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "buffer": (".gltf", lambda: gltf(buffers=[{"uri": "pipe", "byteLength": 36}])),
    "buffer of a binary": (".glb", lambda: glb(buffers=[{"uri": "pipe", "byteLength": 36}])),
    "image": (".gltf", lambda: gltf(**IMAGE)),
    "materials": (".obj", lambda: b"mtllib pipe\n" + FACE),
    "map": (".obj", lambda: b"mtllib a.mtl\nusemtl m\n" + FACE),
    "texture": (".ply", lambda: PLY),
}
if importlib.util.find_spec("meshio"):
    PIPES["arrays"] = ".xdmf", lambda: XDMF


def chain(n: int) -> list[dict[str, Any]]:
    """Return nodes, each below the one before."""
    return [{"mesh": 0, "children": [k + 1]} for k in range(n - 1)] + [{"mesh": 0}]


def layers(width: int, depth: int) -> list[dict[str, Any]]:
    """Return nodes in layers, each below all of the layer before."""
    below = [[*range(k * width, (k + 1) * width)] for k in range(1, depth)]
    return [{"children": nodes} for nodes in below for _ in nodes] + [{"mesh": 0}] * width


SLOW: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "zip that understates": (".zip", lambda: understated(zipfile.ZIP_DEFLATED), "Bad CRC-32"),
    "zip of another method": (
        ".zip", lambda: understated(zipfile.ZIP_BZIP2), "in it is not compressed by deflate",
    ),
    "chain": (".gltf", lambda: gltf(nodes=chain(9_000)), r"40504500 steps below the root"),
    "many parents": (
        ".gltf", lambda: gltf(nodes=layers(100, 4)), "is below itself, or has several parents",
    ),
    "circle": (
        ".gltf", lambda: gltf(nodes=[{"children": [1]}, {"mesh": 0, "children": [0]}]),
        "node 0 is below itself",
    ),
    "other encoding": (
        ".gltf", lambda: gltf(**_no_data()).decode().encode("utf-16"), "accessor 0 would take",
    ),
    "accessor behind a mark": (
        ".gltf", lambda: b"\xef\xbb\xbf" + gltf(**_no_data()), "accessor 0 would take",
    ),
    "stride": (
        ".gltf", lambda: gltf(bufferViews=[{"buffer": 0, "byteLength": 36, "byteStride": -4096}]),
        "byteStride must be an integer from 1 up, got -4096",
    ),
    "count": (
        ".gltf", lambda: gltf(**_no_data(-3)), "count must be an integer from 0 up, got -3",
    ),
    "gzip": (".tar.gz", lambda: gzip.compress(bytes(LARGE)), "it is compressed: unpack it first"),
    "bzip2": (".stl.bz2", lambda: b"BZh9", "it is compressed: unpack it first"),
    "no glTF": (".gltf", lambda: b"{", "cannot read"),
    "ply": (".ply", lambda: PLY.replace(b"vertex 3", b"vertex 2147483648"), "it is cut off"),
    "binary ply": (
        ".ply", lambda: PLY.replace(b"face 1", b"face 2147483648").replace(
            b"ascii", b"binary_little_endian"), "cannot read",
    ),
    "stl": (
        ".stl", lambda: bytes(80) + struct.pack("<I", 2**31) + bytes(50),
        "its length does not fit its count: 134 bytes, and 2147483648 triangles",
    ),
}  # fmt: skip


def write_all(folder: Path) -> dict[str, list[str]]:
    """Write all files; return the path of each and what its refusal says."""
    found = {}
    cases = {f"unpacked {k}": (*v, TOO_LARGE) for k, v in UNPACKED.items()}
    cases |= {f"pipe {k}": (*v, NO_FILE) for k, v in PIPES.items()}
    cases |= {f"slow {k}": v for k, v in SLOW.items()}
    for k, (name, (ending, make, match)) in enumerate(cases.items()):
        own = folder / str(k)
        own.mkdir()
        (own / f"a{ending}").write_bytes(make().replace(b"@pipe", bytes(own / "pipe")))
        if name.startswith("pipe"):
            os.mkfifo(own / "pipe")
            (own / "a.mtl").write_text("newmtl m\nKd 1 0 0\nmap_Kd pipe\n")
        found[name] = [str(own / f"a{ending}"), match]
    return found


NAMES = [f"{kind} {k}" for kind, all_of in
         (("unpacked", UNPACKED), ("pipe", PIPES), ("slow", SLOW)) for k in all_of]  # fmt: skip
