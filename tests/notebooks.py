"""The notebook of the examples: executed, and written anew with small outputs.

`python -m tests.notebooks` runs it and keeps its texts and pictures.
"""

from __future__ import annotations

import base64
import copy
import io
import re
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "bvh" / "docs" / "tour.ipynb"
# Widest picture that is kept, in pixels.
WIDEST = 360


def executed(folder: Path) -> Any:
    """Return the notebook with its outputs, run in a folder; an error in a cell is raised."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=600, resources=resources).execute()


def kept(notebook: Any) -> Any:
    """Return a notebook with texts and small pictures only, without what differs in each run."""
    from nbformat.v4 import new_output

    notebook = copy.deepcopy(notebook)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "name": "python3"}}
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"cell-{number}"
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        outputs = []
        for output in cell.outputs:
            if output.output_type == "stream":
                # A notice of the compiler, perhaps.
                outputs += [output] if output.name == "stdout" else []
                continue
            data = {"text/plain": output.data["text/plain"]}
            if "image/png" in output.data:
                data["image/png"] = _small(output.data["image/png"])
            outputs.append(new_output("display_data", data))
        cell.outputs = outputs
    return notebook


def texts(notebook: Any) -> list[list[str]]:
    """Return the texts below each cell, with # for every number."""
    found = []
    for cell in notebook.cells:
        outputs = [] if cell.cell_type != "code" else cell.outputs
        told = [
            output.text if output.output_type == "stream" else output.data["text/plain"]
            for output in outputs
        ]
        found.append([re.sub(r"-?\d[\d.]*(e[+-]?\d+)?", "#", text).split() for text in told])
    return found


def _small(png: str) -> str:
    """Return a picture with few colours, no wider than is kept."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.thumbnail((WIDEST, WIDEST))
    stream = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(stream, "PNG", optimize=True)
    return base64.b64encode(stream.getvalue()).decode("ascii")


if __name__ == "__main__":
    import tempfile

    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(kept(executed(Path(folder))), NOTEBOOK)
