"""One input at a time, by the model's own `step`, with a state that is carried along in its place."""

from collections.abc import Callable
from contextlib import nullcontext

import torch

from twomem import models
from twomem.bench.shapes import Shape
from twomem.ops.choice import without_kernels


def make_step(
    model_name: str, shape: Shape, *, device: str, precision: str, kernels: bool, seed: int = 0
) -> Callable[[], None]:
    """Prepares a step; each row has memories of its own, as after any first step."""
    torch.manual_seed(seed)
    config = models.load(model_name, **shape.settings, precision=precision)
    model = config.build(shape.inputs, shape.outputs).to(device)
    x = torch.randn(shape.batch, shape.inputs).to(device)
    state = [each.detach().clone() for each in model.initial_state(shape.batch)]
    kind = type(model.initial_state(1))

    def step() -> None:
        with torch.no_grad(), nullcontext() if kernels else without_kernels():
            _, new = model.step(x, kind(*state))
            for held, each in zip(state, new, strict=True):
                held.copy_(each)

    return step
