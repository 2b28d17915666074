"""Files that meshio reads; a cut file is an error where meshio would loop at its end."""

import importlib
import io
import os
import re
from pathlib import Path
from types import FunctionType
from typing import Any

from bvh.io.untrusted_files import NoFile
from bvh.runtime.caller_warnings import warn_caller
from bvh.runtime.registry import extra

# Formats that meshio reads: trimesh does not know them, or reads only their triangles.
MESHIO_ENDINGS = {
    "avs", "bdf", "cgns", "dat", "dato", "e", "ele", "ex2", "exo", "f3grid", "fem", "h5m", "hmf",
    "inp", "mdpa", "med", "mesh", "meshb", "msh", "nas", "node", "post", "su2", "tec", "ugrid",
    "vol", "vtk", "vtu", "wkt", "xdmf", "xmf", "xml",
}  # fmt: skip

# Lines that begin a list of nodes of Abaqus; and what else meshio leaves out: endings of files, the
# beginning of a line for each, how many are read, what the others are.
NODES = re.compile(rb"^\*[ \t]*node[ \t]*(?:,|\r?$)", re.IGNORECASE | re.MULTILINE)
LEFT_OUT = (
    (".inp", rb"\*instance\b", 1, "all instances but the first of an Abaqus file"),
    (".inp", rb"\*instance\b.*\n[ \t]*[-+.\d]", 0, "positions of instances of an Abaqus file"),
    (".inp", rb"\*(?:system|ngen|nfill|ncopy|nmap|elgen|elcopy)\b", 0, "lines that copy or move"),
    (".bdf .fem .nas", rb"cord\d[crs]", 0, "coordinate systems of a Nastran file"),
    (".dat .tec", rb"zone\b", 1, "all zones but the first of a Tecplot file"),
)  # fmt: skip

# How often in a row a reader may read nothing, behind the end of a file: usually it does once.
MOST = 1000
# A TIN of WKT. With possessive quantifiers, as meshio's pattern may try numbers in all ways.
NUMBER = rb"[+-]?+(?:\d++\.?+\d*+|\.\d++)"
RING = b",".join([rb"\s*+%b(?:\s++%b){2,3}+\s*+" % (NUMBER, NUMBER)] * 4)
TIN = re.compile(rb"\s*+TIN\s*+\((?:\s*+\(\s*+\(%b\)\s*+\)\s*+,?+)*+\s*+\)" % RING)


class _Ending(io.FileIO):
    """A file that raises an error when a reader loops behind its end, as some do in cut files."""

    _behind = 0

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer) or 0
        self._behind = 0 if count else self._behind + 1
        if self._behind > MOST:
            raise EOFError("it is cut off")
        return count


def _open(name: Any, mode: str = "r") -> Any:
    """Open a file like `open`, to read."""
    file = io.BufferedReader(_Ending(name))
    return file if "b" in mode else io.TextIOWrapper(file)


def read_meshio(name: str, ending: str) -> Any:
    """Return the mesh of meshio in a file; `ending` is that of `name`, such as ".vtu"."""
    with extra("meshio", f"to read {ending} files needs meshio"):
        # `meshio.read` prints why a format does not fit, and ends the program if none does.
        helpers: Any = importlib.import_module("meshio")._helpers
    if ending in (".xdmf", ".xmf"):
        _check_xdmf_files(name)
    if ending == ".wkt" and TIN.match(Path(name).read_bytes()) is None:
        raise ValueError("it must begin with TIN, and hold closed triangles of plain numbers")
    _check_lines(name, ending)
    reasons = []
    # Before meshio 5.3, an ending has one format.
    kinds = getattr(helpers, "extension_to_filetypes", None)
    for kind in kinds[ending] if kinds else (helpers.extension_to_filetype[ending],):
        reader = helpers.reader_map[kind]
        # A copy of the function, in which the names for opening are ours.
        names = {**reader.__globals__, "open": _open, "open_file": _open}
        try:
            return FunctionType(reader.__code__, names, kind, reader.__defaults__)(name)
        except helpers.ReadError as error:
            reasons.append(f"{kind}: {error}".removesuffix(": "))
    raise ValueError(f"meshio finds none of the formats of this ending in it: {', '.join(reasons)}")


def _check_lines(name: str, ending: str) -> None:
    """Raise or warn if meshio leaves out some of the lines of a file."""
    if ending == ".inp" and len(NODES.findall(Path(name).read_bytes())) > 1:
        raise ValueError("it has several lists of nodes, of which meshio keeps only the last")
    for endings, begin, most, what in LEFT_OUT:
        if ending in endings.split():
            lines = re.findall(rb"(?im)^[ \t]*" + begin, Path(name).read_bytes())
            if len(lines) > most:
                warn_caller(f"{what} are left out: meshio does not read them")


def _check_xdmf_files(name: str) -> None:
    """Raise if an XDMF file names something else than regular files: meshio would await a pipe."""
    from xml.etree import ElementTree

    for item in ElementTree.parse(name).iter("DataItem"):
        given = (item.text or "").strip()
        # Names of binary files are relative to the working directory, those of HDF to the file.
        of_hdf = os.path.join(os.path.dirname(name), given.partition(":")[0])
        for path in (given, of_hdf) if item.get("Format") != "XML" else ():
            if os.path.exists(path) and not os.path.isfile(path):
                raise NoFile(f"{given!r}, which it names, is something else than a file")
