"""Builds a kernel for the CPU with the emulator beside this file, and calls it with tensors."""

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from torch import Tensor

from twomem.kernels import SOURCES

HERE = Path(__file__).parent
CXX = shutil.which("g++") or shutil.which("clang++")


_kept = tempfile.TemporaryDirectory(prefix="emulated-")
"""What is built; it goes when the tests end."""


def read(name: str) -> str:
    """The source of a kernel."""
    return (SOURCES / f"{name}.cu").read_text()


text = read
"""What is built in its place; a test spoils it here."""


@cache
def build(
    name: str, kernel: str, defines: tuple[tuple[str, int], ...], kinds: tuple[str, ...]
) -> ctypes.CDLL:
    """Compiles a kernel whose arguments are of `kinds`: p for a pointer, i for a whole number."""
    kernel = kernel.replace('extern "C"', "static")
    common = (SOURCES / "operands.cuh").read_text()
    head = "".join(f"#define {key} {value}\n" for key, value in defines)
    passed = ", ".join(
        f"From{{given_[{i}]}}" if kind == "p" else f"(int)(long long)given_[{i}]"
        for i, kind in enumerate(kinds)
    )
    source = f"""
{head}
#include "emulator.h"
{common}
{kernel}
static void** given_;
struct From {{ void* p; template <class T> operator T*() const {{ return (T*)p; }} }};
static void call_() {{ {name}({passed}); }}
extern "C" void run(int blocks, int threads, unsigned seed, void** given) {{
  given_ = given;
  emulator::launch(call_, blocks, threads, sizeof(Shared), seed);
}}
extern "C" int shared_bytes() {{ return (int)sizeof(Shared); }}
"""
    place = Path(_kept.name) / hashlib.sha256(source.encode()).hexdigest()[:16]
    place.with_suffix(".cpp").write_text(source)
    _compile("-O1", "-fno-strict-aliasing", "-shared", "-fPIC", f"{place}.cpp", "-o", f"{place}.so")
    return ctypes.CDLL(f"{place}.so")


def _compile(*words: str) -> None:
    subprocess.run([str(CXX), "-std=c++17", "-w", f"-I{HERE}", f"-I{SOURCES}", *words], check=True)


def run(
    name: str,
    defines: dict[str, int],
    blocks: int,
    threads: int,
    arguments: Sequence[Tensor | int | None],
    seed: int = 0,
) -> None:
    """Runs a kernel on tensors of the CPU."""
    kinds = tuple("i" if isinstance(each, int) else "p" for each in arguments)
    library = build(name, text(name), tuple(sorted(defines.items())), kinds)
    given = (ctypes.c_void_p * len(arguments))(
        *(each.data_ptr() if isinstance(each, Tensor) else each for each in arguments)
    )
    library.run(blocks, threads, seed, given)


def shared_bytes(name: str, defines: dict[str, int]) -> int:
    """The size of a kernel's `Shared`, without building the kernel."""
    kernel = read(name)
    head = "".join(f"#define {key} {value}\n" for key, value in defines.items())
    layout = kernel[: kernel.index("\n};", kernel.index("struct Shared {")) + 3]
    source = f'{head}#include "emulator.h"\n{layout}\n'
    source += '#include <cstdio>\nint main() { std::printf("%d", (int)sizeof(Shared)); }\n'
    place = Path(_kept.name) / hashlib.sha256(source.encode()).hexdigest()[:16]
    place.with_suffix(".cpp").write_text(source)
    _compile("-O0", f"{place}.cpp", "-o", str(place))
    return int(subprocess.run([str(place)], check=True, capture_output=True, text=True).stdout)
