"""What many steps add up to: the relational memory, and what it is distilled to.

`fold` sums K (x) V over all steps; `distil` maps such sums of stretches of steps by a matrix. Neither
keeps the matches, nor a memory, for its gradient: both are made again.
"""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.matches import make_matches, match_gradient
from twomem.kernels.products import OPERANDS, product, range_of


def _kind(precision: str) -> torch.dtype:
    return OPERANDS.get(precision, torch.float32)


@torch.library.custom_op("twomem::fold", mutates_args=())
def fold(normal: Tensor, values: Tensor, precision: str) -> Tensor:
    """The sum over steps and keys: batch, query, width, depth.

    Args:
        normal: Queries, keys and values: batch, time, score, width; only queries and keys count.
        values: The values, weighted: batch, time, key, depth.
        precision: Of the operands.
    """
    matches = make_matches(normal, _kind(precision))
    new = product(matches.flatten(3).flatten(1, 2).mT, values.to(matches.dtype).flatten(1, 2))
    return new.unflatten(1, (normal.shape[2] // 3, -1))


@fold.register_fake
def _(normal: Tensor, values: Tensor, precision: str) -> Tensor:
    del precision
    batch, _, queries, width = values.shape
    return normal.new_empty(batch, queries, width, width)


@torch.library.custom_op("twomem::fold_backward", mutates_args=())
def fold_backward(
    normal: Tensor, values: Tensor, grad: Tensor, precision: str
) -> tuple[Tensor, Tensor]:
    """The gradients of `normal` and `values`."""
    kind = _kind(precision)
    scale = range_of(kind, grad)
    matches = make_matches(normal, kind)
    back = (grad * scale).to(kind).flatten(1, 2)
    d_matches = values.to(kind).flatten(1, 2) @ back.mT
    d_values = product(matches.flatten(3).flatten(1, 2), back)
    d_normal = match_gradient(normal, d_matches.view(matches.shape))
    return d_normal / scale, d_values.view(values.shape) / scale


@fold_backward.register_fake
def _(normal: Tensor, values: Tensor, grad: Tensor, precision: str) -> tuple[Tensor, Tensor]:
    del grad, precision
    return torch.empty_like(normal), torch.empty_like(values)


def _fold_saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:2])
    ctx.precision = inputs[2]


def _fold_back(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    return (*fold_backward(*ctx.saved_tensors, grad, ctx.precision), None)


fold.register_autograd(_fold_back, setup_context=_fold_saves)


@torch.library.custom_op("twomem::distil", mutates_args=())
def distil(
    normal: Tensor, values: Tensor, weight: Tensor, ends: list[int], precision: str
) -> Tensor:
    """For each stretch of steps, `weight` times its sum: stretch, batch, query, distilled.

    Args:
        normal: As for `fold`.
        values: As for `fold`; stretches may be weighted apart.
        weight: The map: distilled, width_depth.
        ends: The step behind each stretch; the first begins at 0.
        precision: Of the operands.
    """
    kind = _kind(precision)
    matches, by = make_matches(normal[:, : ends[-1]], kind), weight.to(kind).mT
    found = []
    for k, v in _stretches(matches, values.to(kind), ends):
        rows = (k.mT @ v).view(-1, by.shape[0])
        found.append(product(rows, by).view(len(k), -1, by.shape[1]))
    return torch.stack(found)


@distil.register_fake
def _(normal: Tensor, values: Tensor, weight: Tensor, ends: list[int], precision: str) -> Tensor:
    del values, precision
    return normal.new_empty(len(ends), normal.shape[0], normal.shape[2] // 3, weight.shape[0])


def _stretches(matches: Tensor, values: Tensor, ends: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Matches (batch, step_key, query_width) and values (batch, step_key, depth) of each stretch."""
    return [
        (matches[:, start:stop].flatten(3).flatten(1, 2), values[:, start:stop].flatten(1, 2))
        for start, stop in zip([0, *ends], ends, strict=False)
    ]


@torch.library.custom_op("twomem::distil_backward", mutates_args=())
def distil_backward(
    normal: Tensor, values: Tensor, weight: Tensor, grad: Tensor, ends: list[int], precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `normal`, `values` and `weight`."""
    kind = _kind(precision)
    scale = range_of(kind, grad)
    back = (grad * scale).to(kind)
    matches = make_matches(normal, kind)
    d_matches, d_values = torch.zeros_like(matches), torch.zeros_like(values)
    d_weight, by = torch.zeros_like(weight), weight.to(kind)
    steps = zip([0, *ends], ends, strict=False)
    stretches = _stretches(matches, values.to(kind), ends)
    for (k, v), each, (start, stop) in zip(stretches, back, steps, strict=True):
        rows, to_rows = (k.mT @ v).view(-1, by.shape[1]), each.flatten(0, 1)
        d_weight += product(to_rows.mT, rows)
        d_memory = (to_rows @ by).view(len(k), -1, v.shape[2])
        d_values[:, start:stop] = product(k, d_memory).unflatten(1, (stop - start, -1))
        shape = (stop - start, *matches.shape[2:])
        d_matches[:, start:stop] = (v @ d_memory.mT).view(len(k), *shape)
    d_normal = match_gradient(normal, d_matches)
    return d_normal / scale, d_values / scale, d_weight / scale


@distil_backward.register_fake
def _(normal: Tensor, values: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(normal), torch.empty_like(values), torch.empty_like(weight)


def _distil_saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:3])
    ctx.how = inputs[3:]


def _distil_back(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return (*distil_backward(*ctx.saved_tensors, grad, *ctx.how), None, None)


distil.register_autograd(_distil_back, setup_context=_distil_saves)
