"""The two STMs in each of their forms, and an LSTM of their size: passes over one batch.

`literal` lays out every outer product of SAM and then sums them, as the released code does; `summed`
is the same formula with that sum as one matrix product; `restructured` is what the models run by
PyTorch's operations; `kernel` is what they run on a GPU. The last steps are asked, in all alike.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from twomem import models
from twomem.bench.device import DTYPES
from twomem.bench.shapes import Shape
from twomem.ops import stm, stm_released
from twomem.ops.attention import laid_out_attention, outer_product_attention
from twomem.ops.choice import without_kernels

_LITERAL: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "stm": (stm.literal_update, stm.distilled),
    "stm_released": (stm_released.literal_update, stm_released.distilled),
}
FORMS = ("literal", "summed", "restructured")
MODELS = tuple(_LITERAL)
_ATTENTIONS = {"literal": laid_out_attention, "summed": outer_product_attention}


class Pass(NamedTuple):
    """A pass over a batch, and the parameters whose gradients it makes."""

    run: Callable[[], None]
    parameters: list[nn.Parameter]


def make(
    model_name: str,
    form: str,
    shape: Shape,
    *,
    device: str = "cpu",
    precision: str = "fp32",
    direction: str = "train",
    seed: int = 0,
) -> Pass:
    """Prepares a pass; parameters and inputs are the same for all forms of a model."""
    torch.manual_seed(seed)
    config = models.load(model_name, **shape.settings, precision=precision)
    model = config.build(shape.inputs, shape.outputs).to(device)
    xs = torch.randn(shape.time, shape.batch, shape.inputs).to(device)
    if form in _ATTENTIONS:
        forward = partial(_formula, model, model_name, xs, shape, _ATTENTIONS[form])
    else:
        forward = partial(_sequence, model, xs, shape, kernels=form == "kernel")
    return _pass(model, forward, direction)


def make_lstm(
    shape: Shape, *, device: str, precision: str, direction: str, seed: int = 0
) -> tuple[Pass, int]:
    """An LSTM with as many parameters as the released STM of this shape, and its units."""
    torch.manual_seed(seed)
    released = models.load("stm_released", **shape.settings)
    units = equal_units(released.build(shape.inputs, shape.outputs).parameter_count, shape)
    dtype = DTYPES.get(precision, torch.float32)
    model = models.load("lstm", hidden=units).build(shape.inputs, shape.outputs).to(device, dtype)
    xs = torch.randn(shape.time, shape.batch, shape.inputs).to(device, dtype)
    forward = partial(_sequence, model, xs, shape, kernels=True)
    return _pass(model, forward, direction), units


def equal_units(parameters: int, shape: Shape) -> int:
    """Units of the LSTM whose number of parameters is nearest, in eights, which cuDNN likes."""

    def count(units: int) -> int:
        return units * (4 * (units + shape.inputs + 2) + shape.outputs + 2) + shape.outputs

    return min(range(8, 2048, 8), key=lambda units: abs(count(units) - parameters))


def _formula(
    model: Any, name: str, xs: torch.Tensor, shape: Shape, attend: Callable[..., torch.Tensor]
) -> torch.Tensor:
    """Step by step as the equations stand, answered at the last steps."""
    update, answer = _LITERAL[name]
    weights, memories, ys = model.weights(), tuple(model.initial_state(shape.batch)), []
    for t, x in enumerate(xs):
        memories = update(weights, x, *memories, attend)
        if t >= shape.time - shape.answers:
            ys.append(answer(weights, memories[1]))
    return torch.stack(ys)


def _sequence(model: Any, xs: torch.Tensor, shape: Shape, *, kernels: bool) -> torch.Tensor:
    """As a user calls it."""
    with nullcontext() if kernels else without_kernels():
        return model(xs, asked=shape.asked)[0]


def _pass(model: nn.Module, forward: Callable[[], torch.Tensor], direction: str) -> Pass:
    parameters = list(model.parameters())

    def train() -> None:
        loss = forward().float().square().mean()
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad

    def alone() -> None:
        with torch.no_grad():
            forward()

    return Pass(train if direction == "train" else alone, parameters)
