"""What the two forms of STM share when they read a sequence: chunks, answers, and rows that end."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from twomem.core.steps import numbers
from twomem.kernels.stm_arguments import PAPER, Arguments
from twomem.ops import relations as rel
from twomem.ops.choice import choose
from twomem.ops.hearing import Heard
from twomem.ops.weights import Affine, Blend


class Form(NamedTuple):
    """In what two models with an item and a relational memory differ."""

    hear: Callable[..., Heard]
    """From weights and inputs, perhaps by kernels, all that does not depend on the memories."""
    loop: Callable[..., tuple[rel.Factors, Tensor]]
    """The recurrence: what each step adds to the relational memory, and the last item memory."""
    answer: Callable[[Any, Tensor], Tensor]
    """From weights and what is distilled of a relational memory, the output."""
    layers: Callable[[Any], Sequence[tuple[Affine, bool]]]
    """The layers that make it; behind those that say so, what is negative becomes zero."""
    keep: Callable[[Any], Blend]
    """By what the relational memory is multiplied at each step."""
    number: int
    """What the kernels call this form."""
    arguments: Callable[..., Arguments]
    """What the kernels take in the place of `loop`."""


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
    precision: str = "fp32",
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs at `steps`, and both memories after each row's last step."""
    found = []
    way = choose(form.number, weights, xs, items, precision)
    read = _read if way.precision is None else partial(_read_by_kernels, precision=way.precision)
    for start in range(0, len(xs), way.steps):
        part = xs[start : start + way.steps]
        inside = [t - start for t in steps if start <= t < start + len(part)]
        left = None if lengths is None else (lengths - start).clamp(0, len(part))
        distilled, items, relations = read(form, weights, part, items, relations, inside, left)
        found += [] if distilled is None else [distilled]
    if found:
        # what is read at once need not be copied
        distilled = found[0] if len(found) == 1 else torch.cat(found)
        return _answers(form, weights, distilled, way.precision), items, relations
    # without an asked step the answer of the last memory still gives the width
    distilled = weights.distil(relations.flatten(2))[None]
    return _answers(form, weights, distilled)[:0], items, relations


def _answers(
    form: Form,
    weights: Any,
    distilled: Float[Tensor, "step batch query distilled"],
    precision: str | None = None,
) -> Tensor:
    """Of all steps at once; by kernels at a precision if there is one."""
    rows, shape = distilled.flatten(0, 1), distilled.shape[:2]
    if precision is None or torch.is_autocast_enabled(rows.device.type):
        return form.answer(weights, rows).unflatten(0, shape)
    from twomem.kernels.layers import answers

    maps, relus = zip(*form.layers(weights), strict=True)
    by = [each.weight for each in maps], [each.bias for each in maps]
    return answers(rows.flatten(1), *by, list(relus), precision).unflatten(0, shape)


def _read(
    form: Form,
    weights: Any,
    xs: Tensor,
    items: Tensor,
    relations: Tensor,
    steps: Sequence[int],
    lengths: Tensor | None,
) -> tuple[Tensor | None, Tensor, Tensor]:
    """What is distilled of the relational memory after each of `steps`, and both memories at the end."""
    relations, decay, heard = _prepared(form, weights, xs, relations, lengths)
    added, items = form.loop(weights, heard, rel.shared(items), relations, lengths)
    wanted, relations = rel.memories(relations, added, decay, steps)
    distilled = [weights.distil(each.flatten(2)) for each in wanted]
    return torch.stack(distilled) if distilled else None, items, relations


def _prepared(
    form: Form,
    weights: Any,
    xs: Tensor,
    relations: Tensor,
    lengths: Tensor | None,
    *,
    by_kernels: bool = False,
) -> tuple[Tensor, rel.Decay, Heard]:
    """The first relational memory, held once if rows share it, how it fades, and what was heard."""
    keep = form.keep(weights)
    if not isinstance(keep, Tensor):
        keep = numbers((keep,), relations.device, relations.dtype)
    decay = rel.Decay(keep, lengths, len(xs), by_kernels=by_kernels)
    return rel.shared(relations), decay, form.hear(weights, xs, by_kernels=by_kernels)


def _read_by_kernels(
    form: Form,
    weights: Any,
    xs: Tensor,
    items: Tensor,
    relations: Tensor,
    steps: Sequence[int],
    lengths: Tensor | None,
    precision: str,
) -> tuple[Tensor | None, Tensor, Tensor]:
    """The same as `_read`, by kernels of our own; no memory is laid out but the last."""
    from twomem.kernels.last_answer import fold_distil
    from twomem.kernels.memory import fold
    from twomem.kernels.stm import recurrence

    relations, decay, heard = _prepared(form, weights, xs, relations, lengths, by_kernels=True)
    given = form.arguments(weights, heard, rel.shared(items), relations, decay, precision)
    normal, last = recurrence(form.number, given, precision)
    last = last.mT if form.number == PAPER else last
    fades = decay.weights(0, len(xs), rows=xs.shape[1]).to(normal.dtype)
    summed = (normal, fades, relations, decay.carry(0, len(xs)).flatten())
    if list(steps) == [len(xs) - 1]:
        # the memory that is answered is the one that is kept
        relations, distilled = fold_distil(*summed, weights.distil.weight, precision)
        return distilled[None] + weights.distil.bias, last, relations
    distilled = None
    if steps:
        distilled = _distilled(weights.distil, relations, normal, decay, steps, precision)
    return distilled, last, fold(*summed, precision)


def _distilled(
    by: Affine,
    relations: Tensor,
    normal: Tensor,
    decay: rel.Decay,
    steps: Sequence[int],
    precision: str,
) -> Float[Tensor, "step batch query distilled"]:
    """What is distilled after each of `steps`: of the first memory, and of each stretch of steps since."""
    from twomem.kernels.folding import distil
    from twomem.kernels.mixing import mixed

    ends = [step + 1 for step in steps]
    # what comes after the last of them is not distilled
    fades = decay.stretches(ends, until=normal.shape[1], rows=len(normal))
    new, _ = distil(normal, fades.to(normal.dtype), by.weight, ends, precision)
    held = (relations.flatten(2) @ by.weight.mT).to(new.dtype)
    return mixed(new, decay.between(ends).to(new.dtype), held, by.bias.to(new.dtype))


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
