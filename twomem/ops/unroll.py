"""What the two forms of STM share when they read a sequence: chunks, answers, and rows that end."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from twomem.ops import relations as rel
from twomem.ops.weights import Blend


class Heard(NamedTuple):
    """What the inputs alone decide, for all steps at once; batch first, then time."""

    left: Float[Tensor, "batch time width"]
    right: Float[Tensor, "batch time width"]
    address: Float[Tensor, "batch time query"] | None
    """Where a step reads the relational memory; none if nothing is read back."""
    gates: Float[Tensor, "batch time two_width"] | None


class Form(NamedTuple):
    """In what two models with an item and a relational memory differ."""

    hear: Callable[[Any, Tensor], Heard]
    """From weights and inputs, all that does not depend on the memories."""
    loop: Callable[..., tuple[list[rel.Factors], Tensor]]
    """The recurrence: what each step adds to the relational memory, and the last item memory."""
    answer: Callable[[Any, Tensor], Tensor]
    """From weights and a relational memory, the output."""
    keep: Callable[[Any], Blend]
    """By what the relational memory is multiplied at each step."""


def unless_ended(lengths: Tensor | None, t: int, new: Tensor, old: Tensor) -> Tensor:
    """The new memory, or the old one for rows that have no step `t`."""
    return new if lengths is None else torch.where((lengths > t)[:, None, None], new, old)


def unroll(
    form: Form,
    weights: Any,
    xs: Float[Tensor, "time batch input"],
    items: Tensor,
    relations: Tensor,
    steps: Sequence[int],
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs at `steps`, and both memories after each row's last step."""
    ys = []
    for start in range(0, len(xs), rel.CHUNK):
        part = xs[start : start + rel.CHUNK]
        inside = [t - start for t in steps if start <= t < start + len(part)]
        left = None if lengths is None else (lengths - start).clamp(0, len(part))
        wanted, items, relations = _chunk(form, weights, part, items, relations, inside, left)
        ys += [form.answer(weights, each) for each in wanted]
    # without an asked step the answer of the last memory still gives the width
    return torch.stack(ys) if ys else form.answer(weights, relations)[None][:0], items, relations


def _chunk(
    form: Form,
    weights: Any,
    xs: Tensor,
    items: Tensor,
    relations: Tensor,
    steps: Sequence[int],
    lengths: Tensor | None,
) -> tuple[list[Tensor], Tensor, Tensor]:
    """The relational memory after each of `steps`, and both memories at the end."""
    relations, one = rel.shared(relations), relations.new_ones(())
    decay = rel.Decay(form.keep(weights) * one, lengths, len(xs))
    heard = form.hear(weights, xs)
    added, items = form.loop(weights, heard, rel.shared(items), relations, lengths)
    wanted, relations = rel.memories(relations, added, decay, steps)
    return wanted, items, relations


def by_steps(
    step: Callable[..., tuple[Tensor, Tensor, Tensor]],
    weights: Any,
    xs: Float[Tensor, "time batch input"],
    items: Tensor,
    relations: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Applies a literal step to every input; returns what each of them gave."""
    seen = []
    for x in xs:
        y, items, relations = step(weights, x, items, relations)
        seen.append((y, items, relations))
    ys, all_items, all_relations = map(torch.stack, zip(*seen, strict=True))
    return ys, all_items, all_relations
