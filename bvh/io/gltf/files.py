"""glTF files rewritten for trimesh: checked, with plain arrays and names.

Meshes are decoded here (`accessors`, `meshes`), because trimesh leaves out or misreads rare
features; it reads materials, images and the graph. It also calls an unnamed node by its number,
whatever the name of its mesh, and finds the transform of a node by walking up to the root.
"""

import itertools
import json
import struct
from typing import Any

from bvh.io.gltf.accessors import (
    COMPRESSED,
    DECOMPRESS,
    LANES,
    TYPES,
    Accessors,
    GltfFiles,
    Json,
    item,
    natural,
)
from bvh.io.gltf.meshes import INSTANCING, Meshes
from bvh.io.untrusted_files import Allowance

ENDINGS = (".glb", ".gltf")

# Key in the metadata of a scene of trimesh: its nodes have final names.
NAMED = "bvh_named"

# The header of a GLB file, and that of a chunk.
_HEADER, _CHUNK = struct.Struct("<4sII"), struct.Struct("<II")
_MAGIC, _JSON, _BINARY = b"glTF", 0x4E4F534A, 0x004E4942

# Extensions that a file may require: those that are supported, and those that change no geometry.
SUPPORTED = {"KHR_mesh_quantization", INSTANCING}
HARMLESS = (
    "KHR_materials_", "KHR_texture_", "EXT_texture_", "MSFT_texture_dds", "MSFT_packing_",
    "KHR_lights_", "EXT_lights_", "KHR_animation_pointer", "KHR_xmp", "EXT_mesh_features",
    "EXT_instance_features", "EXT_structural_metadata", "EXT_feature_metadata",
    "KHR_techniques_webgl", "ADOBE_materials_", "FB_ngon_encoding", "EXT_mesh_manifold",
)  # fmt: skip

# Limits of the steps from all nodes to the root, which trimesh walks: a number that takes some
# seconds, plus, for each node, more than the mean depth of usual scenes.
_STEPS, _MEAN_DEPTH = 1 << 19, 64


def rewritten(
    data: bytes, binary: bool, resolver: Any, allowance: Allowance
) -> tuple[bytes, GltfFiles]:
    """Return the content of a .gltf file for trimesh, and a resolver of the files that it names.

    `data` is the original .gltf file or, if `binary`, .glb file, and `resolver` reads files of its
    folder; `allowance` limits the bytes of its arrays. Nodes get unique names: an unnamed node gets
    the name of its mesh.
    """
    text, chunk = _chunks(data) if binary else (data, None)
    # UTF-8, but some exporters begin it with a mark, or write UTF-16.
    try:
        content = json.loads(text.decode(json.detect_encoding(text)))
    except UnicodeDecodeError:
        # Some exporters write names in Latin-1.
        content = json.loads(text.decode("latin-1"))
    try:
        _check_extensions(content)
        _check_arrays(content, allowance)
        files = GltfFiles(resolver)
        return json.dumps(_for_trimesh(Accessors(content, chunk, files), allowance)).encode(), files
    except (TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"its JSON is not that of glTF: {error!r}") from None


def _chunks(data: bytes) -> tuple[bytes, bytes | None]:
    """Return the JSON of a GLB file, and its binary chunk, None if it has none."""
    # Where the JSON begins.
    start = _HEADER.size + _CHUNK.size
    if len(data) < start:
        raise ValueError(f"it is cut off: it has {len(data)} bytes")
    magic, version, _ = _HEADER.unpack_from(data)
    length, kind = _CHUNK.unpack_from(data, _HEADER.size)
    if magic != _MAGIC or version != 2 or kind != _JSON:
        raise ValueError("it does not begin as GLB 2 does")
    begin = start + length
    if begin > len(data):
        raise ValueError(f"it is cut off: it has {len(data)} of {begin} bytes")
    text = data[start:begin]
    # Chunks of other kinds are for extensions.
    while begin + _CHUNK.size <= len(data):
        length, kind = _CHUNK.unpack_from(data, begin)
        begin += _CHUNK.size
        if kind == _BINARY:
            if begin + length > len(data):
                raise ValueError(f"it is cut off: its binary chunk has {length} bytes")
            return text, data[begin : begin + length]
        begin += length
    return text, None


def _check_extensions(content: Json) -> None:
    """Raise unless the version, and all extensions that the file requires, are supported."""
    version = content.get("asset", {}).get("version", "2.0")
    if not str(version).startswith("2."):
        raise ValueError(f"it is of version {version!r:.99} of glTF, and 2.0 can be read")
    for name in content.get("extensionsRequired", []):
        if name not in SUPPORTED and not name.startswith(HARMLESS):
            hint = f": {DECOMPRESS}" if name in COMPRESSED else ""
            raise ValueError(f"it needs the extension {name!r:.99}, which is not supported{hint}")


def _for_trimesh(accessors: Accessors, allowance: Allowance) -> Json:
    """Return a file as JSON for trimesh: plain triangles, nodes, materials and images."""
    content, meshes = accessors.content, Meshes(accessors, allowance)
    nodes = meshes.nodes()
    _give_names(nodes, meshes.meshes)
    scenes = content.get("scenes", [])
    shown = item(content, "scenes", content.get("scene", 0)) if scenes else {}
    roots = shown.get("nodes", [])
    for root in roots:
        item(content, "nodes", root)
    _check_tree(nodes, roots)
    looks = {k: content[k] for k in ("materials", "textures", "samplers") if k in content}
    # View k is the whole buffer k: first those of arrays, then those of images.
    views = [{"buffer": k, "byteLength": size} for k, size in enumerate(meshes.sizes)]
    images = []
    for image in content.get("images", []):
        if "bufferView" in image:
            pixels = bytes(accessors.view(image["bufferView"])[0])
            image = {**image, "bufferView": len(views)}
            views.append({"buffer": meshes.add_buffer(pixels), "byteLength": len(pixels)})
        images.append(image)
    meshes.warn()
    # The names by which `Meshes.add_buffer` has stored them.
    buffers = [{"uri": f"\0{k}", "byteLength": size} for k, size in enumerate(meshes.sizes)]
    return looks | {
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": roots}], "nodes": nodes,
        "meshes": meshes.meshes, "accessors": meshes.accessors, "bufferViews": views,
        "buffers": buffers, "images": images,
    }  # fmt: skip


def _check_arrays(content: Json, allowance: Allowance) -> None:
    """Take the bytes of all arrays from the allowance first: many may share the same bytes."""
    for view in content.get("bufferViews", []):
        natural(view, "byteOffset", 0)
        natural(view, "byteStride", 1, least=1)
        allowance.take(natural(view, "byteLength"), "its bufferViews")
    counts = []
    for accessor in content.get("accessors", []):
        natural(accessor, "byteOffset", 0)
        # Unknown types, which are refused later, count as the largest.
        counts.append(LANES.get(accessor["type"], 16) * natural(accessor, "count"))
        size = counts[-1] * int(TYPES.get(accessor["componentType"], "<f4")[-1])
        allowance.take(size, f"accessor {len(counts) - 1}")
    for mesh in content.get("meshes", []):
        for part in mesh.get("primitives", []):
            used = [*part.get("attributes", {}).values()]
            # Without indices each vertex is a corner.
            used.append(part.get("indices", used[0] if used else -1))
            sizes = (counts[k] for k in used if isinstance(k, int) and 0 <= k < len(counts))
            # In trimesh, components are doubles and 64-bit integers.
            allowance.take(8 * sum(sizes), "its meshes")


def _check_tree(nodes: list[Json], roots: list[int]) -> None:
    """Raise unless nodes are trees below `roots`, and not too deep.

    trimesh walks from each node up to the root, so the sum of all depths is limited.
    """
    seen, steps = set[int](), 0
    open_nodes = [(root, 1) for root in roots]
    while open_nodes:
        node, depth = open_nodes.pop()
        if node in seen:
            raise ValueError(f"node {node} is below itself, or has several parents")
        seen.add(node)
        steps += depth
        open_nodes += [(child, depth + 1) for child in nodes[node].get("children", [])]
    most = _STEPS + _MEAN_DEPTH * len(nodes)
    if steps > most:
        raise ValueError(f"its nodes are {steps} steps below the root together, over {most}")


def _give_names(nodes: list[Json], meshes: list[Json]) -> None:
    """Give nodes unique names; a node without a name gets the name of its mesh, if any."""
    owners = (meshes[n["mesh"]] if "mesh" in n and not n.get("name") else n for n in nodes)
    given = [str(owner["name"]) if owner.get("name") else None for owner in owners]
    names = numbered(given, {name for name in given if name})
    for node, name in zip(nodes, names, strict=True):
        node.pop("name", None)
        if name is not None:
            node["name"] = name


def numbered(names: list[str | None], given: set[str]) -> list[str | None]:
    """Return unique names: "a", "a_1", "a_2" for three "a", new ones not in `given`; None stays."""
    used: set[str | None] = set()
    numbers: dict[str, itertools.count[int]] = {}
    unique: list[str | None] = []
    for name in names:
        if name is not None and name in used:
            candidates = (f"{name}_{k}" for k in numbers.setdefault(name, itertools.count(1)))
            name = next(new for new in candidates if new not in used and new not in given)
        used.add(name)
        unique.append(name)
    return unique
