"""Compiles the CUDA sources at run time, with what torch brings, and launches them.

This file alone knows torch's private entry to NVRTC. No compiler is needed on the user's machine.
"""

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from twomem.kernels import SOURCES, binaries

Argument = Tensor | int | None
Launch = Callable[[str, dict[str, int], int, int, Sequence[Argument]], None]

on_cpu: Launch | None = None
"""What stands for a GPU where there is none; tests put an emulator here."""

HOPPER_ROOM = 227 * 1024
"""Bytes of shared memory that a block has on a GPU of the data centre since Hopper."""

_built: dict[Any, Any] = {}
_lock = threading.Lock()


def _text(name: str) -> str:
    """A file, with what it includes in its place."""
    text = (SOURCES / name).read_text()
    return re.sub(r'#include "(.+)"\n', lambda found: _text(found[1]), text)


def source(name: str, defines: dict[str, int]) -> str:
    """The whole text of a kernel at these sizes."""
    head = "".join(f"#define {key} {value}\n" for key, value in sorted(defines.items()))
    parts = [_text(each) for each in ("operands.cuh", f"{name}.cu")]
    size = (
        f'extern "C" __global__ void {name}_bytes(int* size) {{ *size = (int)sizeof(Shared); }}\n'
    )
    return "".join([head, *parts, size])


def _build(name: str, defines: dict[str, int], device: int) -> tuple[Any, int]:
    """The kernel, and how many bytes of shared memory it takes."""
    key = (name, tuple(sorted(defines.items())), device)
    with _lock:
        if key not in _built:
            from torch.cuda._utils import _cuda_load_module

            binary = _compiled(source(name, defines), name, device)
            both = _cuda_load_module(binary, [name, f"{name}_bytes"])
            assert isinstance(both, dict)
            told = torch.zeros(1, dtype=torch.int32, device=f"cuda:{device}")
            both[f"{name}_bytes"](args=[told])
            kernel, size = both[name], int(told)
            kernel.set_shared_memory_config(size)
            _built[key] = (kernel, size)
        return _built[key]


def _compiled(text: str, name: str, device: int) -> bytes:
    """The machine code of a source for this device, compiled once on this machine."""
    from torch.cuda._utils import _nvrtc_compile

    place = torch.cuda.get_device_capability(device)
    made_of = f"{torch.__version__} {torch.version.cuda} {place}\n{text}"
    return binaries.kept(made_of, lambda: _nvrtc_compile(text, name)[0])


def at_once(device: torch.device) -> int:
    """Blocks that run side by side if each fills a multiprocessor."""
    if device.type == "cpu":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count


def obstacle() -> str | None:
    """Why nothing can be compiled here; none if it can."""
    if torch.version.hip is not None:
        return "the kernels are written for GPUs of NVIDIA"
    try:
        from torch.cuda._utils import _cuda_load_module, _nvrtc_compile
    except ImportError:
        return f"PyTorch {torch.__version__} does not compile kernels"
    del _cuda_load_module, _nvrtc_compile
    return None


def room(device: torch.device) -> int:
    """Bytes of shared memory that a block can have."""
    if device.type == "cpu":
        return HOPPER_ROOM
    # what every GPU has, should one not tell
    properties = torch.cuda.get_device_properties(device)
    return getattr(properties, "shared_memory_per_block_optin", 48 * 1024)


def launch(
    name: str,
    defines: dict[str, int],
    blocks: int,
    threads: int,
    arguments: Sequence[Argument],
) -> None:
    """Runs a kernel on the device of its first argument."""
    first = arguments[0]
    assert isinstance(first, Tensor)
    nothing = first.new_empty(0)  # a null pointer
    arguments = [nothing if each is None else each for each in arguments]
    if first.device.type == "cpu":
        if on_cpu is None:
            raise RuntimeError("kernels need a GPU")
        on_cpu(name, defines, blocks, threads, arguments)
        return
    with torch.cuda.device(first.device):
        kernel, size = _build(name, defines, first.device.index or 0)
        kernel(
            grid=(blocks, 1, 1),
            block=(threads, 1, 1),
            args=arguments,
            shared_mem=size,
        )
