"""Matrix products at the precision of a kernel's operands, with sums and results in float32."""

import torch
from torch import Tensor

OPERANDS = {"half": torch.float16, "bf16": torch.bfloat16}
"""What operands are kept as; float32 where they are not named."""


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices, or of each of two stacks; both are of one dtype."""
    if a.dtype == torch.float32:
        return a @ b
    if a.is_cuda:
        multiply = torch.mm if a.ndim == 2 else torch.bmm  # noqa: PLR2004 a matrix or a stack
        return multiply(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def range_of(kind: torch.dtype, *gradients: Tensor) -> Tensor:
    """The power of two that brings the largest gradient near 1, for operands of a narrow range.

    One where the range is that of float32. The device is not waited for.
    """
    if kind != torch.float16:
        return torch.ones((), device=gradients[0].device)
    largest = torch.stack([each.abs().amax().float() for each in gradients]).amax()
    found = torch.exp2(-torch.log2(largest.clamp(min=2.0**-100)).ceil())
    return torch.where(largest > 0, found, 1.0)
