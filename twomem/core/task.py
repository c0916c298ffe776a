"""What every task is: sequences, a loss, a score, and proof that it can be solved."""

from abc import ABC, abstractmethod
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from twomem.core.config import SEEDS, Named, Whole
from twomem.core.steps import at_steps


class Batch(NamedTuple):
    """What a model reads, what it should answer, and when it is asked."""

    inputs: Float[Tensor, "time batch input"]
    targets: Float[Tensor, "time batch output"]
    asked: Bool[Tensor, "time batch"]
    when: Bool[Tensor, " time"] | None = None
    """The steps at which some row is asked, on the host: who tells them spares a look at the device."""

    @property
    def steps(self) -> Bool[Tensor, " time"]:
        """The steps at which some row is asked: what a model is given as `asked`."""
        return self.asked.any(1).cpu() if self.when is None else self.when

    def answers(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs, targets and marks at the asked steps.

        `outputs` has a row for every step, or for every step at which some row is asked.
        """
        steps, needed = self.steps.nonzero().flatten().tolist(), self.targets.shape[1:]
        asked, time = len(steps), len(self.targets)
        if outputs.shape[1:] != needed:
            raise ValueError(
                f"the outputs have shape {tuple(outputs.shape)}; for each step {tuple(needed)} "
                "are needed, batch and width of an answer"
            )
        if len(outputs) not in (asked, time):
            raise ValueError(
                f"the outputs have {len(outputs)} steps; {asked} (those that are asked) "
                f"or {time} (all) are needed"
            )
        if len(outputs) != asked:
            outputs = at_steps(outputs, steps)
        return outputs, at_steps(self.targets, steps), at_steps(self.asked, steps)


class Task(Named, ABC):
    """A family of sequences, with the widths that a model needs."""

    embedding: Annotated[Whole, Field(ge=0)] = 0
    """Width to which symbols are embedded before a model reads them; they are read as is if 0."""

    @property
    @abstractmethod
    def input_size(self) -> int:
        """Width of an input."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Width of an answer."""

    @property
    @abstractmethod
    def perfect(self) -> dict[str, float]:
        """The scores of whoever makes no mistake."""

    @property
    @abstractmethod
    def chance(self) -> dict[str, float]:
        """The expected scores of whoever has read nothing."""

    def length(self, generator: torch.Generator) -> int | None:
        """Draws what sets the shape of a batch; none if all batches have one shape.

        Whoever captures a graph for each shape draws it apart, on the host.
        """
        del generator
        return None

    @abstractmethod
    def draw(self, count: int, generator: torch.Generator, length: int | None = None) -> Batch:
        """Draws `count` sequences of one length, on the device of the generator.

        The length is drawn too if none is given.
        """

    @abstractmethod
    def loss(
        self, outputs: Float[Tensor, "answer batch output"], batch: Batch
    ) -> Float[Tensor, ""]:
        """What training makes smaller."""

    @abstractmethod
    def score(
        self, outputs: Float[Tensor, "answer batch output"], batch: Batch
    ) -> dict[str, float]:
        """What the paper reports."""

    @abstractmethod
    def oracle(
        self, inputs: Float[Tensor, "time batch input"]
    ) -> Float[Tensor, "time batch output"]:
        """Answers by the rule, from the inputs alone: shows that the task can be solved."""

    def labels(self, inputs: Float[Tensor, "time input"]) -> list[str]:
        """What a person calls each step of one sequence: its number, if a task knows no better."""
        return [str(t) for t in range(len(inputs))]

    def generator(
        self, seed: int, device: torch.device | str = "cpu", *, held_out: bool = False
    ) -> torch.Generator:
        """The stream that a seed means; held-out streams are apart from those of training.

        A generator on a CPU knows 32 bits of its seed: even ones train, odd ones test.
        """
        if not 0 <= seed < SEEDS:
            raise ValueError(f"the seed is {seed}; 0 to {SEEDS - 1} is possible")
        return torch.Generator(device).manual_seed(2 * seed + held_out)


def mean_of_asked(
    values: Float[Tensor, "answer batch"], asked: Bool[Tensor, "answer batch"]
) -> Float[Tensor, ""]:
    """The mean over what is asked, without waiting for the device."""
    return torch.where(asked, values, 0).sum() / asked.sum()
