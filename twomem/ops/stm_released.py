r"""One step of the STM that was released as code: the truth that every faster way is held to.

It differs from the printed equations in almost every line (see the docs, "Paper and released
code"). With `a = f1(x)`, `b = f2(x)`, `p = softmax(f3(x))`:

$$\begin{aligned}
[I|F] &= \sigma(\tanh(M) U^\top + \mathbf{1} (W a + \beta)^\top)
  & R &= I \odot \tanh(a a^\top) + F \odot M \\
v &= \textstyle\sum_s p_s M^r[s]^\top b & Z &= \mathcal{LN}((R + \alpha_2 v b^\top) W_{qkv}^\top + \beta_{qkv}) \\
S[s] &= \textstyle\sum_j \tanh(q_s \odot k_j) \otimes u_j
  & M &\leftarrow R + \alpha_3 (\mathcal{V}_f(S)^\top G_1^\top + \beta_1) \\
M^r &\leftarrow \alpha_1 M^r + S & o &= G_3 \mathcal{V}(G_2 \mathcal{V}(M^r))
\end{aligned}$$

$\mathcal{LN}$ runs over all entries of the $d \times 3n$ matrix $Z$, whose columns are queries, keys
and values; without gates $R = M + a a^\top$. The answer is a two-layer ReLU network of $o$.
"""

from collections.abc import Callable
from typing import NamedTuple

from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from twomem.ops.attention import laid_out_attention
from twomem.ops.unroll import by_steps
from twomem.ops.weights import Affine, Blend, Gates


class Weights(NamedTuple):
    """The parameters of a released STM; `left`, `right`, `address` are chains of linear maps."""

    left: tuple[Affine, ...]  # f1
    right: tuple[Affine, ...]  # f2
    address: tuple[Affine, ...]  # f3; empty if nothing is read back
    gates: Gates | None
    project: Affine  # W_qkv
    norm_gain: Float[Tensor, "width three_query"]
    norm_bias: Float[Tensor, "width three_query"]
    transfer: Affine | None  # G1
    distil: Affine  # G2
    bottleneck: Affine  # G3
    head: tuple[Affine, Affine, Affine]
    blends: tuple[Blend, Blend, Blend]  # alpha 1, 2, 3


def chain(maps: tuple[Affine, ...], x: Tensor) -> Tensor:
    """One linear map after the other, with nothing between them."""
    for each in maps:
        x = each(x)
    return x


def literal_update(
    w: Weights,
    x: Float[Tensor, "batch input"],
    items: Float[Tensor, "batch width depth"],
    relations: Float[Tensor, "batch query width depth"],
    attend: Callable[..., Tensor] = laid_out_attention,
) -> tuple[Tensor, Tensor]:
    """Both memories after one more input; `attend` is one of the ways to compute SAM."""
    left, right = chain(w.left, x), chain(w.right, x)
    items = seen = _written(w, items, left)
    if w.address:
        address = chain(w.address, x).softmax(-1)
        read = einsum(address, relations, right, "b query, b query width depth, b width -> b depth")
        seen = items + w.blends[1] * einsum(read, right, "b i, b j -> b i j")
    scores = w.project(seen)
    normal = layer_norm(scores, scores.shape[1:], w.norm_gain, w.norm_bias)
    related = attend(*normal.mT.chunk(3, dim=1))
    if w.transfer is not None:
        flat = rearrange(related, "b query width depth -> b depth (query width)")
        items = items + w.blends[2] * w.transfer(flat)
    return items, w.blends[0] * relations + related


def _written(w: Weights, items: Tensor, left: Tensor) -> Tensor:
    """The item memory once the input is written."""
    written = einsum(left, left, "b i, b j -> b i j")
    if w.gates is None:
        return items + written
    heard = linear(left, w.gates.input, w.gates.bias)[:, None]
    take, keep = (linear(items.tanh(), w.gates.memory) + heard).sigmoid().chunk(2, dim=2)
    return take * written.tanh() + keep * items


def distilled(
    w: Weights, relations: Float[Tensor, "batch query width depth"]
) -> Float[Tensor, "batch output"]:
    """The answer that the relational memory gives."""
    return answered(w, w.distil(relations.flatten(2)))


def answered(
    w: Weights, distilled: Float[Tensor, "batch query distilled"]
) -> Float[Tensor, "batch output"]:
    """The answer that the distilled memory gives."""
    hidden = w.bottleneck(distilled.flatten(1))
    first, second, last = w.head
    return last(second(first(hidden).relu()).relu())


def literal_step(
    w: Weights, x: Float[Tensor, "batch input"], items: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer and both memories after one more input."""
    items, relations = literal_update(w, x, items, relations)
    return distilled(w, relations), items, relations


def literal(
    w: Weights, xs: Float[Tensor, "time batch input"], items: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Answer, item memory and relational memory after every step."""
    return by_steps(literal_step, w, xs, items, relations)
