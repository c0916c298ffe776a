"""The parts that the parameters of both STMs are made of."""

import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

from twomem.core.steps import numbers

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


def composed(*maps: Affine) -> Affine:
    """One linear map after the other, as one."""
    first, *more = maps
    for each in more:
        first = Affine(each.weight @ first.weight, each(first.bias))
    return first


def at_once(
    maps: Sequence[Affine], x: Float[Tensor, "*batch input"]
) -> Float[Tensor, "*batch outputs"]:
    """What several maps make of the same inputs, side by side, by one product.

    Biases are weights of an input that is 1, so that their gradients come with those of the weights.
    """
    one = numbers((1.0,), x.device, x.dtype).expand(*x.shape[:-1], 1)
    weights = torch.cat([each.weight for each in maps])
    biases = torch.cat([each.bias for each in maps])
    return torch.cat([x, one], -1) @ torch.cat([weights, biases[:, None]], 1).mT


def parts_of(found: Float[Tensor, "*batch outputs"], maps: Sequence[Affine]) -> list[Tensor]:
    """What each of the maps made."""
    parts = found.split([len(each.bias) for each in maps], -1)
    return [part.contiguous() for part in parts]


def one_by_one(maps: Sequence[Affine], x: Float[Tensor, "*batch input"]) -> list[Tensor]:
    """The same by a product for each map: where no gradient is asked, nothing else needs to be made."""
    x = x.contiguous()
    return [each(x) for each in maps]


class Gates(NamedTuple):
    """What the input gate (first half) and the forget gate (second half) listen to."""

    input: Float[Tensor, "two_width width"]
    memory: Float[Tensor, "two_width width"]
    biases: tuple[Float[Tensor, " two_width"], ...]
    starts: tuple[Float[Tensor, ""], Float[Tensor, ""]]
    """A number for each half."""

    @property
    def bias(self) -> Float[Tensor, " two_width"]:
        """All that is added to what the gates hear."""
        halves = torch.stack(self.starts).repeat_interleave(len(self.input) // 2)
        return functools.reduce(torch.add, [*self.biases, halves])
