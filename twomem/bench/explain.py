"""Which way each shape would be computed on a device, and why nothing faster."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from twomem import models
from twomem.bench.shapes import SHAPES
from twomem.ops import stm_released_sequence, stm_sequence
from twomem.ops.choice import choose

FORMS = {"stm": stm_sequence.FORM, "stm_released": stm_released_sequence.FORM}
"""How each model reads a sequence."""


def explain(
    names: Sequence[str], device: str, precisions: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The way of every shape, model and precision."""
    for name in names:
        shape = SHAPES[name]
        for model_name, form in FORMS.items():
            config = models.load(model_name, **shape.settings)
            model = config.build(shape.inputs, shape.outputs).to(device)
            xs = torch.empty(shape.time, shape.batch, shape.inputs, device=device)
            for precision in precisions:
                way = choose(form.number, model.weights(), xs, model.initial_state(1)[0], precision)
                yield {"shape": name, "model": model_name, "precision": precision, "way": way.why}
