"""Compiles and exports a step of every model, and prints how far that is from the plain step.

A script of its own: the tests check shapes at run time, by functions that the compiler cannot read.
"""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from twomem import models

BACKEND = "aot_eager"  # traces forward and backward whole, and leaves out a compiler of C++


class Step(nn.Module):
    """A step whose state is a row of tensors, as an exported program takes it."""

    def __init__(self, memory: nn.Module) -> None:
        super().__init__()
        self.memory = memory
        self.structure = tree_flatten(memory.initial_state(1))[1]

    def forward(self, x: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        y, state = self.memory.step(x, tree_unflatten(parts, self.structure))
        return y, *tree_leaves(state)


def results(step: Callable[..., Any], memory: nn.Module) -> list[Tensor]:
    """Answer, state and all gradients after two steps."""
    xs = torch.linspace(-1, 1, 12, dtype=torch.float64).view(2, 2, 3).requires_grad_()
    first, state = step(xs[0], memory.initial_state(2))
    second, state = step(xs[1], state)
    out = [first, second, *tree_leaves(state)]
    total = sum(part.square().sum() for part in out)
    grads = torch.autograd.grad(total, [xs, *memory.parameters()], materialize_grads=True)
    return [*out, *grads]


def compiled(memory: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """What the compiled step and the plain one give."""
    step = torch.compile(memory.step, fullgraph=True, backend=BACKEND)
    return results(step, memory), results(memory.step, memory)


def exported(memory: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """What the exported step and the plain one give, on other inputs."""
    return _exported(memory, 2, None)


def exported_for_any_batch(memory: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The same for another batch size than it was exported with."""
    return _exported(memory, 5, {0: torch.export.Dim("batch")})


def _exported(memory: nn.Module, batch: int, axis: Any) -> tuple[list[Tensor], list[Tensor]]:
    step, given = Step(memory), (torch.ones(2, 3, dtype=torch.float64), *_state(memory, 2))
    dynamic = None if axis is None else (axis, tuple(axis for _ in given[1:]))
    program = torch.export.export(step, given, dynamic_shapes=dynamic)
    fresh = (torch.randn(batch, 3, dtype=torch.float64), *_state(memory, batch))
    return list(program.module()(*fresh)), list(step(*fresh))


def _state(memory: nn.Module, batch: int) -> list[Tensor]:
    # laid out, as a state is that was read back from a file
    return [torch.randn_like(part) for part in tree_leaves(memory.initial_state(batch))]


def measure(how: Callable[..., Any], name: str) -> dict[str, Any]:
    """The largest difference beside the largest number, or what went wrong."""
    torch.manual_seed(0)
    memory = type(models.load(name)).small().build(3, 4).double()
    try:
        got, right = how(memory)
    except Exception as error:  # noqa: BLE001 the report is read by a test for each model
        return {"error": f"{type(error).__name__}: {str(error)[:400]}"}
    pairs = [(g, r) for g, r in zip(got, right, strict=True) if r.numel()]
    off = max((g - r).abs().max().item() for g, r in pairs)
    return {"off": off, "largest": max(r.abs().max().item() for _, r in pairs)}


def main() -> None:
    """Prints a line of JSON."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    report = {
        name: {
            how.__name__: measure(how, name) for how in (compiled, exported, exported_for_any_batch)
        }
        for name in sys.argv[1:]
    }
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main()
