"""Links object files into a library that is loaded by address, for any platform, on any machine.

The linker is Zig's (`ziglang` on PyPI): LLVM's for Linux and Windows and its own for macOS, whose
libraries it signs, in one package that `pip` installs on every system. Debian's `lld` has all
three, but makes no import libraries for Windows; other systems have other versions or none.

A library needs nothing but the functions in `FOREIGN`, of the C library that each platform has.
"""

from __future__ import annotations

import platform
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Platform(NamedTuple):
    """A platform of libraries, and the tag of its wheels."""

    triple: str
    levels: tuple[str, ...]
    suffix: str
    tags: str  # of a wheel; several with dots between


_X86 = "x86-64-v2", "x86-64-v3", "x86-64-v4-256", "x86-64-v4"
PLATFORMS = {
    # Nothing is called by a version, and no library by its name: glibc and musl both serve.
    "linux-x86_64": Platform(
        "x86_64-unknown-linux-gnu", _X86, ".so",
        "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    ),
    "linux-aarch64": Platform(
        "aarch64-unknown-linux-gnu", ("aarch64",), ".so",
        "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    ),
    "macos-arm64": Platform(
        "arm64-apple-macosx11.0.0", ("aarch64",), ".dylib", "macosx_11_0_arm64"
    ),
    "windows-amd64": Platform("x86_64-pc-windows-msvc", _X86, ".dll", "win_amd64"),
}  # fmt: skip

# Functions of the C library, all exact. CPUs before x86-64-v3 have no instruction for `fma`.
FOREIGN = {"fma", "fmaf", "memcpy", "memmove", "memset"}
# By library, on Windows. How a stack grows by more than a page is the system's to say.
IMPORTS = {"ucrtbase.dll": FOREIGN, "ntdll.dll": {"__chkstk"}}


def this_platform() -> str:
    """Return the name of this machine's platform, as `PLATFORMS` has it, if it is one of them."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    return f"{system}-{platform.machine()}".lower()


def platforms_of(text: str) -> list[str]:
    """Return the platforms that an option names: some with commas between, `here`, or `all`."""
    names = list(PLATFORMS) if text == "all" else text.split(",")
    names = [this_platform() if name == "here" else name for name in names]
    if unknown := set(names) - set(PLATFORMS):
        raise SystemExit(f"there are {', '.join(PLATFORMS)}, not {', '.join(sorted(unknown))}")
    return names


def link(objects: Sequence[Path], name: str, library: Path) -> list[str]:
    """Link object files; return the functions that the library calls and does not define."""
    kind = PLATFORMS[name]
    with tempfile.TemporaryDirectory() as folder:
        if kind.suffix == ".so":
            called = _link_elf(objects, kind.triple, library)
        elif kind.suffix == ".dll":
            called = _link_pe(objects, kind.triple, library, Path(folder))
        else:
            called = _link_macho(objects, library, Path(folder))
    # LLVM clears memory by another function on macOS.
    if foreign := set(called).difference(*IMPORTS.values(), {"bzero"}):
        library.unlink()
        raise ValueError(f"{library.name} calls {', '.join(sorted(foreign))}")
    return sorted(called)


def _link_elf(objects: Sequence[Path], triple: str, library: Path) -> set[str]:
    machine = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux"}[triple.partition("-")[0]]
    said = _zig(
        "ld.lld", "-m", machine, "-shared", "--strip-all", "--gc-sections", "-z", "now",
        "--no-undefined", "--warn-unresolved-symbols", "--hash-style=gnu", "-o", library, *objects,
    )  # fmt: skip
    return set(re.findall(r"undefined symbol: (\S+)", said))


def _link_pe(objects: Sequence[Path], triple: str, library: Path, folder: Path) -> set[str]:
    for name, functions in IMPORTS.items():
        text = "\n".join([f"LIBRARY {name}", "EXPORTS", *sorted(functions), ""])
        definition = (folder / name).with_suffix(".def")
        definition.write_text(text)
        out = definition.with_suffix(".lib")
        _zig("lld-link", "/lib", "/machine:x64", f"/def:{definition}", f"/out:{out}")
    marker = folder / "fltused.o"
    # On Windows, the mark of code that computes with floats.
    marker.write_bytes(_object(triple, "@_fltused = constant i32 1"))
    _zig(
        "lld-link", "/dll", "/noentry", "/nologo", "/noimplib", "/brepro", "/opt:ref",
        f"/out:{library}", *objects, marker, *folder.glob("*.lib"),
    )  # fmt: skip
    content = library.read_bytes()
    return {name for all in IMPORTS.values() for name in all if f"\0{name}\0".encode() in content}


def _link_macho(objects: Sequence[Path], library: Path, folder: Path) -> set[str]:
    _zig(
        "build-lib", "-dynamic", "-target", "aarch64-macos.11.0", "-fstrip", "-fno-compiler-rt",
        "--name", "bvh", "-install_name", f"@rpath/{library.name}", f"-femit-bin={library}",
        "--cache-dir", folder, *objects,
    )  # fmt: skip
    return _undefined_of_macho(library.read_bytes())


def _undefined_of_macho(content: bytes) -> set[str]:
    """Return the functions that a library calls and does not define."""
    count, at = struct.unpack_from("<16xI", content)[0], 32
    found = set()
    for _ in range(count):
        command, size = struct.unpack_from("<II", content, at)
        if command == 2:  # LC_SYMTAB
            symbols, length, names, _ = struct.unpack_from("<8xIIII", content, at)
            for i in range(length):
                name, kind = struct.unpack_from("<IB", content, symbols + 16 * i)
                if kind & 0x0F == 1:  # external, and in no section
                    end = content.index(b"\0", names + name)
                    found.add(content[names + name + 1 : end].decode())
        at += size
    return found - {"yld_stub_binder"}


def _object(triple: str, code: str) -> bytes:
    """Return an object file of LLVM's code."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic")
    return bytes(machine.emit_object(llvm.parse_assembly(f'target triple = "{triple}"\n{code}\n')))


def _zig(*arguments: object) -> str:
    """Run a command of Zig's; return what it says."""
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:5])}: {done.stdout[:2000]}")
    return done.stdout
