"""Parts what one product heard, by one launch; for the gradient, joins what all uses of the parts gave."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from twomem.kernels.runtime import launch

_THREADS = 128
_LANES = 32
MOST_QUERIES = _LANES
"""A warp has an address."""


class Parts(NamedTuple):
    """What was heard, each as often as it is used; batch first, then time. None are empty."""

    left: tuple[Tensor, Tensor]
    right: tuple[Tensor, Tensor, Tensor]
    address: tuple[Tensor, Tensor]
    gates: Tensor


def _launch(name: str, tensors: Sequence[Tensor | None], sizes: Sequence[int], rows: int) -> None:
    defines = dict(zip(("D", "N", "GATES"), sizes, strict=True))
    blocks = -(-rows // (_THREADS // _LANES))
    given = [None if x is None or not x.numel() else x for x in tensors]
    launch(name, {**defines, "THREADS": _THREADS, "PRECISION": 2}, blocks, _THREADS, [*given, rows])


@torch.library.custom_op("twomem::part", mutates_args=())
def part(found: Tensor, sizes: list[int]) -> list[Tensor]:
    """Left, right, address after its softmax, and gates: how many of each, address and gates is in `sizes`."""
    parts, found = _room(found, sizes), found.contiguous()
    _launch("part", [found, *parts], sizes, found.shape[:-1].numel())
    return parts


@part.register_fake
def _room(found: Tensor, sizes: list[int]) -> list[Tensor]:
    width, queries, gates = sizes
    return [found.new_empty(*found.shape[:-1], each) for each in (width, width, queries, gates)]


@torch.library.custom_op("twomem::join", mutates_args=())
def join(address: Tensor, grads: list[Tensor], sizes: list[int]) -> Tensor:
    """The gradient of what was parted; `grads` are those of all uses, some of them empty."""
    found = _joined(address, grads, sizes)
    given = [found, address, *(x.contiguous() for x in grads)]
    _launch("join", given, sizes, address.shape[:-1].numel())
    return found


@join.register_fake
def _joined(address: Tensor, grads: list[Tensor], sizes: list[int]) -> Tensor:
    del grads
    width, queries, gates = sizes
    return address.new_empty(*address.shape[:-1], 2 * width + queries + gates)


class _Parted(torch.autograd.Function):
    """Gives each part as often as it is used, so that no launch adds gradients of two uses."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        left, right, address, gates = part(found, sizes)
        ctx.save_for_backward(address)
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        uses = left, left, right, right, right, address, address
        return (*(each.view(each.shape) for each in uses), gates)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, None]:
        (address,) = ctx.saved_tensors
        there = [address.new_empty(0) if each is None else each for each in grads]
        return join(address, there, ctx.sizes), None


def parted(found: Tensor, width: int, queries: int, gates: int) -> Parts:
    """Of what one product heard: two maps, the address after its softmax, and the gates."""
    got: Any = _Parted.apply(found, [width, queries, gates])
    return Parts(got[:2], got[2:5], got[5:7], got[7])
