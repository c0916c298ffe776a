r"""Attention whose values are vectors, and attention whose values are matrices.

For a query $q$, keys $k_j$ and values $v_j$, dot-product attention retrieves one vector, and
outer-product attention keeps every association between the scaled keys and the values:

$$A^{\circ}(q, K, V) = \sum_j \mathcal{S}(q \cdot k_j)\, v_j \qquad
A^{\otimes}(q, K, V) = \sum_j \mathcal{F}(q \odot k_j) \otimes v_j$$

$\mathcal{S}$ is a softmax over the keys and $\mathcal{F}$ the hyperbolic tangent, unless told
otherwise. Axes: `query`, `key`, `width` of a query or key, `depth` of a value.
"""

from collections.abc import Callable

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor


def softmax_over_keys(
    scores: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch query key"]:
    """Weights that are positive and sum to one over the keys."""
    return scores.softmax(-1)


def dot_product_attention(
    queries: Float[Tensor, "*batch query width"],
    keys: Float[Tensor, "*batch key width"],
    values: Float[Tensor, "*batch key depth"],
    weigh: Callable[[Tensor], Tensor] = softmax_over_keys,
) -> Float[Tensor, "*batch query depth"]:
    r"""Computes $A^{\circ}$ for every query; `weigh` is $\mathcal{S}$, over all scores of a row."""
    return weigh(queries @ keys.mT) @ values


def outer_product_attention(
    queries: Float[Tensor, "*batch query width"],
    keys: Float[Tensor, "*batch key width"],
    values: Float[Tensor, "*batch key depth"],
    match: Callable[[Tensor], Tensor] = torch.tanh,
) -> Float[Tensor, "*batch query width depth"]:
    r"""Computes $A^{\otimes}$ for every query; `match` is $\mathcal{F}$, element by element."""
    matches = match(queries[..., :, None, :] * keys[..., None, :, :])
    return einsum(matches, values, "... query key width, ... key depth -> ... query width depth")


def laid_out_attention(
    queries: Float[Tensor, "*batch query width"],
    keys: Float[Tensor, "*batch key width"],
    values: Float[Tensor, "*batch key depth"],
) -> Float[Tensor, "*batch query width depth"]:
    r"""Computes $A^{\otimes}$ as its formula reads: every outer product is laid out, then they are summed.

    The released code computes it so, which made it slow; it is what the benchmarks call literal.
    """
    matches = torch.tanh(queries[..., :, None, :] * keys[..., None, :, :])
    return (matches[..., None] * values[..., None, :, None, :]).sum(-3)
