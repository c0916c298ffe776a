"""The linear layers that answer: all by one launch for few rows, and with bias gradients by one sum."""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.products import OPERANDS, product
from twomem.kernels.runtime import launch
from twomem.kernels.sums import batch_sums

_THREADS = 512
_FEW = 64
"""Rows up to which a block for each is faster than products."""
_MOST, _WIDEST = 4, 4096
"""Layers of one launch, and numbers that a block holds of each."""


def answers(
    x: Tensor, weights: list[Tensor], biases: list[Tensor], relus: list[bool], precision: str
) -> Tensor:
    """What layers in a row make of rows; behind some of them, what is negative becomes zero."""
    if not torch.is_grad_enabled() and len(x) <= _FEW and _fits(weights):
        return few(x, weights, biases, relus)
    return layers(x, weights, biases, relus, precision)[-1]


def _fits(weights: list[Tensor]) -> bool:
    widest = max(max(each.shape) for each in weights)
    return len(weights) <= _MOST and widest <= _WIDEST


@torch.library.custom_op("twomem::few_answers", mutates_args=())
def few(x: Tensor, weights: list[Tensor], biases: list[Tensor], relus: list[bool]) -> Tensor:
    """The same for few rows, without a gradient."""
    sizes, missing = [x.shape[1], *map(len, biases)], _MOST - len(weights)
    given = [*_plain(weights), *[None] * missing, *_plain(biases), *[None] * missing]
    bits = sum(1 << layer for layer, relu in enumerate(relus) if relu)
    found = x.new_empty(len(x), sizes[-1])
    defines = {"THREADS": _THREADS, "WIDEST": -(-max(sizes) // 4) * 4, "PRECISION": 2}
    arguments = [x.detach().contiguous(), found, *given, *sizes, *[0] * missing, bits]
    launch("layers", defines, len(x), _THREADS, arguments)
    return found


def _plain(given: list[Tensor]) -> list[Tensor]:
    return [x.detach().contiguous() for x in given]


@few.register_fake
def _(x: Tensor, weights: list[Tensor], biases: list[Tensor], relus: list[bool]) -> Tensor:
    del weights, relus
    return x.new_empty(len(x), len(biases[-1]))


@torch.library.custom_op("twomem::layers", mutates_args=())
def layers(
    x: Tensor, weights: list[Tensor], biases: list[Tensor], relus: list[bool], precision: str
) -> list[Tensor]:
    """What each layer makes. Operands of the first, which is the widest, are of `precision`."""
    found, kind = [], OPERANDS.get(precision, torch.float32)
    for weight, bias, relu in zip(weights, biases, relus, strict=True):
        if relu:
            x = torch.ops.aten._addmm_activation.default(bias, x, weight.mT)  # noqa: SLF001 a launch less
        elif found or kind == torch.float32:
            x = torch.addmm(bias, x, weight.mT)
        else:
            x = product(x.to(kind), weight.to(kind).mT).add_(bias)
        found.append(x)
    return found


@layers.register_fake
def _(
    x: Tensor, weights: list[Tensor], biases: list[Tensor], relus: list[bool], precision: str
) -> list[Tensor]:
    del weights, relus, precision
    return [x.new_empty(len(x), len(bias)) for bias in biases]


@torch.library.custom_op("twomem::layers_backward", mutates_args=())
def layers_backward(
    grad: Tensor, x: Tensor, weights: list[Tensor], found: list[Tensor], relus: list[bool]
) -> list[Tensor]:
    """The gradients of the rows, of all weights and of all biases."""
    inputs, grads, of_weights = [x, *found], [], []
    for layer in reversed(range(len(weights))):
        if relus[layer]:
            grad = torch.ops.aten.threshold_backward(grad, found[layer], 0)
        grads.insert(0, grad)
        of_weights.insert(0, grad.mT @ inputs[layer])
        grad = grad @ weights[layer]
    of_biases = [x for x in batch_sums(grads) if x is not None]
    return [grad, *of_weights, *of_biases]


@layers_backward.register_fake
def _(
    grad: Tensor, x: Tensor, weights: list[Tensor], found: list[Tensor], relus: list[bool]
) -> list[Tensor]:
    del grad, found, relus
    biases = [each.new_empty(len(each)) for each in weights]
    return [x.new_empty(x.shape), *map(torch.empty_like, weights), *biases]


def _saves(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    x, weights, _, ctx.relus, _ = inputs
    ctx.save_for_backward(x, *weights, *output)
    # the last layer alone is used
    ctx.set_materialize_grads(False)


def _back(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    count = len(ctx.relus)
    x, *rest = ctx.saved_tensors
    assert grads[-1] is not None
    d_x, *found = layers_backward(grads[-1], x, rest[:count], rest[count:], ctx.relus)
    return d_x, found[:count], found[count:], None, None


layers.register_autograd(_back, setup_context=_saves)
