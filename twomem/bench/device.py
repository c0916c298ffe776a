"""Time, peak memory and ceilings of a device; a CPU is timed by the clock, a GPU by its own events."""

import gc
import time
from collections.abc import Callable, Sequence
from math import ceil, inf
from statistics import median
from typing import NamedTuple

import torch

_WARM = 3
"""Passes that do not count."""
_LEAST = 3
"""Times that are taken of a pass, however long it is."""
_LONG = 300.0
"""Milliseconds from which one pass is enough to warm up."""
_ROW = 5.0
"""Milliseconds that a time is taken of: shorter passes are made in a row."""
DTYPES = {"half": torch.float16, "bf16": torch.bfloat16}
"""What a tensor of a precision is; float32 where it is not named."""


class Ceilings(NamedTuple):
    """The most that the device does, measured."""

    bytes_per_second: float
    """Read and written, in a copy of a large tensor."""
    operations_per_second: dict[str, float]
    """In a large product of matrices, by precision; a multiplication and an addition are two."""


def milliseconds(
    run: Callable[[], object], device: str, repeats: int, seconds: float = inf
) -> list[float]:
    """Times of a pass, after some that do not count; once `seconds` are spent, three are enough."""
    return in_turns([run], device, repeats, seconds)[0]


def in_turns(
    runs: Sequence[Callable[[], object]], device: str, repeats: int, seconds: float = inf
) -> list[list[float]]:
    """Times of several passes, one after the other, so that what else happens meets all alike."""
    counts = [max(1, ceil(_ROW / max(warm(run, device), 1e-6))) for run in runs]
    found: list[list[float]] = [[] for _ in runs]
    until = time.perf_counter() + seconds
    for turn in range(repeats):
        if turn >= _LEAST and time.perf_counter() > until:
            break
        for run, count, times in zip(runs, counts, found, strict=True):
            times.append(_in_a_row(run, device, count))
    return found


def warm(run: Callable[[], object], device: str) -> float:
    """Makes passes that do not count, one alone if it is long; milliseconds of the last."""
    took = 0.0
    for _ in range(_WARM):
        took = _in_a_row(run, device, 1)
        if took > _LONG:
            break
    return took


def _in_a_row(run: Callable[[], object], device: str, count: int) -> float:
    """Milliseconds of a pass, of so many that are launched without waiting between them."""
    if device == "cpu":
        started = time.perf_counter()
        for _ in range(count):
            run()
        return 1e3 * (time.perf_counter() - started) / count
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(count):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / count


def captured(run: Callable[[], object]) -> Callable[[], None]:
    """The same pass as one CUDA graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        warm(run, "cuda")
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def free(device: str) -> None:
    """Gives back all memory that nobody holds any more, so that one pass cannot spoil the next."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


def multiprocessors(device: str) -> int | None:
    """How many sequences a GPU reads side by side if each fills a multiprocessor."""
    if device == "cpu":
        return None
    return torch.cuda.get_device_properties(device).multi_processor_count


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
    free(device)
    rates = {}
    # a CPU multiplies nothing else, or at a rate that takes minutes to measure
    for precision in ("fp32",) if device == "cpu" else ("fp32", "tf32", "half", "bf16"):
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
