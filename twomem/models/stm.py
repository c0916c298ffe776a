r"""STM, the two-memory model, by the equations of the paper (`twomem.ops.stm` prints them).

| paper | here | shape |
| --- | --- | --- |
| $\mathcal{M}^i$ | `items` | slot width |
| $\mathcal{M}^r$ | `relations` | query slot width |
| $f_1, f_2, f_3$ | `left`, `right`, `address` | one linear layer each |
| $W_F, W_I$; $U_F, U_I$; $b_F, b_I$ | `gate_input`, `gate_memory`, `gate_bias` | |
| $W_q, W_k, W_v$ | `project` | three_query slot |
| $\mathcal{G}_1, \mathcal{G}_2, \mathcal{G}_3$ | `transfer`, `distil`, `output` | |
| $\alpha_1, \alpha_2, \alpha_3$ | `alpha1`, `alpha2`, `alpha3` | |

Where the paper leaves something open, this is what was decided:

1. The feed-forward networks $f$ and $\mathcal{G}$ are one linear layer with a bias each; $n_o$ is the
   width of the answer, with no further layer.
2. The gates pass through a sigmoid: the paper prints none, but says they are those of an LSTM. They
   listen to $f_1(x_t)$, since $W_F$ is $d \times d$ and $x_t$ is not $d$ wide; what they hear of the
   input is the same for a whole row of the memory. Their scalar biases start at 0 (input) and 1 (forget).
3. Layer normalisation runs over each row of $d$ numbers; gain and bias are learned for every entry.
4. $n_{kv} = n_q$, as the paper's own implementation has it.
5. Both first memories are learned; they start uniform in $\pm 1/\sqrt{2d}$ and $\pm 1/\sqrt{2d + n_q}$.
6. The blends are learned from (1, 0.1, 0): see the docs for the comparison that chose this.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from twomem.core.config import Finite, Size
from twomem.core.memory import BySequence
from twomem.core.model import ModelConfig
from twomem.ops.stm import Weights
from twomem.ops.stm_sequence import sequence
from twomem.ops.weights import Affine, Blend, Gates, Precision, is_off

_READ, _TRANSFER = 2, 3
"""The blends of what is read back from the relations, and of what flows back into the items."""


class STMConfig(ModelConfig):
    """The sizes and switches of an STM; the defaults are the paper's."""

    queries: Size = 8
    """Queries, and key-value pairs, of the SAM operator."""
    width: Size = 96
    """Width of the item memory, which is square."""
    distilled: Size = 96
    """Numbers that each slice of the relational memory is distilled to."""
    gates: bool = True
    """Whether the item memory is gated; without, inputs are added to it."""
    transfer: bool = True
    """Whether relations flow back into the item memory."""
    alphas: tuple[Finite | None, Finite | None, Finite | None] = (None, None, None)
    """A number fixes a blend, none learns it."""
    first_alphas: tuple[Finite, Finite, Finite] = (1.0, 0.1, 0.0)
    """Where learned blends start."""
    precision: Precision = "fp32"
    """Operands of the kernels on a GPU; autocast says it where it is on. Sums are float32."""

    def build(self, input_size: int, output_size: int) -> "STM":
        """Makes an STM."""
        return STM(input_size, output_size, self)

    @classmethod
    def small(cls) -> "STMConfig":
        """Sizes for tests, no two of them equal."""
        return cls(queries=3, width=7, distilled=5)


class STMState(NamedTuple):
    """What an STM remembers."""

    items: Float[Tensor, "batch slot width"]
    relations: Float[Tensor, "batch query slot width"]


class STM(BySequence[STMState]):
    """A self-attentive associative memory: items, and the relations between them.

    `STM(34, 32)` reads 34 numbers a step and answers 32; settings are keywords, `STM(34, 32, queries=4)`.
    """

    def __init__(
        self, input_size: int, output_size: int, config: STMConfig | None = None, **settings: object
    ) -> None:
        """Makes fresh parameters from the global random generator."""
        super().__init__(input_size, output_size)
        self.config = config = STMConfig.of(config, settings)
        d, queries = config.width, config.queries
        for which, fixed in enumerate(config.alphas, 1):
            if fixed is None and (which != _TRANSFER or config.transfer):
                first = torch.tensor(config.first_alphas[which - 1])
                self.register_parameter(f"alpha{which}", nn.Parameter(first))
        self.left = nn.Linear(input_size, d)
        self.right = nn.Linear(input_size, d)
        if not is_off(self._blend(_READ)):
            self.address = nn.Linear(input_size, queries)
        if config.gates:
            self.gate_input = nn.Linear(d, 2 * d, bias=False)
            self.gate_memory = nn.Linear(d, 2 * d, bias=False)
            self.gate_bias = nn.Parameter(torch.tensor([0.0, 1.0]))
        self.project = nn.Linear(d, 3 * queries, bias=False)
        self.norm_gain = nn.Parameter(torch.ones(3 * queries, d))
        self.norm_bias = nn.Parameter(torch.zeros(3 * queries, d))
        if not is_off(self._blend(_TRANSFER)):
            self.transfer = nn.Linear(queries * d, d)
        self.distil = nn.Linear(d * d, config.distilled)
        self.output = nn.Linear(queries * config.distilled, output_size)
        self.first_items = nn.Parameter(torch.empty(d, d).uniform_(-1, 1) / (2 * d) ** 0.5)
        self.first_relations = nn.Parameter(
            torch.empty(queries, d, d).uniform_(-1, 1) / (2 * d + queries) ** 0.5
        )

    def initial_state(self, batch: int) -> STMState:
        """Starts from two learned memories."""
        return STMState(
            items=self.first_items.expand(batch, -1, -1),
            relations=self.first_relations.expand(batch, -1, -1, -1),
        )

    def read(
        self,
        xs: Float[Tensor, "time batch input"],
        state: STMState,
        steps: Sequence[int],
        lengths: Int[Tensor, " batch"] | None,
    ) -> tuple[Float[Tensor, "answer batch output"], STMState]:
        """Reads a sequence by the restructured algebra of `twomem.ops.stm_sequence`."""
        ys, *memories = sequence(self.weights(), xs, *state, steps, lengths, self.config.precision)
        return ys, STMState(*memories)

    def weights(self) -> Weights:
        """The parameters, as the operators take them."""
        gates = None
        if self.config.gates:
            take, keep = self.gate_bias.unbind()
            gates = Gates(self.gate_input.weight, self.gate_memory.weight, (), (take, keep))
        return Weights(
            left=_affine(self.left),
            right=_affine(self.right),
            address=None if is_off(self._blend(_READ)) else _affine(self.address),
            gates=gates,
            project=self.project.weight,
            norm_gain=self.norm_gain,
            norm_bias=self.norm_bias,
            transfer=None if is_off(self._blend(_TRANSFER)) else _affine(self.transfer),
            distil=_affine(self.distil),
            output=_affine(self.output),
            blends=(self._blend(1), self._blend(_READ), self._blend(_TRANSFER)),
        )

    def _blend(self, which: int) -> Blend:
        if which == _TRANSFER and not self.config.transfer:
            return 0.0
        fixed = self.config.alphas[which - 1]
        return getattr(self, f"alpha{which}") if fixed is None else fixed


def _affine(layer: nn.Linear) -> Affine:
    return Affine(layer.weight, layer.bias)
