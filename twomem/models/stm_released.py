r"""STM by the equations of the released code, which differ from the paper's in almost every line.

`twomem.ops.stm_released` writes them out; the docs ("Paper and released code") number the
differences. The parameters carry the names of the released checkpoints, so that a checkpoint and
a model can be laid side by side:

| released name | what it is | shape |
| --- | --- | --- |
| `input_projector`, `input_projector2`, `input_projector3` | $f_1, f_2, f_3$ | linear layers in a row |
| `input_gate_projector`, `memory_gate_projector` | gates | two_width width |
| `qkv_projector.0`, `qkv_layernorm.0` | queries, keys, values | three_query width |
| `rel_projector2` | $\mathcal{G}_1$ | width query_width |
| `rel_projector`, `rel_projector3` | $\mathcal{G}_2, \mathcal{G}_3$ | distilled width_width; bottleneck query_distilled |
| `mlp.0`, `mlp.2`, `out` | the answer's network | |
| `alpha10`, `alpha20`, `alpha30` | $\alpha_1, \alpha_2, \alpha_3$, learned from 0 | 1 |

What a setting leaves without use (gates, the transfer at alpha 3 fixed to 0, the address at alpha 2
fixed to 0) is not a parameter here, although released checkpoints hold it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from twomem.core.config import Finite, Size, Whole
from twomem.core.memory import BySequence
from twomem.core.model import ModelConfig
from twomem.ops.stm_released import Weights
from twomem.ops.stm_released_sequence import sequence
from twomem.ops.stm_released_shapes import Alphas, check_names, read_sizes, unused, widest
from twomem.ops.weights import Affine, Blend, Gates, Precision, is_off


class STMReleasedConfig(ModelConfig):
    """The sizes and switches of a released STM."""

    queries: Size = 8
    """Queries, and key-value pairs (`num_slot`)."""
    width: Size = 96
    """Width of the item memory, which is square (`slot_size`)."""
    distilled: Size = 96
    """Numbers that each slice of the relational memory is distilled to (`rel_size`)."""
    bottleneck: Size = 64
    """Width of what all slices are distilled to together (`out_att_size`)."""
    head: Size = 128
    """Width of the two layers of the answer's network (`mlp_size`)."""
    hidden: Annotated[Whole, Field(ge=0)] = 0
    """Width of two linear layers inside each input projection; one layer alone if 0 (`mlp_hid`)."""
    gates: bool = True
    """Whether the item memory is gated; without, inputs are added to it."""
    alphas: tuple[Finite | None, Finite | None, Finite | None] = (None, None, None)
    """A number fixes a blend, none learns it from 0."""
    precision: Precision = "fp32"
    """Operands of the kernels on a GPU; autocast says it where it is on. Sums are float32."""

    def build(self, input_size: int, output_size: int) -> "STMReleased":
        """Makes a released STM."""
        return STMReleased(input_size, output_size, self)

    @classmethod
    def small(cls) -> "STMReleasedConfig":
        """Sizes for tests, no two of them equal."""
        return cls(queries=3, width=7, distilled=5, bottleneck=6, head=8)


class STMReleasedState(NamedTuple):
    """What a released STM remembers."""

    items: Float[Tensor, "batch width depth"]
    relations: Float[Tensor, "batch query width depth"]


class _Projection(nn.Module):
    """Linear layers in a row, with nothing between them, under the released names."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden or outputs)
        if hidden:
            self.fc2h = nn.ModuleList([nn.Linear(hidden, hidden)])
            self.fc3 = nn.Linear(hidden, outputs)

    def affines(self) -> tuple[Affine, ...]:
        """The layers in order."""
        return tuple(_affine(each) for each in self.modules() if isinstance(each, nn.Linear))


class STMReleased(BySequence[STMReleasedState]):
    """The two-memory model as it was released.

    `STMReleased(34, 32)` reads 34 numbers a step and answers 32; settings are keywords.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        config: STMReleasedConfig | None = None,
        **settings: object,
    ) -> None:
        """Makes fresh parameters from the global random generator."""
        super().__init__(input_size, output_size)
        self.config = c = STMReleasedConfig.of(config, settings)
        for which, fixed in enumerate(c.alphas, 1):
            if fixed is None:
                self.register_parameter(f"alpha{which}0", nn.Parameter(torch.zeros(1)))
        d, n = c.width, c.queries
        self.input_projector = _Projection(input_size, c.hidden, d)
        self.input_projector2 = _Projection(input_size, c.hidden, d)
        if not is_off(self._blend(2)):
            self.input_projector3 = _Projection(input_size, c.hidden, n)
        if c.gates:
            self.input_gate_projector = nn.Linear(d, 2 * d)
            self.memory_gate_projector = nn.Linear(d, 2 * d)
            self.input_bias = nn.Parameter(torch.tensor(0.0))
            self.forget_bias = nn.Parameter(torch.tensor(1.0))
        self.qkv_projector = nn.ModuleList([nn.Linear(d, 3 * n)])
        self.qkv_layernorm = nn.ModuleList([nn.LayerNorm([d, 3 * n])])
        if not is_off(self._blend(3)):
            self.rel_projector2 = nn.Linear(n * d, d)
        self.rel_projector = nn.Linear(d * d, c.distilled)
        self.rel_projector3 = nn.Linear(n * c.distilled, c.bottleneck)
        self.mlp = nn.Sequential(
            nn.Linear(c.bottleneck, c.head), nn.ReLU(), nn.Linear(c.head, c.head)
        )
        self.out = nn.Linear(c.head, output_size)
        items = torch.empty(d, d).uniform_(-1, 1) / (2 * d) ** 0.5
        relations = torch.empty(n, d, d).uniform_(-1, 1) / (2 * d + n) ** 0.5
        self.item_memory_state_bias = nn.Parameter(items)
        self.rel_memory_state_bias = nn.Parameter(relations)

    def initial_state(self, batch: int) -> STMReleasedState:
        """Starts from two learned memories."""
        return STMReleasedState(
            items=self.item_memory_state_bias.expand(batch, -1, -1),
            relations=self.rel_memory_state_bias.expand(batch, -1, -1, -1),
        )

    def read(
        self,
        xs: Float[Tensor, "time batch input"],
        state: STMReleasedState,
        steps: Sequence[int],
        lengths: Int[Tensor, " batch"] | None,
    ) -> tuple[Float[Tensor, "answer batch output"], STMReleasedState]:
        """Reads a sequence by the algebra of `twomem.ops.stm_released_sequence`."""
        ys, *memories = sequence(self.weights(), xs, *state, steps, lengths, self.config.precision)
        return ys, STMReleasedState(*memories)

    def weights(self) -> Weights:
        """The parameters, as the operators take them."""
        address = is_off(self._blend(2))
        return Weights(
            left=self.input_projector.affines(),
            right=self.input_projector2.affines(),
            address=() if address else self.input_projector3.affines(),
            gates=self._gates() if self.config.gates else None,
            project=_affine(self.qkv_projector[0]),
            norm_gain=self.qkv_layernorm[0].get_parameter("weight"),
            norm_bias=self.qkv_layernorm[0].get_parameter("bias"),
            transfer=None if is_off(self._blend(3)) else _affine(self.rel_projector2),
            distil=_affine(self.rel_projector),
            bottleneck=_affine(self.rel_projector3),
            head=(_affine(self.mlp[0]), _affine(self.mlp[2]), _affine(self.out)),
            blends=(self._blend(1), self._blend(2), self._blend(3)),
        )

    def _gates(self) -> Gates:
        heard, remembered = self.input_gate_projector, self.memory_gate_projector
        starts = self.input_bias, self.forget_bias
        return Gates(heard.weight, remembered.weight, (heard.bias, remembered.bias), starts)

    def _blend(self, which: int) -> Blend:
        fixed = self.config.alphas[which - 1]
        return getattr(self, f"alpha{which}0") if fixed is None else fixed

    @classmethod
    def from_released_checkpoint(
        cls,
        state_dict: Mapping[str, Tensor],
        *,
        gated: bool = True,
        alphas: Alphas = (None, None, None),
    ) -> "STMReleased":
        """Makes the model that a released checkpoint was saved from, in the dtype of its tensors.

        Args:
            state_dict: The tensors by their released names; all sizes are read from them.
            gated: Whether that model had gates.
            alphas: None for a blend that was learned and is in the checkpoint, or its fixed number.

        Raises:
            ValueError: the tensors are not those of such a model; the message names the first
                that is missing, unknown or of a wrong shape.
        """
        sizes = read_sizes(state_dict)
        widths = sizes.pop("input"), sizes.pop("output")
        model = cls(
            *widths, STMReleasedConfig.of(None, {"gates": gated, "alphas": alphas, **sizes})
        )
        own = model.state_dict()
        check_names(state_dict, own, unused(gated, alphas))
        model.to(widest(state_dict[name] for name in own))
        model.load_state_dict({name: state_dict[name] for name in own})
        return model


def _affine(layer: nn.Module) -> Affine:
    return Affine(layer.get_parameter("weight"), layer.get_parameter("bias"))
