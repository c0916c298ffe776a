"""Which way each shape would be computed on a device, and why nothing faster."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from twomem import models
from twomem.bench.shapes import SHAPES
from twomem.bench.stm import MODELS
from twomem.ops.choice import choose


def explain(
    names: Sequence[str], device: str, precisions: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The way of every shape, model and precision."""
    for name in names:
        shape = SHAPES[name]
        for number, model_name in ((1, "stm"), (0, "stm_released")):
            assert model_name in MODELS
            settings = {"width": shape.width, "queries": shape.queries, "gates": shape.gates}
            config = models.load(model_name, **settings, alphas=shape.alphas)
            model = config.build(shape.inputs, shape.outputs).to(device)
            xs = torch.empty(shape.time, shape.batch, shape.inputs, device=device)
            for precision in precisions:
                way = choose(number, model.weights(), xs, model.initial_state(1)[0], precision)
                yield {"shape": name, "model": model_name, "precision": precision, "way": way.why}
