"""The relational memory after the last step, and what it is distilled to: one pass over the steps for both.

Where only the last step of all is answered, nothing else has to be laid out. Memories are held as
operands for some sequences at a time; for the gradient they are made again.
"""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.fold_call import Steps
from twomem.kernels.memory import gradients_before, room
from twomem.kernels.products import product, range_of, rescaled

_AT_ONCE = 256
"""Memories that are held as operands, where they are read as they are."""


@torch.library.custom_op("twomem::fold_distil", mutates_args=())
def fold_distil(
    normal: Tensor, fades: Tensor, old: Tensor, carry: Tensor, weight: Tensor, precision: str
) -> tuple[Tensor, Tensor]:
    """The memory as `fold` makes it, and `weight` times it: batch, query, distilled."""
    steps, found, distilled = Steps.of(normal, fades, precision), room(normal), []
    old, by = old.detach().contiguous(), weight.detach().to(steps.kind).mT
    for part in steps.slices():
        memory = found[part]
        # at full precision what is found is the operand
        short = None if steps.kind == memory.dtype else torch.empty_like(memory, dtype=steps.kind)
        steps.rows(part).fold(memory, short, _rows(old, part), _rows(carry.detach(), part))
        operand = memory if short is None else short
        distilled.append(
            product(operand.flatten(2).flatten(0, 1), by).unflatten(0, memory.shape[:2])
        )
        # the next are laid out in its place
        del short, operand
    return found, torch.cat(distilled) if len(distilled) > 1 else distilled[0]


@fold_distil.register_fake
def _(normal: Tensor, fades: Tensor, old: Tensor, carry: Tensor, weight: Tensor, p: str) -> Any:
    del fades, old, carry, p
    found = room(normal)
    return found, normal.new_empty(*found.shape[:2], weight.shape[0])


def _rows(x: Tensor, part: slice) -> Tensor:
    """Some rows of the batch, or what all share."""
    return x if len(x) == 1 else x[part]


@torch.library.custom_op("twomem::fold_distil_backward", mutates_args=())
def fold_distil_backward(
    normal: Tensor,
    fades: Tensor,
    old: Tensor,
    carry: Tensor,
    weight: Tensor,
    d_found: Tensor | None,
    d_distilled: Tensor,
    precision: str,
    before: bool,
) -> list[Tensor]:
    """The gradients of all tensors; those of the memory before and of `carry` only if asked for."""
    steps, old, d_weight = Steps.of(normal, fades, precision), old.contiguous(), None
    scale = range_of(steps.kind, d_distilled, *[] if d_found is None else [d_found])
    back = (d_distilled if scale is None else d_distilled * scale).to(steps.kind)
    by = weight.to(steps.kind)
    d_normal, d_fades = torch.empty_like(steps.normal), normal.new_empty(fades.shape)
    for part in steps.slices():
        some, to_rows = steps.rows(part), back[part].flatten(0, 1)
        memory = some.operands(_rows(old, part), _rows(carry, part)).flatten(2).flatten(0, 1)
        more = product(to_rows.mT, memory)
        d_weight = more if d_weight is None else d_weight.add_(more)
        # the gradient is laid out in its place
        del memory
        d_memory = _d_memory(to_rows, by, scale, None if d_found is None else d_found[part])
        some.back(d_memory, scale, d_normal[part], d_fades[part])
        del d_memory
    assert d_weight is not None
    found = [d_normal, d_fades, *rescaled([d_weight], scale)]
    return found + (_before(old, carry, weight, back, d_found, scale) if before else [])


@fold_distil_backward.register_fake
def _(
    normal: Tensor, fades: Tensor, old: Tensor, carry: Tensor, weight: Tensor, *more: Any
) -> list[Tensor]:
    given = [normal, fades, weight, *([old, carry] if more[-1] else [])]
    return [x.new_empty(x.shape) for x in given]


def _d_memory(to_rows: Tensor, by: Tensor, scale: Tensor | None, d_found: Tensor | None) -> Tensor:
    """The gradient of memories: operands in their range, or in float32 where they are used themselves."""
    if d_found is None:
        return to_rows @ by
    (exact,) = rescaled([product(to_rows, by)], scale)
    return exact.add_(d_found.reshape(exact.shape))


def _before(
    old: Tensor,
    carry: Tensor,
    weight: Tensor,
    back: Tensor,
    d_found: Tensor | None,
    scale: Tensor | None,
) -> list[Tensor]:
    """Of the memory before, which is distilled by itself, and of what is left of it."""
    exact = back.float()
    left = exact * carry.expand(len(back))[:, None, None]
    if len(old) == 1:
        image = old.flatten(2) @ weight.mT
        d_old = left.sum(0, keepdim=True) @ weight
    else:
        image = _images(old, weight.to(back.dtype))
        d_old = product(left.to(back.dtype).flatten(0, 1), weight.to(back.dtype))
    d_carry = (exact * image).sum((1, 2))
    d_carry = d_carry.sum(0, keepdim=True) if len(carry) == 1 else d_carry
    d_old, d_carry = rescaled([d_old.view(old.shape), d_carry], scale)
    if d_found is not None:
        more = gradients_before(old, carry, d_found)
        d_old, d_carry = d_old + more[0], d_carry + more[1]
    return [d_old, d_carry]


def _images(old: Tensor, by: Tensor) -> Tensor:
    """What memories are distilled to, some at a time."""
    parts = old.flatten(2).split(_AT_ONCE)
    return torch.cat([product(x.flatten(0, 1).to(by.dtype), by.mT) for x in parts]).unflatten(
        0, old.shape[:2]
    )


def _saves(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del output
    ctx.save_for_backward(*inputs[:5])
    ctx.precision = inputs[5]
    # the memory is often not used again
    ctx.set_materialize_grads(False)


def _back(ctx: Any, d_found: Tensor | None, d_distilled: Tensor | None) -> tuple[Any, ...]:
    normal, _, old, _, weight = ctx.saved_tensors
    before = any(ctx.needs_input_grad[2:4])
    if d_distilled is None:
        d_distilled = normal.new_zeros(len(normal), old.shape[1], weight.shape[0])
    found = fold_distil_backward(*ctx.saved_tensors, d_found, d_distilled, ctx.precision, before)
    d_normal, d_fades, d_weight, *rest = found
    return (d_normal, d_fades, *(rest or (None, None)), d_weight, None)


fold_distil.register_autograd(_back, setup_context=_saves)
