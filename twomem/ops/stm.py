r"""One step of STM, as the paper prints it: the truth that every faster way is held to.

$$\begin{aligned}
X_t &= f_1(x_t) \otimes f_2(x_t) \\
\mathcal{M}^i_t &= F_t \odot \mathcal{M}^i_{t-1} + I_t \odot X_t \\
v^r_t &= \mathrm{softmax}(f_3(x_t))^\top \mathcal{M}^r_{t-1} f_2(x_t) \\
\mathcal{M}^r_t &= \mathcal{M}^r_{t-1}
    + \alpha_1 \mathrm{SAM}_\theta(\mathcal{M}^i_t + \alpha_2\, v^r_t \otimes f_2(x_t)) \\
\mathcal{M}^i_t &\leftarrow \mathcal{M}^i_t
    + \alpha_3\, \mathcal{G}_1 \circ \mathcal{V}_f \circ \mathcal{M}^r_t \\
o_t &= \mathcal{G}_3 \circ \mathcal{V}_l \circ \mathcal{G}_2 \circ \mathcal{V}_l \circ \mathcal{M}^r_t
\end{aligned}$$

$$[I_t; F_t] = \sigma\left(W f_1(x_t) + U \tanh(\mathcal{M}^i_{t-1}) + [b_I; b_F]\right)$$

Axes: `slot` (rows of the item memory) and `width` are both $d$; `query` is $n_q = n_{kv}$.
"""

from collections.abc import Callable
from typing import NamedTuple

from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from twomem.ops.attention import outer_product_attention
from twomem.ops.unroll import by_steps
from twomem.ops.weights import Affine, Blend, Gates


class Weights(NamedTuple):
    """The parameters of an STM; the paper's symbol stands beside each."""

    left: Affine  # f1
    right: Affine  # f2
    address: Affine | None  # f3; none if nothing is read back
    gates: Gates | None  # W, U, b; none without gates
    project: Float[Tensor, "three_query width"]  # W_q, W_k, W_v, one above the other
    norm_gain: Float[Tensor, "three_query width"]
    norm_bias: Float[Tensor, "three_query width"]
    transfer: Affine | None  # G1; none without transfer
    distil: Affine  # G2
    output: Affine  # G3
    blends: tuple[Blend, Blend, Blend]  # alpha 1, 2, 3


def literal_update(
    w: Weights,
    x: Float[Tensor, "batch input"],
    items: Float[Tensor, "batch slot width"],
    relations: Float[Tensor, "batch query slot width"],
    attend: Callable[..., Tensor] = outer_product_attention,
) -> tuple[Tensor, Tensor]:
    """Both memories after one more input; `attend` is one of the ways to compute SAM."""
    left, right = w.left(x), w.right(x)
    items = seen = _written(w, items, left, right)
    if w.address is not None:
        address = w.address(x).softmax(-1)
        read = einsum(address, relations, right, "b query, b query slot width, b width -> b slot")
        seen = items + w.blends[1] * einsum(read, right, "b slot, b width -> b slot width")
    normal = layer_norm(w.project @ seen, seen.shape[-1:]) * w.norm_gain + w.norm_bias
    queries, keys, values = normal.chunk(3, dim=1)
    relations = relations + w.blends[0] * attend(queries, keys, values)
    if w.transfer is not None:
        flat = rearrange(relations, "b query slot width -> b (query slot) width")
        items = items + w.blends[2] * (w.transfer.weight @ flat + w.transfer.bias[:, None])
    return items, relations


def _written(w: Weights, items: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The item memory once the input is written."""
    written = einsum(left, right, "b slot, b width -> b slot width")
    if w.gates is None:
        return items + written
    heard = linear(left, w.gates.input, w.gates.bias)[..., None]
    take, keep = (w.gates.memory @ items.tanh() + heard).sigmoid().chunk(2, dim=1)
    return keep * items + take * written


def distilled(
    w: Weights, relations: Float[Tensor, "batch query slot width"]
) -> Float[Tensor, "batch output"]:
    """The output that the relational memory gives."""
    return answered(w, w.distil(relations.flatten(2)))


def answered(
    w: Weights, distilled: Float[Tensor, "batch query distilled"]
) -> Float[Tensor, "batch output"]:
    """The output that the distilled memory gives."""
    return w.output(distilled.flatten(1))


def literal_step(
    w: Weights, x: Float[Tensor, "batch input"], items: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The output and both memories after one more input."""
    items, relations = literal_update(w, x, items, relations)
    return distilled(w, relations), items, relations


def literal(
    w: Weights, xs: Float[Tensor, "time batch input"], items: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, item memory and relational memory after every step."""
    return by_steps(literal_step, w, xs, items, relations)
