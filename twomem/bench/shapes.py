"""Shapes that are measured, by the names of the tasks that they come from."""

from typing import Any, NamedTuple

Alphas = tuple[float | None, float | None, float | None]


class Shape(NamedTuple):
    """The sizes of a measurement; the defaults are priority sort's, at the paper's sizes."""

    batch: int
    time: int = 36
    answers: int = 1
    """How many steps are answered, the last ones."""
    width: int = 96
    queries: int = 8
    inputs: int = 34
    outputs: int = 32
    gates: bool = True
    alphas: Alphas = (None, None, None)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of an STM of this shape."""
        sizes = {"width": self.width, "queries": self.queries}
        return {**sizes, "gates": self.gates, "alphas": self.alphas}

    @property
    def asked(self) -> Any:
        """The marks of the steps that are answered."""
        import torch

        return torch.arange(self.time) >= self.time - self.answers


SHAPES = {
    "sort": Shape(batch=128, answers=16),
    "nth_farthest": Shape(batch=1600, time=8, width=128, inputs=40, outputs=8),
    "babi": Shape(
        batch=128, time=70, width=90, queries=20, inputs=64, outputs=64, alphas=(1.0, None, 0.0)
    ),
    "step": Shape(batch=1, time=1),
}
BATCHES = {"step": (1, 32)}
"""Shapes that are measured at several batches."""
