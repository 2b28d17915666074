"""Generated pages of the documentation: README, contributing guide, changelog, notebook, reference.

The reference covers every name in `bvh.__all__` and `bvh.distributed.__all__`; a missing one fails
the build.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PICTURES = ("benchmarks/rates.svg",)
EXAMPLES = ROOT / "bvh" / "examples"
TEXTS = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}

# Pages of the reference: file, title, names.
REFERENCE = [
    ("trees", "Trees", "BVH TreeStats load"),
    (
        "answers",
        "Answers",
        "Hits AllHits CountedHits ClosestPoints Clearances Overlaps SceneHits SceneAllHits "
        "CountedSceneHits SceneClosestPoints SceneClearances SceneOverlaps ScenePairs",
    ),
    ("scenes", "Scenes", "Scene SceneStats load_scene Instance Attributes Leaf Leaves"),
    ("cameras", "Cameras and picking", "Camera Pick Selection"),
    ("parts", "Meshes in parts", "Parts partition"),
    (
        "distributed",
        "bvh.distributed",
        ".distributed.RaySource .distributed.camera_rays .distributed.LazyLists .distributed.join "
        ".distributed.KernelPlugin",
    ),
    ("shapes", "Single tests", "ray_triangle ray_box ray_obb ray_plane ray_sphere"),
    ("pictures", "Pictures", "show .pictures.render .pictures.Picture .pictures.charts.chart"),
    ("browser", "In the browser", "view Viewer ray_lab RayLab"),
    ("compiling", "Compiling", "warmup BVHWarning"),
    ("kernels", "bvh.kernels", ".kernels"),
    ("torch", "bvh.torch", ".torch"),
    ("jax", "bvh.jax", ".jax"),
    ("trimesh", "bvh.compat.trimesh", ".compat.trimesh"),
    ("open3d", "bvh.compat.open3d", ".compat.open3d.RaycastingScene"),
]

# The copy button leaves out prompts and answers.
STYLE = """.highlight .gp { user-select: none; }
.highlight code[data-md-copying] :is(.gp, .go) { display: none; }
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the files and the navigation."""
    for name, source in TEXTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_relinked(text)))
    notebook = ROOT / "bvh" / "docs" / "tour.ipynb"
    files.append(File.generated(config, "tour.md", content=_page_of(notebook)))
    files.append(File.generated(config, "copied.css", content=STYLE))
    for picture in PICTURES:
        files.append(File.generated(config, picture, abs_src_path=str(ROOT / picture)))
    for script in sorted(EXAMPLES.glob("gallery/[!_]*.py")):
        name = script.relative_to(EXAMPLES).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(script)))
    nav: list[Any] = []
    missing = _exported() | _exported("distributed")
    for name, title, members in REFERENCE:
        found = [member for member in members.split() if member in missing or "." in member]
        missing -= {member.rpartition(".")[2] for member in found}
        blocks = [f"::: bvh.{member.lstrip('.')}\n" for member in found]
        content = "\n".join([f"# {title}\n", *blocks])
        files.append(File.generated(config, f"reference/{name}.md", content=content))
        nav.append({title: f"reference/{name}.md"})
    if missing:
        raise PluginError(f"exported, and on no page of .ci/pages.py: {', '.join(sorted(missing))}")
    assert config.nav is not None
    config.nav += [{"Reference": nav}, {"Glossary": "glossary.md"}]
    config.nav += [{"Changelog": "changelog.md"}, {"Contributing": "contributing.md"}]
    config.nav += [{"Benchmarks": "benchmarks.md"}]
    return files


def _page_of(notebook: Path) -> str:
    """Return a notebook as a page: its texts, its code, and the outputs that are kept in it."""
    blocks = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
            continue
        blocks.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            text = "".join(data.get("text/plain", output.get("text", "")))
            if "image/png" in data:
                code = "".join(data["image/png"].split())
                blocks.append(f"![{text}](data:image/png;base64,{code})")
            else:
                blocks.append(f"```text\n{text.rstrip()}\n```")
    blocks.insert(1, f"The notebook itself: [{notebook.name}]({notebook.name}).")
    return "\n\n".join(blocks) + "\n"


def on_page_markdown(text: str, **_: Any) -> str:
    """Change links that lead outside the folder of pages to those of the site; mark sessions."""
    text = re.sub(r"^```python\n(?=>>> )", "```pycon\n", text, flags=re.MULTILINE)
    text = text.replace("](../examples/", "](")
    outside = r"\[[^]]+\]\((\.\./\.\./)[^)]*\)"
    return re.sub(outside, lambda found: _relinked(found[0].replace(found[1], "")), text)


def on_page_content(html: str, **_: Any) -> str:
    """Link names in running text to the reference, and names of methods to their class."""
    here = set(re.findall(r'id="(bvh[\w.]*)"', html))
    # The whole of each name.
    exported = {name: f"bvh.distributed.{name}" for name in _exported("distributed")}
    exported |= {name: f"bvh.{name}" for name in _exported()}
    scope = "bvh"

    def linked(found: re.Match[str]) -> str:
        nonlocal scope
        if found["id"]:
            scope = ".".join(found["id"].split(".")[: 3 if "distributed" in found["id"] else 2])
            return found[0]
        name = found["name"].removeprefix("bvh.").removeprefix("distributed.")
        first, dot, rest = name.partition(".")
        whole = f"{exported.get(first, f'bvh.{first}')}{dot}{rest}"
        for target, known in ((f"{scope}.{name}", False), (whole, first in exported)):
            if known or target in here:
                text = f"<code>{found['name']}</code>"
                return f'<autoref identifier="{target}" optional>{text}</autoref>'
        return found[0]

    names = r"<code>(?P<name>[A-Za-z_][\w.]*)(?:\(\))?</code>(?!</a>|</autoref>)"
    return re.sub(rf'id="(?P<id>bvh[\w.]*)"|{names}', linked, html)


def _exported(folder: str = "") -> set[str]:
    """Return the public names of the package, or of a folder of it."""
    stub = ROOT / "bvh" / folder / "__init__.pyi"
    return set(re.findall(r"^from bvh\..* as (\w+)$", stub.read_text(encoding="utf-8"), re.M))


def _relinked(text: str) -> str:
    """Return a text of the repository with its links changed to those of the site."""
    for page, source in TEXTS.items():
        text = re.sub(rf"\]\({source}(#[\w-]*)?\)", rf"]({page}\1)", text)
    text = re.sub(r"\]\(bvh/docs/([\w/]+\.(?:md|webp)(?:#[\w-]*)?)\)", r"](\1)", text)
    # Links to files that are not on the site become plain text.
    return re.sub(r"(?<!!)\[([^]]+)\]\((?!https?:|#|\w+\.md)[^)]*\)", r"\1", text)
