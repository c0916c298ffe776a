"""What the kernels of both STMs take, prepared by few launches."""

from typing import Any

import torch
from torch import Tensor

from twomem.ops.weights import Blend


class _Blended(torch.autograd.Function):
    """Products of several tensors with one number, all of them by one launch."""

    @staticmethod
    def forward(ctx: Any, blend: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(blend, *parts)
        return tuple(torch._foreach_mul(parts, blend.reshape(())))  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        blend, *parts = ctx.saved_tensors
        to_parts = torch._foreach_mul(grads, blend.reshape(()))  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
        met = torch._foreach_mul(grads, parts)  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
        to_blend = torch.cat([each.flatten() for each in met]).sum()
        return to_blend.reshape(blend.shape), *to_parts


def blended(blend: Blend, *parts: Tensor) -> tuple[Tensor, ...]:
    """Each of `parts` times `blend`."""
    if isinstance(blend, Tensor):
        return _Blended.apply(blend, *parts)  # pyright: ignore[reportReturnType]
    return parts if blend == 1 else tuple(blend * each for each in parts)


def first_reads(
    address: Tensor | None, cue: Tensor, matrices: Tensor, kept: Tensor | None, precision: str
) -> Tensor | None:
    """What every step reads of one first memory for all rows (1, query, inner, outer), by its kernels."""
    from twomem.kernels.first_reads import first_reads as reads

    if address is None:
        return None
    fades = cue.new_empty(0) if kept is None else kept
    single = (x.float() for x in (address, cue, matrices[0], fades))
    return reads(*single, precision)[0]
