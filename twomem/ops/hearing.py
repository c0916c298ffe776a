"""What the inputs alone decide, for all steps at once: by products, or by kernels around them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from twomem.core.steps import numbers
from twomem.ops.weights import Affine, Blend, Gates, at_once, composed, one_by_one, parts_of


class Cue(NamedTuple):
    """What makes the cue of what is heard: a projection, or none, and a blend."""

    project: Float[Tensor, "score width"] | None
    blend: Blend


class Twins(NamedTuple):
    """The same numbers as what was heard; gradients of each use are summed by one launch."""

    left: Float[Tensor, "batch time width"]
    right: Float[Tensor, "batch time width"]
    third_right: Float[Tensor, "batch time width"]
    address: Float[Tensor, "batch time query"] | None


class Heard(NamedTuple):
    """What the inputs alone decide, for all steps at once; batch first, then time."""

    left: Float[Tensor, "batch time width"]
    right: Float[Tensor, "batch time width"]
    address: Float[Tensor, "batch time query"] | None
    """Where a step reads the relational memory; none if nothing is read back."""
    gates: Float[Tensor, "batch time two_width"] | None
    cue: Float[Tensor, "batch time cue"] | None = None
    """What the kernels let meet the reads; none if it is still to be made."""
    twins: Twins | None = None

    @property
    def uses(self) -> Twins:
        """The same once more, for each further use."""
        return self.twins or Twins(self.left, self.right, self.right, self.address)


def heard(
    xs: Float[Tensor, "time batch input"],
    left: Affine,
    right: Affine,
    address: Affine | None,
    gates: Gates | None,
    cue: Cue,
    *,
    by_kernels: bool = False,
) -> Heard:
    """What is heard; for a gradient by one product, as what a gate hears of `left` is a map of the input."""
    if by_kernels and _few(xs):
        return _heard_by_kernel(xs, left, right, address, gates, cue)
    rows, maps = xs.transpose(0, 1), [left, right, *([] if address is None else [address])]
    of_gates = None if gates is None else Affine(gates.input, gates.bias)
    if not torch.is_grad_enabled():
        found = one_by_one(maps, rows)
        heard_by_gates = None if of_gates is None else of_gates(found[0])
        return _addressed(found, heard_by_gates, address is not None)
    maps += [] if of_gates is None else [composed(left, of_gates)]
    found = at_once(maps, rows)
    sizes = [0 if each is None else len(each.bias) for each in (left, address, of_gates)]
    if by_kernels and found.dtype == torch.float32:
        return _parted(found, *sizes)
    parts = parts_of(found, maps)
    heard_by_gates = None if of_gates is None else parts.pop()
    return _addressed(parts, heard_by_gates, address is not None)


def _addressed(found: Sequence[Tensor], gates: Tensor | None, reads: bool) -> Heard:
    return Heard(found[0], found[1], found[2].softmax(-1) if reads else None, gates)


def _parted(found: Tensor, width: int, queries: int, gates: int) -> Heard:
    """The parts of what was heard, as often as the kernels use them."""
    from twomem.kernels.parting import parted

    left, right, address, of_gates = parted(found, width, queries, gates)
    addresses = address if queries else (None, None)
    twins = Twins(left[1], right[1], right[2], addresses[1])
    return Heard(left[0], right[0], addresses[0], of_gates if gates else None, twins=twins)


def _few(xs: Tensor) -> bool:
    """Whether a kernel hears these inputs faster than products do."""
    from twomem.kernels.hearing import FEW, WIDEST

    rows, inputs = xs.shape[:2].numel(), xs.shape[2]
    if torch.is_grad_enabled() or torch.is_autocast_enabled(xs.device.type):
        return False
    return xs.dtype == torch.float32 and rows <= FEW and inputs <= WIDEST


def _heard_by_kernel(
    xs: Tensor,
    left: Affine,
    right: Affine,
    address: Affine | None,
    gates: Gates | None,
    cue: Cue,
) -> Heard:
    """The same by one launch, without a gradient, and with the cue."""
    from twomem.kernels.hearing import hear

    blend = cue.blend if address is not None else None
    if isinstance(blend, float | int):
        blend = numbers((blend,), xs.device, torch.float32)
    of_gates = [] if gates is None else [gates.input, *gates.biases]
    starts = [] if gates is None else list(gates.starts)
    maps = list(left), list(right), list(address or [])
    found = hear(xs, *maps, of_gates, starts, cue.project, blend)
    return Heard(found[0], found[1], *(x if x.numel() else None for x in found[2:]))
