"""Weights in the order in which the lanes of a warp hold them for the tensor cores.

A lane is `4 * g + tq`. Neighbours along the contraction come in pairs (`e`), two pairs to 16
(`p`); a left operand has rows `g` and `g + 8` (`h`), a right operand has column `g`.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad


def packed(weight: Tensor, order: Callable[..., Tensor], *sizes: int) -> Tensor:
    """`order(weight, *sizes)` as one piece of memory, by one gather."""
    places = _places(order, tuple(weight.shape), sizes, weight.device)
    return weight.detach().reshape(-1).index_select(0, places)


@cache
def _places(
    order: Callable[..., Tensor],
    shape: tuple[int, ...],
    sizes: tuple[int, ...],
    device: torch.device,
) -> Tensor:
    """Where each number of the order stands; made once, since a captured graph cannot make it."""
    count = torch.Size(shape).numel()
    return order(torch.arange(count).view(shape), *sizes).reshape(-1).to(device)


def left(x: Tensor) -> Tensor:
    """A left operand (rows, contraction): a tile of 16 x 16 after the other."""
    return x.unflatten(1, (-1, 2, 4, 2)).unflatten(0, (-1, 2, 8)).permute(0, 3, 2, 5, 4, 1, 6)


def right(x: Tensor) -> Tensor:
    """A right operand (columns, contraction): a tile of 8 x 16 after the other."""
    return x.unflatten(1, (-1, 2, 4, 2)).unflatten(0, (-1, 8)).permute(0, 2, 1, 4, 3, 5)


def scores(project: Tensor) -> Tensor:
    """Places of the projection (score, width) as left operand; rows are filled up to whole tiles."""
    return left(_whole(project))


def scores_back(project: Tensor) -> Tensor:
    """The same as right operand, contracted over scores."""
    return right(_whole(project).mT)


def _whole(places: Tensor) -> Tensor:
    return pad(places, [0, 0, 0, -places.shape[0] % 16], value=-1)


def gates(weight: Tensor) -> Tensor:
    """Gate weights (two_width, width) as right operand: both gates of a column side by side."""
    both = [right(part) for part in weight.chunk(2)]
    return torch.stack(both, 4)


def gates_back(weight: Tensor) -> Tensor:
    """The same weights, contracted over what the gates are."""
    both = [right(part.mT) for part in weight.chunk(2)]
    return torch.stack(both, 4)


def transfer(weight: Tensor, queries: int) -> Tensor:
    """Transfer weights (output, query_width) as left operand; 16 are 2 queries at a warp's 8 rows."""
    parts = weight.unflatten(1, (queries // 2, 2, -1, 4, 2)).unflatten(0, (-1, 2, 8))
    # r h g  s p w tq e
    return parts.permute(5, 3, 0, 2, 6, 4, 1, 7)


def transfer_back(weight: Tensor, queries: int) -> Tensor:
    """The same weights, contracted over outputs; 16 rows are 2 queries at a warp's 8 rows."""
    parts = weight.unflatten(1, (queries // 2, 2, -1, 8)).unflatten(0, (-1, 2, 4, 2))
    # k p tq e  s h w g
    return parts.permute(6, 4, 0, 7, 2, 1, 5, 3)
