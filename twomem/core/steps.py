"""Picks steps of a sequence without telling the device anything from the host."""

from collections.abc import Sequence

import torch
from torch import Tensor


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
