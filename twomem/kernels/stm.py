"""The recurrence of both STMs as one operation of PyTorch, `twomem::stm_forward`, and its gradient.

PyTorch sees a single node for each direction.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from twomem.kernels.stm_arguments import Arguments, Saved, Sizes, padded, unpadded
from twomem.kernels.stm_back import Back
from twomem.kernels.stm_call import Call
from twomem.kernels.stm_gradients import Gradients

Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
_COUNT = len(Arguments._fields)


def recurrence(form: int, given: Arguments, precision: str) -> tuple[Tensor, Tensor]:
    """Normal queries, keys and values of every step, and the last item memory, in this form's order."""
    n = Sizes.of(given)
    whole = padded(form, given, n)
    save = torch.is_grad_enabled() and any(
        x is not None and x.is_floating_point() and x.requires_grad for x in given
    )
    normal, items, *_ = stm_forward(*whole, form, n.width, n.queries, precision, save)
    return unpadded(normal, items, n)


def _arguments(given: Sequence[Any]) -> Arguments:
    return Arguments(*given)


def _results(normal: Tensor, last: Tensor, saved: Saved) -> Results:
    items, scores, rstd, image, met, reads = saved
    return normal, last, items, scores, rstd, image, met, reads


def _call(given: Arguments, form: int, width: int, queries: int, precision: str) -> Call:
    batch, time, _ = given.row.shape
    return Call(form, given, Sizes(batch, time, width, queries), precision)


@torch.library.custom_op("twomem::stm_forward", mutates_args=())
def stm_forward(
    row: Tensor,
    column: Tensor,
    project: Tensor,
    project_bias: Tensor,
    gain: Tensor,
    bias: Tensor,
    items: Tensor,
    gates: Tensor | None,
    gate_weight: Tensor | None,
    right: Tensor | None,
    cue: Tensor | None,
    address: Tensor | None,
    first_reads: Tensor | None,
    kept: Tensor | None,
    moved: Tensor | None,
    transfer: Tensor | None,
    lengths: Tensor | None,
    form: int,
    width: int,
    queries: int,
    precision: str,
    save: bool,
) -> Results:
    """Runs the loop; gives what it computes, and what its gradient needs if `save`."""
    parts = (row, column, project, project_bias, gain, bias, items, gates, gate_weight)
    given = Arguments(*parts, right, cue, address, first_reads, kept, moved, transfer, lengths)
    return _results(*_call(given, form, width, queries, precision).forward(save=save))


@stm_forward.register_fake
def _(*arguments: Any) -> Results:
    call = _call(_arguments(arguments[:_COUNT]), *arguments[_COUNT:-1])
    return _results(*call.room(save=arguments[-1]))


@torch.library.custom_op("twomem::stm_backward", mutates_args=())
def stm_backward(
    given: list[Tensor | None],
    results: list[Tensor],
    d_normal: Tensor,
    d_last: Tensor,
    needed: list[bool],
    form: int,
    width: int,
    queries: int,
    precision: str,
) -> list[Tensor]:
    """A gradient for each argument of the loop that is needed, else an empty one."""
    arguments, (normal, _, *saved) = _arguments(given), results
    call = _call(arguments, form, width, queries, precision)
    streams, scale = Back(call, normal, Saved(*saved)).run(d_normal, d_last)
    found = Gradients(call, normal, Saved(*saved), streams, scale).all(needed)
    return [
        d_normal.new_empty(0) if grad is None or x is None else grad.view(x.shape).to(x.dtype)
        for grad, x in zip(found, arguments, strict=True)
    ]


@stm_backward.register_fake
def _(
    given: list[Tensor | None],
    results: Any,
    d_normal: Tensor,
    _: Any,
    needed: list[bool],
    *how: Any,
) -> list[Tensor]:
    del results, how
    return [
        torch.empty_like(x) if need and x is not None else d_normal.new_empty(0)
        for x, need in zip(given, needed, strict=True)
    ]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
    ctx.how = inputs[_COUNT:-1]
    ctx.save_for_backward(*inputs[:_COUNT], *output)
    # the gradients of what is saved would be zeros, larger than all else
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any, d_normal: Tensor | None, d_last: Tensor | None, *unused: Any
) -> tuple[Any, ...]:
    del unused
    given, results = list(ctx.saved_tensors[:_COUNT]), list(ctx.saved_tensors[_COUNT:])
    # without a gradient of the last memory, the loop starts from zeros of its own
    grads = (
        torch.zeros_like(results[0]) if d_normal is None else d_normal,
        results[1].new_empty(0) if d_last is None else d_last,
    )
    needed = list(ctx.needs_input_grad[:_COUNT])
    found = stm_backward(given, results, *grads, needed, *ctx.how)
    return (*(g if g.numel() else None for g in found), *[None] * (len(ctx.how) + 1))


stm_forward.register_autograd(_backward, setup_context=_remember)
