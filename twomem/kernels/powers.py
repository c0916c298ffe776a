"""Whole powers of one number that may be learned, by one launch for each direction."""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.runtime import launch
from twomem.kernels.sums import batch_sums

_THREADS, _BACK_THREADS, _EACH = 256, 1024, 8


@torch.library.custom_op("twomem::powers", mutates_args=())
def powers(base: Tensor, steps: Tensor, rows: int) -> Tensor:
    """`base` to whole exponents, zero where they are negative; the same for many `rows` if not 0."""
    found = _room(base, steps, rows)
    given = [base.detach(), steps.contiguous(), found, steps.numel(), found.numel()]
    defines = {"THREADS": _THREADS, "PRECISION": 2}
    launch("powers", defines, -(-found.numel() // _THREADS), _THREADS, given)
    return found


def _room(base: Tensor, steps: Tensor, rows: int) -> Tensor:
    return base.new_empty((rows, *steps.shape) if rows else steps.shape)


@powers.register_fake
def _(base: Tensor, steps: Tensor, rows: int) -> Tensor:
    return _room(base, steps, rows)


@torch.library.custom_op("twomem::powers_backward", mutates_args=())
def powers_backward(grad: Tensor, base: Tensor, steps: Tensor) -> Tensor:
    """The gradient of `base`."""
    blocks = -(-grad.numel() // (_BACK_THREADS * _EACH))
    parts = base.new_empty(blocks, 1)
    given = [grad.contiguous(), base.detach(), steps.contiguous(), parts]
    defines = {"THREADS": _BACK_THREADS, "EACH": _EACH, "PRECISION": 2}
    sizes = [steps.numel(), grad.numel()]
    launch("powers_back", defines, blocks, _BACK_THREADS, [*given, *sizes])
    if blocks > 1:
        (total,) = batch_sums([parts])
        assert total is not None
        return total
    return parts[0]


@powers_backward.register_fake
def _(grad: Tensor, base: Tensor, steps: Tensor) -> Tensor:
    del grad, steps
    return torch.empty_like(base)


def _saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:2])


def _back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return powers_backward(grad, *ctx.saved_tensors), None, None


powers.register_autograd(_back, setup_context=_saves)
