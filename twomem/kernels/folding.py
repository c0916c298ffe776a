"""What the relational memory of stretches of steps is distilled to.

`distil` sums K (x) V over the steps of each stretch and maps the sum by a matrix. It takes
the normal queries, keys and values of every step (batch, time, score, width), and for each step a fade:
how much of its values is left. Neither matches nor memories are kept for its gradient: both are
made again.
"""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.fold_call import Steps
from twomem.kernels.products import OPERANDS, product, range_of, rescaled, scaled
from twomem.kernels.single_steps import SingleSteps, known

Pair = tuple[Tensor, Tensor]
_MOST_KEPT = 64 * 2**20
"""Bytes of a memory that is kept as operands for the way back."""


def _kind(precision: str) -> torch.dtype:
    return OPERANDS.get(precision, torch.float32)


def _leading(normal: Tensor, ends: list[int]) -> int:
    """How many stretches stand before the single steps at the end, for which there are kernels."""
    lead = len(ends)
    if known(normal.shape[2] // 3, normal.shape[3]):
        while lead > 0 and ends[lead - 1] - (ends[lead - 2] if lead > 1 else 0) == 1:
            lead -= 1
    return lead


@torch.library.custom_op("twomem::distil", mutates_args=())
def distil(normal: Tensor, fades: Tensor, weight: Tensor, ends: list[int], precision: str) -> Pair:
    """For each stretch of steps, `weight` times its sum: stretch, batch, query, distilled.

    Args:
        normal: Queries, keys and values of every step.
        fades: How much is left of the values of each step, at the end of its stretch.
        weight: The map: distilled, width_depth.
        ends: The step behind each stretch; the first begins at 0.
        precision: Of the operands.

    Returns:
        That, and the memory of the first stretch as operands, if there is only one of many steps
        and it is small: the way back needs it again.
    """
    kind, lead, found = _kind(precision), _leading(normal, ends), []
    laid = normal.new_empty(0, dtype=kind)
    if lead:
        early, laid = _early(Steps.of(normal, fades, precision), weight.to(kind), ends[:lead])
        found.append(early)
    if lead < len(ends):
        single = SingleSteps(normal, fades, weight, ends[lead] - 1, kind)
        found.append(single.forward(len(ends) - lead))
    return torch.cat(found) if len(found) > 1 else found[0], laid


def _kept_for_back(normal: Tensor, lead: int, kind: torch.dtype) -> bool:
    """Whether the memory of the only stretch of many steps is small enough to be kept."""
    batch, _, scores, width = normal.shape
    return lead == 1 and batch * scores // 3 * width**2 * kind.itemsize <= _MOST_KEPT


def _early(steps: Steps, by: Tensor, ends: list[int]) -> tuple[Tensor, Tensor]:
    """What stretches of many steps are distilled to: their memories are laid out as operands."""
    shape = (len(ends), len(steps.normal), steps.queries, len(by))
    if _kept_for_back(steps.normal, len(ends), steps.kind):
        laid = steps.between(0, ends[0]).operands()
        return product(laid.flatten(2).flatten(0, 1), by.mT).view(shape), laid
    found = steps.normal.new_empty(shape)
    for x, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        for part in steps.slices():
            rows = steps.rows(part).between(start, stop).operands().flatten(2).flatten(0, 1)
            found[x, part] = product(rows, by.mT).view(-1, *shape[2:])
    return found, steps.normal.new_empty(0, dtype=steps.kind)


@distil.register_fake
def _(normal: Tensor, fades: Tensor, weight: Tensor, ends: list[int], precision: str) -> Pair:
    del fades
    kind, (batch, _, scores, width) = _kind(precision), normal.shape
    kept = _kept_for_back(normal, _leading(normal, ends), kind)
    laid = (batch, scores // 3, width, width) if kept else (0,)
    found = normal.new_empty(len(ends), batch, scores // 3, weight.shape[0])
    return found, normal.new_empty(laid, dtype=kind)


@torch.library.custom_op("twomem::distil_backward", mutates_args=())
def distil_backward(
    normal: Tensor,
    fades: Tensor,
    weight: Tensor,
    laid: Tensor,
    grad: Tensor,
    ends: list[int],
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `normal`, `fades` and `weight`."""
    kind, lead = _kind(precision), _leading(normal, ends)
    scale = range_of(kind, grad)
    steps = Steps.of(normal, fades, precision)
    d_normal, d_fades = torch.empty_like(steps.normal), normal.new_empty(fades.shape)
    # nothing is distilled of what comes after
    d_normal[:, ends[-1] :], d_fades[:, ends[-1] :] = 0, 0
    early = None
    if lead:
        back = scaled(grad[:lead], scale, kind)
        early = _early_back(
            steps, weight.to(kind), ends[:lead], back, scale, [d_normal, d_fades], laid
        )
    if lead < len(ends):
        single = SingleSteps(normal, fades, weight, ends[lead] - 1, kind)
        return d_normal, d_fades, single.backward(grad[lead:], scale, d_normal, d_fades, early)
    assert early is not None
    (d_weight,) = rescaled([early], scale)
    return d_normal, d_fades, d_weight


def _early_back(
    steps: Steps,
    by: Tensor,
    ends: list[int],
    back: Tensor,
    scale: Tensor | None,
    found: list[Tensor],
    laid: Tensor,
) -> Tensor:
    """Writes gradients of stretches of many steps; gives that of the map, in the range of operands."""
    (d_normal, d_fades), d_weight = found, None
    for each, start, stop in zip(back, [0, *ends], ends, strict=False):
        for part in steps.slices():
            some, to_rows = steps.rows(part).between(start, stop), each[part].flatten(0, 1)
            memory = laid[part] if laid.numel() else some.operands()
            more = product(to_rows.mT, memory.flatten(2).flatten(0, 1))
            d_weight = more if d_weight is None else d_weight.add_(more)
            some.back(to_rows @ by, scale, d_normal[part], d_fades[part])
    assert d_weight is not None
    return d_weight


@distil_backward.register_fake
def _(normal: Tensor, fades: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(normal), normal.new_empty(fades.shape), torch.empty_like(weight)


def _distil_saves(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.how = inputs[3:]
    ctx.set_materialize_grads(False)


def _distil_back(ctx: Any, grad: Tensor, unused: None) -> tuple[Any, ...]:
    del unused
    return (*distil_backward(*ctx.saved_tensors, grad, *ctx.how), None, None)


distil.register_autograd(_distil_back, setup_context=_distil_saves)
