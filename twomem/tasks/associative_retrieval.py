"""Associative retrieval: read pairs of a letter and a digit, then give one letter's digit.

```text
time    ------------------------------->
input   c 9   k 8   j 3   f 1   ? ?   c      4 pairs; letters, digits and ? are one-hot of 37
target  . .   . .   . .   . .   . .   9
asked   . .   . .   . .   . .   . .   x
```

The letters of a sequence differ. The paper's length L stands for (L - 2) / 2 pairs: 14 for L = 30, 24
for L = 50. Whoever has read nothing is right once in ten; whoever says some digit of the sequence
is right a little more often, which is where learning rests for a while.
"""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from twomem.core.config import Whole
from twomem.core.task import Batch, Task, mean_of_asked

LETTERS, DIGITS = 26, 10
MARK = LETTERS + DIGITS


class AssociativeRetrieval(Task):
    """Recall the digit that came with a letter; the default is the paper's L = 30."""

    pairs: Annotated[Whole, Field(ge=1, le=LETTERS)] = 14
    """Pairs of a letter and a digit."""
    embedding: Annotated[Whole, Field(ge=0)] = 100
    """Width to which symbols are embedded before a model reads them; they are read as is if 0."""

    @property
    def input_size(self) -> int:
        """Letters, digits and the question mark."""
        return MARK + 1

    @property
    def output_size(self) -> int:
        """The digits."""
        return DIGITS

    @property
    def perfect(self) -> dict[str, float]:
        """Always right."""
        return {"accuracy": 100.0}

    @property
    def chance(self) -> dict[str, float]:
        """One digit in ten."""
        return {"accuracy": 100.0 / DIGITS}

    def draw(self, count: int, generator: torch.Generator, length: int | None = None) -> Batch:
        """Draws letters without repeats, a digit for each, and the letter that is asked."""
        del length
        how = {"generator": generator, "device": generator.device}
        letters = torch.rand(count, LETTERS, **how).argsort(1)[:, : self.pairs]
        digits = torch.randint(0, DIGITS, (count, self.pairs), **how)
        which = torch.randint(0, self.pairs, (count, 1), **how)
        pairs = torch.stack([letters, LETTERS + digits], dim=2).flatten(1)
        marks = pairs.new_full((count, 2), MARK)
        symbols = torch.cat([pairs, marks, letters.gather(1, which)], dim=1)
        inputs = one_hot(symbols.T, self.input_size).float()
        targets = torch.zeros(*inputs.shape[:2], DIGITS, device=inputs.device)
        targets[-1] = one_hot(digits.gather(1, which)[:, 0], DIGITS)
        asked = torch.zeros(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        asked[-1] = True
        return Batch(inputs, targets, asked, torch.arange(len(inputs)) == len(inputs) - 1)

    def loss(
        self, outputs: Float[Tensor, "answer batch output"], batch: Batch
    ) -> Float[Tensor, ""]:
        """Cross-entropy of the digit."""
        logits, targets, asked = batch.answers(outputs)
        flat = targets.to(logits).flatten(0, 1)
        each = cross_entropy(logits.flatten(0, 1), flat, reduction="none")
        return mean_of_asked(each.view(asked.shape), asked)

    def score(
        self, outputs: Float[Tensor, "answer batch output"], batch: Batch
    ) -> dict[str, float]:
        """The percentage of digits that are right."""
        logits, targets, asked = batch.answers(outputs)
        right = (logits.argmax(-1) == targets.argmax(-1)).to(logits)
        return {"accuracy": 100 * mean_of_asked(right, asked).item()}

    def oracle(
        self, inputs: Float[Tensor, "time batch input"]
    ) -> Float[Tensor, "time batch output"]:
        """Looks for the asked letter, and says what stood behind it."""
        behind = inputs[1:-3:2, :, LETTERS:MARK]
        found = (inputs[:-3:2, :, :LETTERS] * inputs[-1, :, :LETTERS]).sum(-1)
        answer = torch.zeros(*inputs.shape[:2], DIGITS, device=inputs.device)
        answer[-1] = (found[..., None] * behind).sum(0)
        return 20 * answer

    def labels(self, inputs: Float[Tensor, "time input"]) -> list[str]:
        """Letters, digits and the question mark."""
        names = [*map(chr, range(ord("a"), ord("a") + LETTERS)), *map(str, range(DIGITS)), "?"]
        return [names[i] for i in inputs.argmax(-1).tolist()]
