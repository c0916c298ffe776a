"""What many steps add up to: the relational memory, and what it is distilled to.

`fold` sums K (x) V over all steps; `distil` maps such sums of stretches of steps by a matrix. Both take
the normal queries, keys and values of every step (batch, time, score, width), and for each step a fade:
how much of its values is left. Neither keeps the matches, nor a memory, for its gradient: both are
made again.
"""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.matches import make_matches, match_gradient
from twomem.kernels.products import OPERANDS, product, range_of, rescaled, scaled
from twomem.kernels.single_steps import SingleSteps, known

Pair = tuple[Tensor, Tensor]


def _kind(precision: str) -> torch.dtype:
    return OPERANDS.get(precision, torch.float32)


def _left_of_values(normal: Tensor, fades: Tensor, kind: torch.dtype) -> Tensor:
    """What is left of the values, as operands: batch, time, key, depth."""
    return (normal.chunk(3, dim=2)[2] * fades[:, :, None, None]).to(kind)


def _back(normal: Tensor, fades: Tensor, d_matches: Tensor, d_left: Tensor) -> Pair:
    """From the gradients of the matches and of what is left of the values to those of the inputs."""
    d_normal = match_gradient(normal, d_matches)
    values = normal.chunk(3, dim=2)[2]
    torch.mul(d_left, fades[:, :, None, None], out=d_normal.chunk(3, dim=2)[2])
    return d_normal, (d_left * values).sum((2, 3))


@torch.library.custom_op("twomem::fold", mutates_args=())
def fold(normal: Tensor, fades: Tensor, precision: str) -> Tensor:
    """The sum over steps and keys: batch, query, width, depth."""
    kind = _kind(precision)
    matches, left = make_matches(normal, kind), _left_of_values(normal, fades, kind)
    new = product(matches.flatten(3).flatten(1, 2).mT, left.flatten(1, 2))
    return new.unflatten(1, (normal.shape[2] // 3, -1))


@fold.register_fake
def _(normal: Tensor, fades: Tensor, precision: str) -> Tensor:
    del fades, precision
    batch, _, scores, width = normal.shape
    return normal.new_empty(batch, scores // 3, width, width)


@torch.library.custom_op("twomem::fold_backward", mutates_args=())
def fold_backward(normal: Tensor, fades: Tensor, grad: Tensor, precision: str) -> Pair:
    """The gradients of `normal` and `fades`."""
    kind = _kind(precision)
    scale = range_of(kind, grad)
    matches, left = make_matches(normal, kind), _left_of_values(normal, fades, kind)
    back = scaled(grad, scale, kind).flatten(1, 2)
    d_matches = (left.flatten(1, 2) @ back.mT).view(matches.shape)
    d_left = product(matches.flatten(3).flatten(1, 2), back).view(left.shape)
    d_normal, d_fades = rescaled([*_back(normal, fades, d_matches, d_left)], scale)
    return d_normal, d_fades


@fold_backward.register_fake
def _(normal: Tensor, fades: Tensor, grad: Tensor, precision: str) -> Pair:
    del grad, precision
    return torch.empty_like(normal), torch.empty_like(fades)


def _fold_saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:2])
    ctx.precision = inputs[2]


def _fold_back(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    return (*fold_backward(*ctx.saved_tensors, grad, ctx.precision), None)


fold.register_autograd(_fold_back, setup_context=_fold_saves)


def _leading(normal: Tensor, ends: list[int]) -> int:
    """How many stretches stand before the single steps at the end, for which there are kernels."""
    lead = len(ends)
    if known(normal.shape[2] // 3, normal.shape[3]):
        while lead > 0 and ends[lead - 1] - (ends[lead - 2] if lead > 1 else 0) == 1:
            lead -= 1
    return lead


@torch.library.custom_op("twomem::distil", mutates_args=())
def distil(
    normal: Tensor, fades: Tensor, weight: Tensor, ends: list[int], precision: str
) -> Tensor:
    """For each stretch of steps, `weight` times its sum: stretch, batch, query, distilled.

    Args:
        normal: As for `fold`.
        fades: As for `fold`; each stretch has its own.
        weight: The map: distilled, width_depth.
        ends: The step behind each stretch; the first begins at 0.
        precision: Of the operands.
    """
    kind, lead, found = _kind(precision), _leading(normal, ends), []
    if lead:
        stop, by = ends[lead - 1], weight.to(kind).mT
        for k, v in _stretches(normal[:, :stop].contiguous(), fades[:, :stop], kind, ends[:lead]):
            rows = (k.mT @ v).view(-1, by.shape[0])
            found.append(product(rows, by).view(1, len(k), -1, by.shape[1]))
    if lead < len(ends):
        single = SingleSteps(normal, fades, weight, ends[lead] - 1, kind)
        found.append(single.forward(len(ends) - lead))
    return torch.cat(found) if len(found) > 1 else found[0]


@distil.register_fake
def _(normal: Tensor, fades: Tensor, weight: Tensor, ends: list[int], precision: str) -> Tensor:
    del fades, precision
    return normal.new_empty(len(ends), normal.shape[0], normal.shape[2] // 3, weight.shape[0])


def _stretches(normal: Tensor, fades: Tensor, kind: torch.dtype, ends: list[int]) -> list[Pair]:
    """Matches (batch, step_key, query_width) and values (batch, step_key, depth) of each stretch."""
    matches, left = make_matches(normal, kind), _left_of_values(normal, fades, kind)
    return [
        (matches[:, start:stop].flatten(3).flatten(1, 2), left[:, start:stop].flatten(1, 2))
        for start, stop in zip([0, *ends], ends, strict=False)
    ]


@torch.library.custom_op("twomem::distil_backward", mutates_args=())
def distil_backward(
    normal: Tensor, fades: Tensor, weight: Tensor, grad: Tensor, ends: list[int], precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `normal`, `fades` and `weight`."""
    kind, lead = _kind(precision), _leading(normal, ends)
    scale = range_of(kind, grad)
    back = scaled(grad, scale, kind)
    d_normal, d_fades = torch.zeros_like(normal), torch.zeros_like(fades)
    d_weight = torch.zeros_like(weight)
    if lead:
        stop = ends[lead - 1]
        early = (normal[:, :stop].contiguous(), fades[:, :stop], weight, back[:lead], ends[:lead])
        d_normal[:, :stop], d_fades[:, :stop], d_weight = _back_by_products(*early)
    if lead < len(ends):
        single = SingleSteps(normal, fades, weight, ends[lead] - 1, kind)
        d_weight = d_weight + single.backward(back[lead:], d_normal, d_fades)
    d_normal, d_fades, d_weight = rescaled([d_normal, d_fades, d_weight], scale)
    return d_normal, d_fades, d_weight


def _back_by_products(
    normal: Tensor, fades: Tensor, weight: Tensor, back: Tensor, ends: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients where a stretch has many steps: its memory is laid out."""
    batch, time, scores, width = normal.shape
    keys, by = scores // 3, weight.to(back.dtype)
    d_matches, d_left, d_weight = [], [], torch.zeros_like(weight)
    for (k, v), each in zip(_stretches(normal, fades, back.dtype, ends), back, strict=True):
        rows, to_rows = (k.mT @ v).view(-1, by.shape[1]), each.flatten(0, 1)
        d_weight += product(to_rows.mT, rows)
        d_memory = (to_rows @ by).view(batch, -1, width)
        d_left.append(product(k, d_memory))
        d_matches.append(v @ d_memory.mT)
    to_matches = torch.cat(d_matches, 1).view(batch, time, keys, keys, width)
    to_left = torch.cat(d_left, 1).view(batch, time, keys, width)
    return *_back(normal, fades, to_matches, to_left), d_weight


@distil_backward.register_fake
def _(normal: Tensor, fades: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(normal), torch.empty_like(fades), torch.empty_like(weight)


def _distil_saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:3])
    ctx.how = inputs[3:]


def _distil_back(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return (*distil_backward(*ctx.saved_tensors, grad, *ctx.how), None, None)


distil.register_autograd(_distil_back, setup_context=_distil_saves)
