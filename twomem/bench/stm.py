"""The two STMs, each as its literal formula and restructured, trained on one batch.

`literal` lays out every outer product of SAM and then sums them, as the released code does; `summed`
is the same formula with that sum as one matrix product; `restructured` is what the models run. The
answer is asked at the last step only, in all forms alike.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from twomem import models
from twomem.ops import stm, stm_released
from twomem.ops.attention import laid_out_attention, outer_product_attention


class Shape(NamedTuple):
    """The sizes of a measurement; the defaults are priority sort's, at the paper's sizes."""

    batch: int
    time: int = 36
    width: int = 96
    queries: int = 8
    inputs: int = 34
    outputs: int = 32


class Pass(NamedTuple):
    """A forward and backward pass, and the parameters whose gradients it makes."""

    run: Callable[[], None]
    parameters: list[nn.Parameter]


_LITERAL: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "stm": (stm.literal_update, stm.distilled),
    "stm_released": (stm_released.literal_update, stm_released.distilled),
}
FORMS = ("literal", "summed", "restructured")
MODELS = tuple(_LITERAL)


def make(model_name: str, form: str, shape: Shape, seed: int = 0) -> Pass:
    """Prepares a pass; parameters and inputs are the same for both forms of a model."""
    torch.manual_seed(seed)
    config = models.load(model_name, width=shape.width, queries=shape.queries)
    model = config.build(shape.inputs, shape.outputs)
    xs = torch.randn(shape.time, shape.batch, shape.inputs)
    asked = torch.arange(shape.time) == shape.time - 1
    update, answer = _LITERAL[model_name]

    def formula(attend: Callable[..., torch.Tensor]) -> torch.Tensor:
        weights, memories = model.weights(), tuple(model.initial_state(shape.batch))
        for x in xs:
            memories = update(weights, x, *memories, attend)
        return answer(weights, memories[1])

    def restructured() -> torch.Tensor:
        return model(xs, asked=asked)[0]

    forward = {
        "literal": partial(formula, laid_out_attention),
        "summed": partial(formula, outer_product_attention),
        "restructured": restructured,
    }[form]

    def run() -> None:
        model.zero_grad(set_to_none=True)
        forward().square().sum().backward()

    return Pass(run, list(model.parameters()))
