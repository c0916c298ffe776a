"""Weights of a call as operands in the orders of `fragments`, all of them by one launch."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from twomem.kernels.products import NUMBERS
from twomem.kernels.runtime import launch

_THREADS, _EACH = 256, 4
"""Threads of a block, and the numbers that each of them moves."""
_WHICH = 28
"""The bit of a place above which stands the weight it is in."""
_MOST = 3


class Ordered(NamedTuple):
    """One of the weights of a call, by its number, in an order; zeros have negative places."""

    which: int
    order: Callable[..., Tensor]
    sizes: tuple[int, ...] = ()


def packed(
    weights: Sequence[Tensor | None], wanted: Sequence[Ordered], kind: torch.dtype
) -> list[Tensor | None]:
    """Each of `wanted` as one piece of memory; none where there is no such weight."""
    given = [None if x is None else x.detach().float().contiguous() for x in weights]
    there = tuple(each for each in wanted if given[each.which] is not None)
    first = next(x for x in given if x is not None)
    shapes = tuple(() if x is None else tuple(x.shape) for x in given)
    places, counts = _places(there, shapes, first.device)
    found = first.new_empty(len(places), dtype=kind)
    blocks = -(-len(places) // (_THREADS * _EACH))
    defines = {"THREADS": _THREADS, "PRECISION": NUMBERS[kind]}
    sources = [*given, *[None] * (_MOST - len(given))]
    launch("pack", defines, blocks, _THREADS, [places, *sources, found, len(places)])
    parts = iter(torch.split(found, counts))
    return [None if given[each.which] is None else next(parts) for each in wanted]


@cache
def _places(
    wanted: tuple[Ordered, ...], shapes: tuple[tuple[int, ...], ...], device: torch.device
) -> tuple[Tensor, list[int]]:
    """Where each number of the orders stands; made once, since a captured graph cannot make it."""
    found = []
    for which, order, sizes in wanted:
        shape = shapes[which]
        count = torch.Size(shape).numel()
        places = order(torch.arange(count, dtype=torch.int32).view(shape), *sizes).reshape(-1)
        found.append(torch.where(places < 0, places, places + (which << _WHICH)))
    return torch.cat(found).to(device), [len(each) for each in found]
