r"""LSTM, the baseline without an outer memory: PyTorch's own, which is cuDNN's on a GPU.

$$[i; f; g; o] = W x_t + b + U h_{t-1} + c \qquad
s_t = \sigma(f) \odot s_{t-1} + \sigma(i) \odot \tanh(g) \qquad h_t = \sigma(o) \odot \tanh(s_t)$$

The answer is a linear map of $h_t$. Both first states are learned, starting from zero.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from twomem.core.config import Size
from twomem.core.memory import Memory, restart
from twomem.core.model import ModelConfig
from twomem.core.steps import at_steps

_PARTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
"""PyTorch's names for W, U, b and c."""


class LSTMConfig(ModelConfig):
    """The size of an LSTM; the default is the paper's."""

    hidden: Size = 512
    """Width of the hidden state."""

    def build(self, input_size: int, output_size: int) -> "LSTM":
        """Makes an LSTM."""
        return LSTM(input_size, output_size, self)

    @classmethod
    def small(cls) -> "LSTMConfig":
        """A size for tests."""
        return cls(hidden=5)


class LSTMState(NamedTuple):
    """What an LSTM remembers."""

    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"]


class LSTM(Memory[LSTMState]):
    """PyTorch's LSTM, and a linear answer."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        config: LSTMConfig | None = None,
        **settings: object,
    ) -> None:
        """Makes fresh parameters from the global random generator."""
        super().__init__(input_size, output_size)
        self.config = config = LSTMConfig.of(config, settings)
        # not nn.LSTM itself, around which the compiler breaks a step in two
        self.lstm = nn.RNNBase("LSTM", input_size, config.hidden)
        self.output = nn.Linear(config.hidden, output_size)
        self.first_hidden = nn.Parameter(torch.zeros(config.hidden))
        self.first_cell = nn.Parameter(torch.zeros(config.hidden))

    def initial_state(self, batch: int) -> LSTMState:
        """Starts from two learned vectors."""
        return LSTMState(self.first_hidden.expand(batch, -1), self.first_cell.expand(batch, -1))

    def step(
        self, x: Float[Tensor, "batch input"], state: LSTMState | None = None
    ) -> tuple[Float[Tensor, "batch output"], LSTMState]:
        """Reads one input by the formula, which compiles whole; `read` is PyTorch's own."""
        hidden, cell = self.checked(x, state)
        of_input, of_hidden, input_bias, hidden_bias = self._weights()
        heard = linear(x, of_input, input_bias) + linear(hidden, of_hidden, hidden_bias)
        take, keep, new, show = heard.to(cell.dtype).chunk(4, dim=1)
        cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
        hidden = show.sigmoid() * cell.tanh()
        return self.output(hidden), LSTMState(hidden, cell)

    def read(
        self,
        xs: Float[Tensor, "time batch input"],
        state: LSTMState,
        steps: Sequence[int],
        lengths: Int[Tensor, " batch"] | None,
    ) -> tuple[Float[Tensor, "answer batch output"], LSTMState]:
        """Reads a sequence in one call, or in as many as rows have different lengths."""
        ends = {len(xs)} if lengths is None else {*lengths.tolist(), len(xs)} - {0}
        hiddens, start = [], 0
        for stop in sorted(ends):
            hidden, new = self._run(xs[start:stop], state)
            state = new if lengths is None else restart(state, lengths > start, new)
            hiddens.append(hidden)
            start = stop
        return self.output(at_steps(torch.cat(hiddens), steps)), state

    def _run(self, xs: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """One call of PyTorch's own LSTM."""
        first = [part[None].contiguous() for part in state]
        layers, dropout = 1, 0.0
        how = (True, layers, dropout, self.training, False, False)
        hiddens, *last = torch.lstm(xs, first, self._weights(), *how)
        return hiddens, LSTMState(*(part[0].to(state.cell.dtype) for part in last))

    def _weights(self) -> list[Tensor]:
        return [self.lstm.get_parameter(name) for name in _PARTS]
