"""The parts that the parameters of both STMs are made of."""

from typing import Literal, NamedTuple

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

Precision = Literal["fp32", "tf32", "half", "bf16"]
"""What tensor cores multiply: fp32 is as exact as float32, the others have 11, 11 and 8 bits."""

Blend = Tensor | float
"""A blending factor: a tensor if it is learned, a number if it is fixed."""


def is_off(blend: Blend) -> bool:
    """Whether a blend is fixed at zero; a learned one that is zero still needs its gradient."""
    return not isinstance(blend, Tensor) and blend == 0


class Affine(NamedTuple):
    """A linear map and its bias."""

    weight: Float[Tensor, "output input"]
    bias: Float[Tensor, " output"]

    def __call__(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        """Maps the last axis."""
        return linear(x, self.weight, self.bias)


class Gates(NamedTuple):
    """What the input gate (first half) and the forget gate (second half) listen to."""

    input: Float[Tensor, "two_width width"]
    memory: Float[Tensor, "two_width width"]
    bias: Float[Tensor, " two_width"]
