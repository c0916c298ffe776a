"""Time, peak memory and ceilings of a device; a CPU is timed by the clock, a GPU by its own events."""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch

_WARM = 3
DTYPES = {"half": torch.float16, "bf16": torch.bfloat16}
"""What a tensor of a precision is; float32 where it is not named."""


class Ceilings(NamedTuple):
    """The most that the device does, measured."""

    bytes_per_second: float
    """Read and written, in a copy of a large tensor."""
    operations_per_second: dict[str, float]
    """In a large product of matrices, by precision; a multiplication and an addition are two."""


def milliseconds(run: Callable[[], object], device: str, repeats: int) -> list[float]:
    """Times of a pass, after some that do not count."""
    for _ in range(_WARM):
        run()
    return [_once(run, device) for _ in range(repeats)]


def _once(run: Callable[[], object], device: str) -> float:
    if device == "cpu":
        started = time.perf_counter()
        run()
        return 1e3 * (time.perf_counter() - started)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def captured(run: Callable[[], object]) -> Callable[[], None]:
    """The same pass as one CUDA graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def peak_gib(run: Callable[[], object], device: str) -> float | None:
    """Memory of a GPU that a pass takes at its peak, above what was held before."""
    if device == "cpu":
        return None
    run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def ceilings(device: str) -> Ceilings:
    """Measures them; a few seconds on a CPU, less on a GPU."""
    side, numbers = (8192, 2**29) if device != "cpu" else (1024, 2**24)
    source = torch.randn(numbers, device=device)
    target = torch.empty_like(source)
    copied = median(milliseconds(lambda: target.copy_(source), device, 5))
    del source, target
    rates = {}
    for precision in ("fp32", "tf32", "half", "bf16"):
        a, b = (
            torch.randn(side, side, device=device).to(DTYPES.get(precision, torch.float32))
            for _ in range(2)
        )
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        try:
            took = median(milliseconds(lambda a=a, b=b: a @ b, device, 5))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
        rates[precision] = 2 * side**3 / took * 1e3
    return Ceilings(2 * 4 * numbers / copied * 1e3, rates)
