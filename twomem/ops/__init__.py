"""The mathematics, as pure functions: the formula as printed, and the fast way to the same numbers."""

from twomem.ops.attention import dot_product_attention, outer_product_attention
from twomem.ops.sam import sam

__all__ = ["dot_product_attention", "outer_product_attention", "sam"]
