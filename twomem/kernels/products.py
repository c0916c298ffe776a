"""Matrix products at the precision of a kernel's operands, with sums and results in float32."""

import torch
from torch import Tensor

from twomem.kernels.runtime import at_once, launch
from twomem.kernels.stm_shared import PRECISIONS

_THREADS = 256
OPERANDS = {"half": torch.float16, "bf16": torch.bfloat16}
"""What operands are kept as; float32 where they are not named."""
NUMBERS = {
    torch.float16: PRECISIONS["half"],
    torch.bfloat16: PRECISIONS["bf16"],
    torch.float32: PRECISIONS["fp32"],
}
"""What the sources of the kernels call operands of each dtype."""


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices, or of each of two stacks; both are of one dtype."""
    if a.dtype == torch.float32:
        return a @ b
    if a.is_cuda:
        multiply = torch.mm if a.ndim == 2 else torch.bmm  # noqa: PLR2004 a matrix or a stack
        return multiply(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


_MOST = 8
"""Tensors that one launch rescales."""


def range_of(kind: torch.dtype, *gradients: Tensor) -> Tensor | None:
    """The power of two that brings the largest of two gradients near 1, for operands of a narrow range.

    None where the range is that of float32. The device is not waited for.
    """
    if kind != torch.float16:
        return None
    given = [each.detach().float().contiguous() for each in gradients]
    sizes = [each.numel() for each in given] + [0] * (2 - len(given))
    many = 4 * at_once(given[0].device)
    blocks = max(1, min(many, max(sizes) // (8 * _THREADS)))
    parts, scale = given[0].new_empty(blocks), given[0].new_empty(())
    defines = {"THREADS": _THREADS, "PRECISION": 2}
    tensors = [*given, *[None] * (2 - len(given))]
    launch("range", defines, blocks, _THREADS, [*tensors, parts, *sizes])
    launch("power_of_two", defines, 1, _THREADS, [parts, scale, blocks])
    return scale


def scaled(gradient: Tensor, scale: Tensor | None, kind: torch.dtype) -> Tensor:
    """A gradient as an operand, brought into its range."""
    if scale is None:
        return gradient.to(kind)
    return torch.mul(gradient, scale, out=gradient.new_empty(gradient.shape, dtype=kind))


def rescaled(found: list[Tensor], scale: Tensor | None) -> list[Tensor]:
    """The gradients, in place, of what was brought into range by `scale`; each is without gaps."""
    for start in range(0, len(found) if scale is not None else 0, _MOST):
        some = found[start : start + _MOST]
        assert all(each.is_contiguous() for each in some)
        sizes, missing = [each.numel() for each in some], _MOST - len(some)
        blocks = max(1, min(8 * at_once(some[0].device), max(sizes) // _THREADS))
        tensors = [*some, *[None] * missing, scale]
        defines = {"THREADS": _THREADS, "PRECISION": 2}
        launch("rescale", defines, blocks, _THREADS, [*tensors, *sizes, *[0] * missing])
    return found
