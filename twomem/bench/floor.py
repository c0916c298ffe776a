"""How fast a pass could be: what it must compute and move, over what the device does at most.

Operations are those of all matrix products of the restructured form, counted by PyTorch. Bytes are
those that no arrangement avoids: parameters, inputs and answers once, their gradients once, and, in
training, the item memory and the normal scores of every step, written on the way forward and read
on the way back.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from twomem.bench.device import Ceilings
from twomem.bench.shapes import Shape
from twomem.bench.stm import make

_FLOAT = 4


def operations(model_name: str, shape: Shape, direction: str) -> float:
    """Operations in matrix products of a whole pass, counted for one sequence."""
    torch.set_grad_enabled(True)
    alone = make(model_name, "restructured", shape._replace(batch=1), direction=direction)
    with FlopCounterMode(display=False) as counter:
        alone.run()
    return counter.get_total_flops() * shape.batch


def moved_bytes(model_name: str, shape: Shape, direction: str) -> float:
    """Bytes that a whole pass moves at least."""
    parameters = make(model_name, "restructured", shape._replace(batch=1)).parameters
    held = sum(each.numel() for each in parameters)
    read = shape.batch * (shape.time * shape.inputs + shape.answers * shape.outputs)
    if direction != "train":
        return _FLOAT * (held + read)
    kept = shape.width**2 + 3 * shape.queries * shape.width
    return _FLOAT * (2 * (held + read) + 2 * shape.batch * shape.time * kept)


def floor_microseconds(
    model_name: str, shape: Shape, direction: str, precision: str, most: Ceilings
) -> float:
    """The larger of both times, for a step of the sequence."""
    rate = most.operations_per_second[precision]
    seconds = max(
        operations(model_name, shape, direction) / rate,
        moved_bytes(model_name, shape, direction) / most.bytes_per_second,
    )
    return 1e6 * seconds / shape.time
