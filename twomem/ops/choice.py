"""Which way the recurrence of an STM is computed, and why a faster one is not taken.

In order: our kernels on a GPU; the restructured form by PyTorch's operations, on any device.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from twomem.kernels import runtime
from twomem.kernels.stm_arguments import Sizes
from twomem.kernels.stm_shared import MOST_QUERIES, WIDEST, chunk
from twomem.ops import relations

_OLDEST = (8, 0)
"""The oldest GPU whose tensor cores know the products that the kernels use."""
_log = logging.getLogger("twomem")
_said: set[str] = set()
# a plain list, which the compiler of a step can read
_switched_off: list[bool] = []


class Way(NamedTuple):
    """How a sequence is read."""

    precision: str | None
    """Of what the kernels multiply; none if they are not used."""
    steps: int
    """Steps that are read at once."""
    why: str
    """What was taken, and why nothing faster."""


@contextmanager
def without_kernels() -> Iterator[None]:
    """PyTorch's operations only, in this block: to compare with, or to differentiate twice."""
    _switched_off.append(True)
    try:
        yield
    finally:
        _switched_off.pop()


def choose(form: int, weights: Any, xs: Tensor, items: Tensor, precision: str) -> Way:
    """The fastest way that is right for these sizes, this device and this dtype."""
    because = _obstacle(xs, items, weights)
    if because is None:
        operands = _operands(xs, precision)
        steps = _steps(form, weights, xs, items, operands)
        if steps > 0:
            return _told(xs, Way(operands, steps, f"kernels, {operands} operands"))
        because = f"at {operands}, memories of this size do not fit on the chip"
    way = Way(None, relations.CHUNK, f"restructured, by PyTorch's operations: {because}")
    return _told(xs, way)


def _told(xs: Tensor, way: Way) -> Way:
    """Says once what was chosen on a GPU."""
    if xs.is_cuda and way.why not in _said:
        _said.add(way.why)
        _log.info(way.why)
    return way


def _sizes(xs: Tensor, items: Tensor, weights: Any) -> Sizes:
    width = items.shape[-1]
    return Sizes(xs.shape[1], len(xs), width, weights.norm_gain.numel() // width // 3)


def _obstacle(xs: Tensor, items: Tensor, weights: Any) -> str | None:
    """Why the kernels cannot be used; none if they can."""
    n = _sizes(xs, items, weights)
    if _switched_off:
        return "kernels are switched off here"
    if not xs.is_cuda and runtime.on_cpu is None:
        return f"the kernels need a GPU, and this is on {xs.device.type}"
    if items.dtype != torch.float32:
        return f"the kernels hold memories in float32, and this model's are {items.dtype}"
    if n.width > WIDEST or n.queries > MOST_QUERIES:
        return f"the kernels go up to width {WIDEST} and {MOST_QUERIES} queries"
    return _obstacle_of_gpu(xs.device) if xs.is_cuda else None


def _obstacle_of_gpu(device: torch.device) -> str | None:
    if torch.cuda.get_device_capability(device) < _OLDEST:
        return f"the kernels need a GPU of compute capability {_OLDEST[0]}.{_OLDEST[1]}"
    return runtime.obstacle()


def _steps(form: int, weights: Any, xs: Tensor, items: Tensor, operands: str) -> int:
    """Most steps that the kernels read at once; none if such memories do not fit on the chip."""
    return chunk(
        form,
        _sizes(xs, items, weights),
        gated=weights.gates is not None,
        # one form leaves out the address by none, the other by an empty chain
        read=bool(weights.address),
        transfer=weights.transfer is not None,
        precision=operands,
        room=runtime.room(xs.device),
    )


def _operands(xs: Tensor, precision: str) -> str:
    """What autocast says, and else what the model says."""
    kind = xs.device.type
    if not torch.is_autocast_enabled(kind):
        return precision
    told = torch.get_autocast_dtype(kind)
    return {torch.float16: "half", torch.bfloat16: "bf16"}.get(told, precision)
