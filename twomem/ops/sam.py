r"""SAM, the self-attentive associative memory: the relations between the items of a matrix.

$$\mathrm{SAM}_\theta(M)[s] = A^{\otimes}(M_q[s], M_k, M_v) \qquad
M_q = \mathcal{LN}(W_q M),\; M_k = \mathcal{LN}(W_k M),\; M_v = \mathcal{LN}(W_v M)$$

Axes: `slot` and `width` of the item memory, `query`, `key`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm

from twomem.ops.attention import outer_product_attention


def normalise_rows(x: Float[Tensor, "*batch row width"]) -> Float[Tensor, "*batch row width"]:
    """Layer normalisation of each row, without gain and bias."""
    return layer_norm(x, x.shape[-1:])


def sam(
    memory: Float[Tensor, "*batch slot width"],
    query_weight: Float[Tensor, "query slot"],
    key_weight: Float[Tensor, "key slot"],
    value_weight: Float[Tensor, "key slot"],
    normalise: Callable[[Tensor], Tensor] = normalise_rows,
    match: Callable[[Tensor], Tensor] = torch.tanh,
) -> Float[Tensor, "*batch query width width"]:
    """Relates every query of `memory` to all of its values.

    `normalise` is applied to queries, keys and values apart.
    """
    queries, keys, values = (
        normalise(weight @ memory) for weight in (query_weight, key_weight, value_weight)
    )
    return outer_product_attention(queries, keys, values, match)
