"""Updates captured in CUDA graphs, one for each shape that a task draws: one launch for a whole update.

The first updates of a shape are made as they are anywhere; they count, and they make ready what a
capture must find in place (compiled kernels, buffers of libraries, states of the optimiser).
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

_MADE_BEFORE = 3
"""Updates of a shape before it is captured."""


class Captured:
    """Runs an update, from a graph once there is one."""

    def __init__(self, update: Callable[[int | None], Tensor], generator: torch.Generator) -> None:
        """Captures `update`, whose argument sets the shape, and which draws from `generator` alone."""
        self._update, self._generator = update, generator
        self._made: Counter[int | None] = Counter()
        self._graphs: dict[int | None, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._aside = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, length: int | None) -> Tensor:
        """Makes one update; returns the loss before it, which the next update of this shape overwrites."""
        if length not in self._graphs:
            if self._made[length] < _MADE_BEFORE:
                self._made[length] += 1
                return self._make(length)
            self._graphs[length] = self._capture(length)
        graph, loss = self._graphs[length]
        graph.replay()
        return loss

    def _make(self, length: int | None) -> Tensor:
        self._aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._aside):
            loss = self._update(length)
        torch.cuda.current_stream().wait_stream(self._aside)
        return loss

    def _capture(self, length: int | None) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph, pool=self._pool, stream=self._aside):
            loss = self._update(length)
        return graph, loss
