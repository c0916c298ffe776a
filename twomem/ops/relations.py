r"""A relational memory that is never laid out inside a loop.

What a step adds to it has few factors, $\mathrm{SAM}[s] = \sum_j K_j[s] \otimes V_j$ with the
matches $K_j[s] = \tanh(q_s \odot k_j)$, and everything that is asked of the memory is linear in it. So:

- **fold**: the memory after many steps is one matrix product over all their factors.
- **push**: the addresses of later steps are known before the loop, so a step adds what it
  contributes to all later reads at once, and no read looks at the memory itself.
- **low-rank transfer**: a linear map of the flattened memory is applied to the matches alone.

Axes: `key`, `query`, `width` of a match, `depth` of a value; batch first, for one product per row.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from twomem.ops.decay import Decay
from twomem.ops.weights import Blend

CHUNK = 48
"""Steps after which the memory is laid out once: pushing costs the square of this."""


class Factors(NamedTuple):
    """What one step, or each of several, adds to the relational memory; a blend is in the values."""

    matches: Float[Tensor, "batch *time key query width"]
    values: Float[Tensor, "batch *time key depth"]

    def between(self, start: int, stop: int) -> "Factors":
        """Those of the steps from `start` to `stop`."""
        return Factors(self.matches[:, start:stop], self.values[:, start:stop])


def stacked(steps: Sequence[Factors]) -> Factors:
    """One step after the other."""
    return Factors(
        torch.stack([each.matches for each in steps], dim=1),
        torch.stack([each.values for each in steps], dim=1),
    )


def factors(normal: Float[Tensor, "*batch three_query width"], gain: Blend = 1.0) -> Factors:
    """Matches every query with every key; queries, keys and values stand one above the other."""
    queries, keys, values = normal.chunk(3, dim=-2)
    return Factors(torch.tanh(keys[..., :, None, :] * queries[..., None, :, :]), gain * values)


def shared(x: Float[Tensor, "batch *rest"]) -> Float[Tensor, "one_or_batch *rest"]:
    """A single row if all rows are the same memory, as an expanded initial state is."""
    if x.stride(0) != 0:
        return x
    base = _expanded(x)
    return x[:1] if base is None else base[None]


def _expanded(x: Tensor) -> Tensor | None:
    """What `x` repeats for each row: its gradient need not pass through one of all rows, mostly zeros."""
    if torch.compiler.is_compiling() or x.retains_grad:
        return None
    base = x._base  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if base is None or not _made_of(x, base):
        return None
    row = (x.shape[1:], x.stride()[1:], x.storage_offset())
    return base if row == (base.shape, base.stride(), base.storage_offset()) else None


def _made_of(x: Tensor, base: Tensor) -> bool:
    """Whether nothing stands between both that a gradient could be asked of."""
    if x.grad_fn is None or not base.requires_grad:
        return x.requires_grad == base.requires_grad
    before = x.grad_fn.next_functions[0][0]
    return before is base.grad_fn if base.grad_fn else getattr(before, "variable", None) is base


def times(x: Tensor, matrices: Float[Tensor, "one_or_batch inner outer"]) -> Tensor:
    """Multiplies the rows of each `x` (batch, rows, inner) by its matrix, or by the shared one."""
    return x @ (matrices[0] if matrices.shape[0] == 1 else matrices)


def fold(
    relations: Float[Tensor, "one_or_batch query width depth"],
    added: Factors,
    decay: Decay,
    start: int,
) -> Float[Tensor, "batch query width depth"]:
    """The memory after the steps `added`, the first of which is step `start`."""
    batch, time = added.values.shape[:2]
    stop = start + time
    weights = decay.weights(start, stop)[:, :, None, None].to(relations.dtype)
    values = added.values * weights
    new = added.matches.flatten(1, 2).flatten(2).mT @ values.flatten(1, 2)
    old = decay.carry(start, stop).to(relations.dtype) * relations.flatten(1, 2)
    return (old + new).view(batch, *relations.shape[1:])


def memories(
    relations: Float[Tensor, "one_or_batch query width depth"],
    added: Factors,
    decay: Decay,
    steps: Sequence[int],
) -> tuple[list[Tensor], Tensor]:
    """The memory after each of `steps`, and after the last step of all."""
    wanted, done = [], 0
    for step in steps:
        relations = fold(relations, added.between(done, step + 1), decay, done)
        done = step + 1
        wanted.append(relations)
    if done < added.values.shape[1]:
        relations = fold(relations, added.between(done, added.values.shape[1]), decay, done)
    return wanted, relations


def low_rank(
    matches: Float[Tensor, "batch key query width"], weight: Float[Tensor, "output query_width"]
) -> Float[Tensor, "batch key output"]:
    """A linear map of the flattened memory, applied to the matches: its output times the values."""
    batch, keys = matches.shape[:2]
    return (matches.flatten(2).flatten(0, 1) @ weight.mT).view(batch, keys, -1)


def read_values(
    relations: Float[Tensor, "one_or_batch query width depth"],
    address: Float[Tensor, "batch time query"],
    cue: Float[Tensor, "batch time width"],
) -> Float[Tensor, "batch time depth"]:
    """What every step would read from this memory: the cue meets the keys, values come back."""
    matrices = relations.transpose(1, 2).flatten(2)
    return _addressed(times(cue, matrices), address, relations.shape[1])


def read_keys(
    relations: Float[Tensor, "one_or_batch query width depth"],
    address: Float[Tensor, "batch time query"],
    cue: Float[Tensor, "batch time depth"],
) -> Float[Tensor, "batch time width"]:
    """What every step would read from this memory: the cue meets the values, keys come back."""
    matrices = relations.permute(0, 3, 1, 2).flatten(2)
    return _addressed(times(cue, matrices), address, relations.shape[1])


def _addressed(found: Tensor, address: Tensor, queries: int) -> Tensor:
    per_query = found.unflatten(2, (queries, -1))
    return (address[:, :, None] @ per_query).squeeze(2)


def push_values(
    added: Factors,
    address: Float[Tensor, "batch later query"],
    cue: Float[Tensor, "batch later width"],
) -> Float[Tensor, "batch later depth"]:
    """What one step contributes to `read_values` of the steps after it."""
    _, keys, queries, _ = added.matches.shape
    met = added.matches.flatten(1, 2) @ cue.mT
    met = (met.unflatten(1, (keys, queries)) * address.mT[:, None]).sum(2)
    return met.mT @ added.values


def push_keys(
    added: Factors,
    address: Float[Tensor, "batch later query"],
    cue: Float[Tensor, "batch later depth"],
) -> Float[Tensor, "batch later width"]:
    """What one step contributes to `read_keys` of the steps after it."""
    met = cue @ added.values.mT
    weights = (met[..., None] * address[:, :, None]).flatten(2)
    return weights @ added.matches.flatten(1, 2)
