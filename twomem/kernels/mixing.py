"""What is distilled at each end of a stretch of steps, from what the stretches alone give."""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.runtime import launch
from twomem.kernels.stm_shared import LONGEST
from twomem.kernels.sums import batch_sums

_THREADS = 256
Four = tuple[Tensor, Tensor, Tensor, Tensor]


def _launch(
    name: str, tensors: list[Tensor | None], added: Tensor, carry: Tensor, held: Tensor
) -> None:
    ends, batch, queries, distilled = added.shape
    columns = queries * distilled
    sizes = (ends, batch, columns, distilled, int(len(carry) > 1), int(len(held) > 1))
    defines = {"THREADS": _THREADS, "PRECISION": 2, "LONGEST": LONGEST}
    launch(name, defines, batch * _groups(added), _THREADS, [*tensors, *sizes])


def _groups(added: Tensor) -> int:
    """Blocks of a sequence."""
    return -(-added.shape[2] * added.shape[3] // _THREADS)


def _plain(*given: Tensor) -> list[Tensor]:
    return [x.detach().contiguous() for x in given]


@torch.library.custom_op("twomem::mixed", mutates_args=())
def mixed(added: Tensor, carry: Tensor, held: Tensor, bias: Tensor) -> Tensor:
    """What is distilled at each end: end, batch, query, distilled.

    Args:
        added: What each stretch gives: end, batch, query, distilled.
        carry: What is left at each end of what was there at the end before: (batch or 1), end.
        held: What the first memory is distilled to, without bias: (batch or 1), query, distilled.
        bias: Added to all.
    """
    found = torch.empty_like(added, memory_format=torch.contiguous_format)
    _launch("mix", [*_plain(added, carry, held, bias), found], added, carry, held)
    return found


@mixed.register_fake
def _(added: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(added, memory_format=torch.contiguous_format)


@torch.library.custom_op("twomem::mixed_backward", mutates_args=())
def mixed_backward(
    grad: Tensor, found: Tensor, carry: Tensor, held: Tensor, bias: Tensor, fades: bool
) -> Four:
    """The gradients of all arguments, that of `carry` if it `fades`."""
    ends, batch = grad.shape[:2]
    d_added = torch.empty_like(found)
    d_held, d_bias = torch.empty_like(found[0]), torch.empty_like(found[0])
    d_carry = found.new_empty(batch, _groups(grad), ends) if fades else None
    given = [*_plain(grad, found, carry, held, bias), d_added, d_held, d_bias, d_carry]
    _launch("mix_back", given, grad, carry, held)
    own_held, own_carry = len(held) > 1, len(carry) > 1
    if d_carry is not None:
        d_carry = d_carry.sum(1) if own_carry else d_carry.flatten(0, 1)
    to_held, to_carry, to_bias = batch_sums(
        [None if own_held else d_held, None if own_carry else d_carry, d_bias.flatten(0, 1)]
    )
    assert to_bias is not None
    return (
        d_added,
        _row(d_carry, to_carry) if d_carry is not None else torch.zeros_like(carry),
        _row(d_held, to_held),
        to_bias,
    )


def _row(whole: Tensor, summed: Tensor | None) -> Tensor:
    """A sum for all rows, or what each row has."""
    return whole if summed is None else summed[None]


@mixed_backward.register_fake
def _(grad: Tensor, found: Tensor, carry: Tensor, held: Tensor, bias: Tensor, fades: bool) -> Four:
    del grad, fades
    d_added, d_carry, d_held, d_bias = map(torch.empty_like, (found, carry, held, bias))
    return d_added, d_carry, d_held, d_bias


def _saves(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[1:])


def _back(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return mixed_backward(grad, *ctx.saved_tensors, ctx.needs_input_grad[1])


mixed.register_autograd(_back, setup_context=_saves)
