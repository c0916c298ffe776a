"""How fast a pass of this arrangement could be: what it computes and moves, over what the device does.

Operations are those of all matrix products of the restructured form, counted by PyTorch; the rate is
that of a large product at the same precision, so kernels that make fp32 of tf32 may go below it.
Bytes are parameters, inputs and answers once, their gradients once, and, in training, the item memory
and the normal scores of every step, written on the way forward and read on the way back.
"""

from functools import lru_cache

from torch.utils.flop_counter import FlopCounterMode

from twomem.bench.device import Ceilings
from twomem.bench.shapes import Shape
from twomem.bench.stm import make

_FLOAT = 4


@lru_cache
def operations(model_name: str, shape: Shape, direction: str) -> float:
    """Operations in matrix products of a whole pass, counted for one sequence."""
    alone = make(model_name, "restructured", shape._replace(batch=1), direction=direction)
    with FlopCounterMode(display=False) as counter:
        alone.run()
    return counter.get_total_flops() * shape.batch


@lru_cache
def moved_bytes(model_name: str, shape: Shape, direction: str) -> float:
    """Bytes that a whole pass moves, each once."""
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
