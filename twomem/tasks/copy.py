"""Copy: repeat random bits once the end mark has been seen.

```text
time    ------------------------->
input   <  1 0 1  >  . . .          two more channels: start mark <, end mark >
target  .  . . .  .  1 0 1
asked   .  . . .  .  x x x
```

All sequences of a batch have one length, drawn evenly from `shortest` to `longest`. Whoever has
read nothing gets half of the bits wrong: `bits * mean length / 2` errors in a sequence.
"""

import torch
from jaxtyping import Float
from pydantic import model_validator
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from twomem.core.config import Size
from twomem.core.task import Batch, Task, mean_of_asked


class Copy(Task):
    """Repeat a sequence of random bits; the defaults are the paper's."""

    bits: Size = 32
    """Bits of one symbol."""
    shortest: Size = 1
    """Length of the shortest sequence."""
    longest: Size = 20
    """Length of the longest sequence, itself included."""

    @model_validator(mode="after")
    def _ordered(self) -> "Copy":
        if self.shortest > self.longest:
            raise ValueError(f"shortest is {self.shortest}, above longest, {self.longest}")
        return self

    @property
    def input_size(self) -> int:
        """The bits and two marks."""
        return self.bits + 2

    @property
    def output_size(self) -> int:
        """The bits."""
        return self.bits

    @property
    def perfect(self) -> dict[str, float]:
        """No wrong bit."""
        return {"bit_errors": 0.0, "items_perfect": 100.0}

    @property
    def chance(self) -> dict[str, float]:
        """Half of the bits wrong."""
        length = (self.shortest + self.longest) / 2
        return {"bit_errors": self.bits * length / 2, "items_perfect": 100.0 * 0.5**self.bits}

    def length(self, generator: torch.Generator) -> int:
        """Symbols of the next batch."""
        span = (self.shortest, self.longest + 1)
        return int(torch.randint(*span, (), generator=generator, device=generator.device))

    def draw(self, count: int, generator: torch.Generator, length: int | None = None) -> Batch:
        """Draws a length, then the bits."""
        device = generator.device
        length = self.length(generator) if length is None else length
        size = (length, count, self.bits)
        symbols = torch.randint(0, 2, size, generator=generator, device=device).float()
        inputs = torch.zeros(2 * length + 2, count, self.input_size, device=device)
        inputs[0, :, -2] = 1
        inputs[1 : length + 1, :, : self.bits] = symbols
        inputs[length + 1, :, -1] = 1
        targets = torch.zeros(*inputs.shape[:2], self.bits, device=device)
        targets[length + 2 :] = symbols
        asked = torch.zeros(inputs.shape[:2], dtype=torch.bool, device=device)
        asked[length + 2 :] = True
        return Batch(inputs, targets, asked, torch.arange(len(inputs)) >= length + 2)

    def loss(
        self, outputs: Float[Tensor, "answer batch output"], batch: Batch
    ) -> Float[Tensor, ""]:
        """Cross-entropy of the bits that are asked for, per bit."""
        logits, targets, asked = batch.answers(outputs)
        each = binary_cross_entropy_with_logits(logits, targets.to(logits), reduction="none")
        return mean_of_asked(each.mean(-1), asked)

    def score(
        self, outputs: Float[Tensor, "answer batch output"], batch: Batch
    ) -> dict[str, float]:
        """Wrong bits in a sequence, and the percentage of symbols without one."""
        logits, targets, asked = batch.answers(outputs)
        wrong = ((logits > 0) != targets.bool()) & asked[..., None]
        spoilt = wrong.any(-1).sum() / asked.sum()
        return {
            "bit_errors": wrong.sum().item() / asked.shape[1],
            "items_perfect": 100 * (1 - spoilt.item()),
        }

    def oracle(
        self, inputs: Float[Tensor, "time batch input"]
    ) -> Float[Tensor, "time batch output"]:
        """Says again what stands between the marks."""
        length = (len(inputs) - 2) // 2
        answer = torch.zeros(*inputs.shape[:2], self.bits, device=inputs.device)
        answer[length + 2 :] = 2 * inputs[1 : length + 1, :, : self.bits] - 1
        return 20 * answer

    def labels(self, inputs: Float[Tensor, "time input"]) -> list[str]:
        """The marks, and a number for each symbol."""
        length = (len(inputs) - 2) // 2
        return ["<", *(str(i + 1) for i in range(length)), ">", *["."] * length]
