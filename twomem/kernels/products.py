"""Matrix products at the precision of a kernel's operands, with sums and results in float32."""

from functools import reduce

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


def range_of(kind: torch.dtype, *gradients: Tensor) -> Tensor | None:
    """The power of two that brings the largest gradient near 1, for operands of a narrow range.

    None where the range is that of float32. The device is not waited for.
    """
    if kind != torch.float16:
        return None
    sizes = [torch.linalg.vector_norm(each, float("inf")).float() for each in gradients]
    # of zero the exponent is zero; float32 knows no larger power than the 126th
    exponent = torch.frexp(reduce(torch.maximum, sizes)).exponent.clamp(min=-126)
    return torch.exp2(-exponent.float())


def rescaled(found: list[Tensor], scale: Tensor | None) -> list[Tensor]:
    """The gradients of what was brought into range by `scale`."""
    if scale is None:
        return found
    by = scale.reciprocal()
    # one launch for all of them
    return list(torch._foreach_mul(found, by))  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
