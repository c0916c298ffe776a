"""Steps of a sequence on a device, which is told nothing from the host where it need not be."""

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

Made = TypeVar("Made")


def at_steps(x: Tensor, steps: Sequence[int]) -> Tensor:
    """`x` at `steps`, which rise; indexing by a list would send the list to the device.

    That waits for the device, and cannot be captured in a graph.
    """
    if not steps:
        return x[:0]
    first, last = steps[0], steps[-1]
    if last - first == len(steps) - 1:
        return x[first : last + 1]
    return torch.stack([x[step] for step in steps])


def kept(function: Callable[..., Made]) -> Callable[..., Made]:
    """Calls a function of numbers once for each of them; each time while a compiler traces it.

    A trace has tensors of its own, which must not be met outside of it.
    """
    cached = lru_cache(maxsize=1024)(function)

    @wraps(function)
    def either(*given: Any) -> Made:
        return function(*given) if torch.compiler.is_compiling() else cached(*given)

    return either


@kept
def numbers(
    values: tuple[int | float, ...], device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Numbers on a device, sent there once: a captured graph finds them in place."""
    if torch.compiler.is_compiling():
        return torch.tensor(values, device=device, dtype=dtype or torch.int64)
    # what is made where nothing is learned may be kept for a gradient later
    with torch.inference_mode(mode=False):
        return torch.tensor(values, device=device, dtype=dtype or torch.int64)
