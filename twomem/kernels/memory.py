"""The relational memory after some steps, in one pass: what is left of the one before, and what they add.

The matches are not kept for its gradient, but made again.
"""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.fold_call import Steps
from twomem.kernels.products import range_of

Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("twomem::fold", mutates_args=())
def fold(normal: Tensor, fades: Tensor, old: Tensor, carry: Tensor, precision: str) -> Tensor:
    """The memory: batch, query, width, depth.

    Args:
        normal: Queries, keys and values of every step: batch, time, score, width.
        fades: How much is left of the values of each step: batch, time.
        old: The memory before, of all rows or one for all.
        carry: What is left of it, for all rows or one for all.
        precision: Of the operands.
    """
    steps, found = Steps.of(normal, fades, precision), room(normal)
    steps.fold(found, None, old.detach().contiguous(), carry.detach())
    return found


def room(normal: Tensor) -> Tensor:
    """For the memories of all rows."""
    batch, _, scores, width = normal.shape
    return normal.new_empty(batch, scores // 3, width, width)


@fold.register_fake
def _(normal: Tensor, *_: Any) -> Tensor:
    return room(normal)


@torch.library.custom_op("twomem::fold_backward", mutates_args=())
def fold_backward(
    normal: Tensor,
    fades: Tensor,
    old: Tensor,
    carry: Tensor,
    grad: Tensor,
    precision: str,
    before: bool,
) -> Gradients:
    """The gradients of all tensors; those of the memory before and of `carry` only if asked for."""
    steps, grad = Steps.of(normal, fades, precision), grad.contiguous()
    d_normal, d_fades = torch.empty_like(steps.normal), normal.new_empty(fades.shape)
    steps.back(grad, range_of(steps.kind, grad), d_normal, d_fades)
    if not before:
        return d_normal, d_fades, normal.new_empty(0), normal.new_empty(0)
    return d_normal, d_fades, *gradients_before(old, carry, grad)


@fold_backward.register_fake
def _(
    normal: Tensor, fades: Tensor, old: Tensor, carry: Tensor, grad: Tensor, p: str, before: bool
) -> Gradients:
    del grad, p
    first = normal.new_empty(fades.shape)
    if not before:
        return torch.empty_like(normal), first, normal.new_empty(0), normal.new_empty(0)
    return torch.empty_like(normal), first, torch.empty_like(old), torch.empty_like(carry)


def gradients_before(old: Tensor, carry: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the memory before and of what is left of it."""
    rows, left = grad.flatten(1), carry.expand(len(grad))
    if len(old) == 1:
        d_carry, d_old = rows @ old.flatten(), (left @ rows).view(old.shape)
    else:
        d_carry, d_old = (rows * old.flatten(1)).sum(1), grad * left[:, None, None, None]
    return d_old, d_carry.sum(0, keepdim=True) if len(carry) == 1 else d_carry


def _fold_saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:4])
    ctx.precision = inputs[4]


def _fold_back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    before = any(ctx.needs_input_grad[2:4])
    found = fold_backward(*ctx.saved_tensors, grad, ctx.precision, before)
    return (*found[:2], *(found[2:] if before else (None, None)), None)


fold.register_autograd(_fold_back, setup_context=_fold_saves)
