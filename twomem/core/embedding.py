"""A memory that reads symbols through an embedding: one learned vector for each symbol."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from twomem.core.memory import Memory


class Embedded(Memory[Any]):
    """Embeds one-hot inputs before `memory` reads them; the state is that of `memory`.

    The vectors start from a unit normal, so that a symbol is as loud to the memory as a vector of
    unit numbers. A first layer inside a model, started as layers are, would hear a single one
    among many zeros hardly at all.
    """

    def __init__(self, symbols: int, memory: Memory[Any]) -> None:
        """Puts fresh vectors for `symbols` symbols before a memory."""
        assert memory.input_size is not None
        assert memory.output_size is not None
        super().__init__(symbols, memory.output_size)
        self.embed = nn.Linear(symbols, memory.input_size, bias=False)
        nn.init.normal_(self.embed.weight)
        self.memory = memory

    def initial_state(self, batch: int) -> Any:
        """The memory's own."""
        return self.memory.initial_state(batch)

    def step(
        self, x: Float[Tensor, "batch input"], state: Any = None
    ) -> tuple[Float[Tensor, "batch output"], Any]:
        """Reads one symbol for each row."""
        state = self.checked(x, state)
        return self.memory.step(self.embed(x), state)

    def read(
        self,
        xs: Float[Tensor, "time batch input"],
        state: Any,
        steps: Sequence[int],
        lengths: Int[Tensor, " batch"] | None,
    ) -> tuple[Float[Tensor, "answer batch output"], Any]:
        """Reads a sequence of symbols, in the memory's own way."""
        return self.memory.read(self.embed(xs), state, steps, lengths)
