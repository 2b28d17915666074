"""Object files linked for every platform: what a library calls, and that the host's can be."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(not (ROOT / ".ci/linking.py").exists(), reason="a clone has the linker"),
    pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is missing"),
]

# A frame of several pages, a table of addresses, and two functions of C.
CODE = """
target triple = "{triple}"
@table = internal constant [2 x ptr] [ptr @plus, ptr @rest]
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare double @{called}(double, double, double)
define internal double @plus(double %x) noinline {{
  %y = fadd double %x, 1.0
  ret double %y
}}
define internal double @rest(double %x) noinline {{
  %y = call double @{called}(double %x, double %x, double 1.0)
  ret double %y
}}
define {export} void @bvh_sample(i64 %words) {{
  %frame = alloca [20000 x i8]
  %place = inttoptr i64 %words to ptr
  %which = load i64, ptr %place
  call void @llvm.memset.p0.i64(ptr %frame, i8 3, i64 20000, i1 0)
  %end = getelementptr i8, ptr %frame, i64 19999
  %byte = load volatile i8, ptr %end
  %at = getelementptr i64, ptr %place, i64 1
  %x = load double, ptr %at
  %entry = getelementptr [2 x ptr], ptr @table, i64 0, i64 %which
  %function = load ptr, ptr %entry
  %y = call double %function(double %x)
  store double %y, ptr %at
  ret void
}}
"""
EXPECTED = {"linux": ["fma", "memset"], "macos": ["fma", "memset"],
            "windows": ["__chkstk", "fma", "memset"]}  # fmt: skip


# A kernel and its helper, optimised for it: with other arguments, or a constant that it refers to.
KERNEL = """
@constant = private constant i64 {constant}
define internal i64 @helper({kind} %x{number}) noinline {{
  %y = load i64, ptr @constant
  ret i64 %y
}}
define i64 @{name}(i64 %words) {{
  %x = inttoptr i64 %words to ptr
  %y = call i64 @helper({kind} {argument})
  ret i64 %y
}}
"""


def test_helpers_of_one_name_are_one_if_their_code_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimised in another kernel, a helper may have lost an argument, or take it otherwise."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    objects = importlib.import_module("objects")
    variants = (("i64", "7", 3), ("ptr", "%x", 3), ("i64", "8", 3), ("i64", "7", 4))
    functions = []
    for k, (kind, argument, constant) in enumerate(variants):
        code = KERNEL.format(
            kind=kind, argument=argument, constant=constant, name=f"kernel{k}", number=k
        )
        bitcode = llvm.parse_assembly(code).as_bitcode()
        place = "module", f"entry{k}", None, "", (), False
        functions.append(objects.Function(*place, name=f"kernel{k}", code=bitcode))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    level = objects.host_levels()[-1]
    merged = objects._merged(functions, list("abcd"), level)
    for name in ("objects", "foreign_targets"):
        sys.modules.pop(name)
    helpers = [str(f) for f in merged.functions if f.name.startswith("helper")]
    # Those of the first and of the third kernel are the same.
    assert len(helpers) == 3 and sum("(ptr %" in text for text in helpers) == 1


@pytest.fixture
def linking(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The linker, a module that is no part of the package."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    yield importlib.import_module("linking")
    sys.modules.pop("linking")


Linked = tuple[Path, list[str]]


def linked(linking: Any, platform: str, folder: Path, called: str = "fma") -> Linked:
    """Link the sample for a platform; return the library, and what it calls."""
    kind = linking.PLATFORMS[platform]
    export = "dllexport" if kind.suffix == ".dll" else ""
    code = CODE.format(triple=kind.triple, export=export, called=called)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(kind.triple).create_target_machine(reloc="pic")
    made = folder / "sample.o"
    made.write_bytes(machine.emit_object(llvm.parse_assembly(code)))
    library = (folder / "sample").with_suffix(kind.suffix)
    return library, linking.link([made], platform, library)


@pytest.mark.long
@pytest.mark.parametrize(
    "platform", ["linux-x86_64", "linux-aarch64", "macos-arm64", "windows-amd64"]
)
def test_every_platform(linking: Any, platform: str, tmp_path: Path) -> None:
    library, called = linked(linking, platform, tmp_path)
    assert called == EXPECTED[platform.partition("-")[0]]
    content = library.read_bytes()
    assert b"bvh_sample\0" in content
    if platform.startswith("linux"):
        # Neither a library by its name nor a version of a symbol, so that any C library will do.
        assert not {1, 0x6FFFFFFE, 0x6FFFFFFF} & {tag for tag, _ in dynamic_section(content)}
    if platform.startswith("macos"):
        # Signed, as the system demands: LC_CODE_SIGNATURE.
        assert 0x1D in load_commands(content)
    if platform == linking.this_platform():
        words = (ctypes.c_double * 2)(0.0, 7.25)
        call = ctypes.CDLL(str(library)).bvh_sample
        for which, result in (0, 8.25), (1, 7.25 * 7.25 + 1.0):
            words[1] = 7.25
            ctypes.c_int64.from_buffer(words).value = which
            call(ctypes.c_int64(ctypes.addressof(words)))
            assert words[1] == result


@pytest.mark.long
@pytest.mark.parametrize("platform", ["linux-x86_64", "macos-arm64", "windows-amd64"])
def test_other_functions_are_refused(linking: Any, platform: str, tmp_path: Path) -> None:
    """A function that a system rounds as it likes."""
    with pytest.raises((RuntimeError, ValueError), match="pow"):
        linked(linking, platform, tmp_path, "pow")
    assert not list(tmp_path.glob("sample.[!o]*"))


def dynamic_section(content: bytes) -> list[tuple[int, int]]:
    """Return the tags and values of an ELF file's dynamic section."""
    begin, size, count = (
        *struct.unpack_from("<32xQ", content),
        *struct.unpack_from("<54xHH", content),
    )
    for i in range(count):
        kind, at, length = struct.unpack_from("<I4xQ16xQ", content, begin + i * size)
        if kind == 2:
            return list(struct.iter_unpack("<qQ", content[at : at + length]))
    raise AssertionError("there is no dynamic section")


def load_commands(content: bytes) -> set[int]:
    """Return the kinds of a Mach-O file's load commands."""
    found, at = set(), 32
    for _ in range(struct.unpack_from("<16xI", content)[0]):
        kind, size = struct.unpack_from("<II", content, at)
        found.add(kind)
        at += size
    return found
