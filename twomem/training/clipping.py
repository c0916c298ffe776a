"""Gradients are clipped: by PyTorch's functions on a CPU, as one vector on a GPU, in few launches."""

from collections.abc import Sequence

from torch import nn

from twomem.core.train import Train
from twomem.training.rmsprop import laid_out, pieces

_TINY = 1e-6
"""What PyTorch adds to a norm before it divides by it."""


def clip(how: Train, parameters: Sequence[nn.Parameter]) -> None:
    """Makes gradients as small as wanted, in place."""
    if how.clip_value is None and how.clip_norm is None:
        return
    if parameters[0].is_cuda:
        clip_as_vector(how, parameters)
        return
    if how.clip_value is not None:
        nn.utils.clip_grad_value_(parameters, how.clip_value)
    if how.clip_norm is not None:
        nn.utils.clip_grad_norm_(parameters, how.clip_norm)


def clip_as_vector(how: Train, parameters: Sequence[nn.Parameter]) -> None:
    """The same on a vector of all gradients, of which each is a view afterwards."""
    found = [each for each in parameters if each.grad is not None]
    vector = laid_out([each.grad for each in found], found)
    if how.clip_value is not None:
        vector.clamp_(-how.clip_value, how.clip_value)
    if how.clip_norm is not None:
        vector.mul_((how.clip_norm / (vector.norm() + _TINY)).clamp(max=1.0))
    for each, piece in zip(found, pieces(vector, found), strict=True):
        each.grad = piece
