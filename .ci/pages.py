"""Generated pages of the documentation: README, contributing guide, changelog, notebook, reference.

The reference covers every name in `bvh.__all__` and `bvh.distributed.__all__`; a missing one fails
the build.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import bvh

ROOT = Path(__file__).parents[1]
PICTURES = tuple(
    f"benchmarks/{name}{dark}.svg" for name in ("rates", "cores") for dark in ("", "-dark")
)
# Pages that need no server: of the program that writes them, and one of `bvh view --html`, which is
# framed in another.
LIVE = "bvh.docs.programs.live_pages"
FRAMED = "meshes/instanced.glb"
PAGES = ROOT / "bvh" / "docs"
TEXTS = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}

# Deprecated aliases of classes of the reference.
DEPRECATED = {
    "CountedHits", "CountedSceneHits", "SceneAllHits", "SceneClearances", "SceneClosestPoints",
    "SceneHits", "SceneOverlaps",
}  # fmt: skip

# Pages of the reference: file, title, names.
REFERENCE = [
    ("trees", "Trees", "BVH TreeNodes TreeStats load"),
    (
        "answers",
        "Answers",
        "Hits AllHits ClosestPoints Clearances Interferences Intersections Overlaps OverlapVolumes "
        "Penetrations ScenePairs Section Sections",
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
    ("pictures", "Pictures", "show .pictures.render .pictures.Picture"),
    ("browser", "In the browser", "view Viewer ray_lab RayLab"),
    ("compiling", "Compiling and the guide", "warmup BVHWarning guide"),
    ("kernels", "bvh.kernels", ".kernels"),
    ("torch", "bvh.torch", ".torch"),
    ("jax", "bvh.jax", ".jax"),
    ("warp", "bvh.warp", ".warp"),
    ("trimesh", "bvh.compat.trimesh", ".compat.trimesh"),
    ("open3d", "bvh.compat.open3d", ".compat.open3d.RaycastingScene"),
    ("pyvista", "mesh.bvh of PyVista", ".compat.pyvista.Accessor"),
    (
        "embreex",
        "bvh.compat.embreex",
        ".compat.embreex.stand_in .compat.embreex.rtcore_scene.EmbreeScene "
        ".compat.embreex.mesh_construction.TriangleMesh "
        ".compat.embreex.mesh_construction.ElementMesh",
    ),
    ("vtk", "bvh.compat.vtk", ".compat.vtk"),
    ("mathutils", "bvh.compat.mathutils", ".compat.mathutils.BVHTree"),
    ("ifcopenshell", "bvh.compat.ifcopenshell", ".compat.ifcopenshell"),
    ("mujoco", "bvh.compat.mujoco", ".compat.mujoco"),
]

# Methods of these classes are in groups, by how their names begin.
GROUPED = ("BVH", "Scene")
GROUPS = {
    "Build, change and save": "from_|refit|save|to$|add|remove|replace|rename|set_",
    "Rays": "closest_hit|any_hit|all_hits|count_hits|visible|caster",
    "Points": "closest_point|distance$|signed_distance|contains|winding_number",
    "Shapes and pairs": "overlap|self_overlap|distance_to|clearances|collisions|interferences",
    "Picking": "pick",
}

# The copy button leaves out prompts and answers.
STYLE = """.highlight .gp { user-select: none; }
.highlight code[data-md-copying] :is(.gp, .go) { display: none; }
.md-typeset table:not([class]) { font-size: .64rem; }
.md-typeset table:not([class]) :is(td, th) { min-width: 0; padding: .5em .7em; }
.md-typeset table:not([class]) td:first-child code { word-break: normal; }
[data-md-color-scheme="default"] { --md-default-fg-color--light: #0000009c; }
[data-md-color-scheme] { --md-footer-fg-color--lighter: #ffffffa8; }
[data-md-color-scheme="slate"][data-md-color-primary] {
  --md-typeset-a-color: #82abff; --md-code-hl-number-color: #f2897d;
  --md-code-hl-constant-color: #ab9df2; --md-code-hl-special-color: #f2897d;
}
.md-tabs__link, .md-footer-meta, .md-copyright { opacity: 1; }
.md-typeset :is(p, li, td, dd) a:not(.headerlink) { text-decoration: underline; }
.md-typeset .cards, .cards tbody, .md-typeset .cards td { display: block; border: 0; padding: 0; }
.cards tr { display: grid; gap: .8rem; }
.cards tr { grid-template-columns: repeat(auto-fit, minmax(6.5rem, 1fr)); }
.md-typeset .cards td { width: auto; font-size: .7rem; line-height: 1.4; }
.md-typeset .cards img { border: 1px solid var(--md-default-fg-color--lightest); }
.live { width: 100%; height: 26rem; border: 1px solid var(--md-default-fg-color--lightest); }
[data-md-color-scheme="slate"] .md-typeset img { border-radius: .4rem; }
[data-md-color-scheme="slate"] .md-typeset img[src*="pictures/"] { filter: brightness(.85); }
[data-md-color-scheme="slate"] .md-typeset img[src*="stages/"] { background: #fff; }
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the files and the navigation."""
    for name, source in TEXTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_relinked(text)))
    notebook = PAGES / "tour.ipynb"
    files.append(File.generated(config, "tour.md", content=_page_of(notebook)))
    files.append(File.generated(config, "copied.css", content=STYLE))
    for picture in PICTURES:
        files.append(File.generated(config, picture, abs_src_path=str(ROOT / picture)))
    files.append(File.generated(config, "commands.md", content=_commands()))
    for name, content in _live():
        files.append(File.generated(config, f"live/{name}", content=content))
    nav: list[Any] = []
    missing = (_exported() | _exported("distributed")) - DEPRECATED
    for name, title, members in REFERENCE:
        found = [member for member in members.split() if member in missing or "." in member]
        missing -= {member.rpartition(".")[2] for member in found}
        blocks = [_block(member.lstrip(".")) for member in found]
        content = "\n".join([f"# {title}\n", *blocks])
        files.append(File.generated(config, f"reference/{name}.md", content=content))
        nav.append({title: f"reference/{name}.md"})
    if missing:
        raise PluginError(f"exported, and on no page of .ci/pages.py: {', '.join(sorted(missing))}")
    assert config.nav is not None
    (reference,) = (part["Reference"] for part in config.nav if "Reference" in part)
    reference += nav
    return files


def _block(name: str) -> str:
    """Return what stands for a name on a page; methods of large classes in groups."""
    if name not in GROUPED:
        return f"::: bvh.{name}\n"
    kind = getattr(bvh, name)
    public = [each for each in dir(kind) if not each.startswith("_")]
    left = [each for each in public if callable(getattr(kind, each))]
    values = [each for each in public if each not in left]
    blocks = [f"::: bvh.{name}\n    options:\n      members: {values}\n"]
    for title, words in [*GROUPS.items(), ("Others", "")]:
        chosen = [n for n in left if not words or re.match(f"({words})", n)]
        left = [n for n in left if n not in chosen]
        if chosen:
            blocks.append(f"## {name}: {title.lower()}\n")
            level = "    options:\n      heading_level: 3\n"
            blocks += [f"::: bvh.{name}.{n}\n{level}" for n in chosen]
    return "\n".join(blocks)


def _commands() -> str:
    """Return the page of the command line: the help of each command."""
    from typer.main import get_command

    from bvh.apps.cli.cli import app

    blocks = ["# Commands", "The command `bvh` comes with `pip install \"raybvh[cli]\"`; `bvh "
              "--install-completion` completes it."]  # fmt: skip
    group: Any = get_command(app)
    for name, command in group.commands.items():
        blocks.append(f"## bvh {name}\n\n{(command.help or '').strip()}")
        rows = [
            f"| {_words(option)} | {option.help} | {_default(option)} |".replace("\n", " ")
            for option in command.params
            if getattr(option, "help", None) and not getattr(option, "hidden", False)
        ]
        if rows:
            blocks.append("\n".join(["| argument | meaning | default |", "|---|---|---|", *rows]))
        if command.epilog:
            blocks.append(command.epilog)
    return "\n\n".join(blocks) + "\n"


def _words(option: Any) -> str:
    """Return an option of a command as it is typed, with what follows it, or an argument's name."""
    kind = str(option.metavar or "").strip()
    names = option.opts if option.opts[0].startswith("-") else [""]
    words = [f"{name} {kind}".strip() or option.opts[0] for name in names]
    # As HTML: a bar within backticks would need a backslash, which is shown.
    return ", ".join(f"<code>{html.escape(each)}</code>" for each in words).replace("|", "&#124;")


def _default(option: Any) -> str:
    """Return the default of an option, empty for None and for flags that are off."""
    value = None if callable(option.default) else option.default
    return "" if value is None or value is False else f"`{value}`"


def _live() -> Iterator[tuple[str, str]]:
    """Yield pages that need no server, by name; without viser, notes that they are missing."""
    pictures = [path.stem for path in (PAGES / "live").glob("*.webp")]
    names = ["scene.html", *(f"{name}.html" for name in pictures if not name.endswith("-dark"))]
    if find_spec("viser") is None:
        yield from ((name, "<p>This page was built without viser.</p>") for name in names)
        return
    with tempfile.TemporaryDirectory() as folder:
        framed = ["bvh", "view", FRAMED, "--html", str(Path(folder, names[0]))]
        for command in ([LIVE, folder], framed):
            subprocess.run(
                [sys.executable, "-m", *command], check=True, capture_output=True, cwd=ROOT
            )
        yield from ((name, Path(folder, name).read_text(encoding="utf-8")) for name in names)


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


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version beside the name of the site."""
    config.site_name = f"bvh {bvh.__version__}"
    return config


def on_page_markdown(text: str, page: Page, **_: Any) -> str:
    """Change links that lead outside the folder of pages to those of the site; mark sessions."""
    first = re.search(r"^(?![#!<|`>:]|- )\S.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    if first and "description" not in page.meta:
        # For search engines and previews of links.
        plain = re.sub(r"[*`\[\]]|\]?\([^)]*\)", "", " ".join(first[0].split()))
        page.meta["description"] = plain[:160]
    text = re.sub(r"^```python\n(?=>>> )", "```pycon\n", text, flags=re.MULTILINE)
    text = re.sub(r"^Script: \[(\w+)\.py\]\((\S+)\)$", _folded, text, flags=re.MULTILINE)
    text = text.replace('"../../benchmarks/', '"../benchmarks/')
    text = text.replace('src="live/', 'src="../live/')
    outside = r"\[[^]]+\]\((\.\./\.\./)[^)]*\)"
    return re.sub(outside, lambda found: _relinked(found[0].replace(found[1], "")), text)


def _folded(found: re.Match[str]) -> str:
    """Return the code of a script in a block that opens."""
    code = (PAGES / found[2]).read_text(encoding="utf-8").rstrip()
    lines = "\n".join(f"    {line}".rstrip() for line in code.split("\n"))
    return f'??? example "{found[1]}.py"\n    ```python\n{lines}\n    ```'


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


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Name the search for readers of screens, and a picture for previews of links."""
    search = '<div class="md-search" data-md-component="search" role="dialog"'
    output = output.replace(search, f'{search} aria-label="Search"')
    depth = page.url.count("/")
    picture = f'<meta property="og:image" content="{"../" * depth}pictures/tour.webp">'
    return output.replace("</head>", f"{picture}</head>", 1)


def _exported(folder: str = "") -> set[str]:
    """Return the public names of the package, or of a folder of it."""
    stub = ROOT / "bvh" / folder / "__init__.pyi"
    return set(re.findall(r"^from bvh\..* as (\w+)$", stub.read_text(encoding="utf-8"), re.M))


def _relinked(text: str) -> str:
    """Return a text of the repository with its links changed to those of the site."""
    for page, source in TEXTS.items():
        text = re.sub(rf"\]\({source}(#[\w-]*)?\)", rf"]({page}\1)", text)
    text = re.sub(r"\]\(bvh/docs/([\w/]+\.(?:md|webp)(?:#[\w-]*)?)\)", r"](\1)", text)
    # Cards lead to live pages; pictures, and links from these to scripts, in HTML.
    text = re.sub(
        r'href="bvh/docs/programs/live_pages.py" title="(\w+)"', r'href="live/\1.html"', text
    )
    text = re.sub(r'(src|srcset|href)="bvh/docs/', r'\1="', text)
    # Links to files that are not on the site become plain text.
    return re.sub(r"(?<!!)\[([^]]+)\]\((?!https?:|#|\w+\.md)[^)]*\)", r"\1", text)
