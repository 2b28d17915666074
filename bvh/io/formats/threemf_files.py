"""3MF files: objects of other models in them, as the production extension has them.

trimesh gives an object of another model all meshes there, once for each component that names it.
"""

import re
from xml.etree import ElementTree


def with_one_model(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of an archive, contents by name, with all objects in the main model."""
    name = next((name for name in files if "3d/3dmodel.model" in name.lower()), None)
    if name is None:
        raise ValueError("it has no 3D/3dmodel.model")
    model = files[name]
    # A mark begins a text in UTF-16.
    if re.search(rb":path\s*=", model) or model.startswith((b"\xff\xfe", b"\xfe\xff")):
        model = _joined(files, name)
    # trimesh leaves out objects that are missing. A value may contain ">", but no "<".
    text = re.sub(rb"(?s)<!--.*?-->", b"", model)
    named = rb"<(?:\w+:)?(?:%b)\b[^<]*?\s%b\s*=\s*[\"']([^\"']*)"
    if not re.search(named % (b"item", b"objectid"), text):
        raise ValueError("its build has no items")
    used = set(re.findall(named % (b"component|item", b"objectid"), text))
    missing = used - set(re.findall(named % (b"object", b"id"), text))
    if missing:
        raise ValueError(f"it refers to object {min(missing).decode()!r}, which it does not have")
    return files | {name: model}


def _joined(files: dict[str, bytes], name: str) -> bytes:
    """Return the main model, file `name` of an archive, with the objects of all others."""
    root = ElementTree.fromstring(files[name])
    # Paths of models have no leading slash here; `core` is the XML namespace of the format.
    home, core = name.lstrip("/"), root.tag.partition("}")[0] + "}"
    models = {home: root}
    # Models are appended when they are named, so that the loop visits them, too.
    waiting = [home]
    for path in waiting:
        for element in models[path].iter():
            if element.tag not in (core + "component", core + "item"):
                continue
            # The attribute "path", if any, names the model of the object.
            named = [key for key in element.attrib if key.endswith("}path")]
            other = element.attrib.pop(named[0]).lstrip("/") if named else path
            if other not in models:
                data = files.get(other, files.get(f"/{other}"))
                if data is None:
                    raise ValueError(f"it has no {other!r}, which it names")
                models[other] = ElementTree.fromstring(data)
                waiting.append(other)
            if other != home:
                element.set("objectid", f"{other}#{element.get('objectid')}")
    resources = root.find(core + "resources")
    if resources is None:
        raise ValueError("its model has no resources")
    # The objects of other models get ids that contain the path of the model.
    for path, model in models.items():
        for solid in model.findall(f".//{core}object") if path != home else ():
            solid.set("name", solid.get("name", solid.get("id", "")))
            solid.set("id", f"{path}#{solid.get('id')}")
            resources.append(solid)
    return bytes(ElementTree.tostring(root))
