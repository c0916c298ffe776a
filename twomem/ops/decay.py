"""How a relational memory fades: by powers of what it keeps at each step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from twomem.core.steps import kept, numbers


class Exponents(NamedTuple):
    """Whole exponents on a device, with all that powers and their slopes need of them."""

    up: Tensor
    inside: Tensor | None
    """Where a power counts; none if everywhere. Elsewhere it is zero."""
    below: Tensor
    """Those of the slopes."""
    factor: Tensor
    """What the slopes are multiplied by."""

    @classmethod
    def of(cls, steps: Tensor) -> "Exponents":
        """Of numbers that the host does not know; what is negative has no power."""
        inside, up = steps >= 0, steps.clamp(min=0)
        return cls(up, inside, (steps - 1).clamp(min=0), up)

    @staticmethod
    @kept
    def known(steps: tuple[int, ...], device: torch.device) -> "Exponents":
        """Of numbers that the host knows, sent to the device once."""

        def sent(values: list[int]) -> Tensor:
            return numbers(tuple(values), device)

        up = [max(step, 0) for step in steps]
        inside = None if up == list(steps) else sent([int(step >= 0) for step in steps])
        return Exponents(sent(up), inside, sent([max(each - 1, 0) for each in up]), sent(up))


class _Powers(torch.autograd.Function):
    """Powers of one number. PyTorch's own gradient takes nine launches, for exponents that may be learned."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        base: Tensor,
        up: Tensor,
        inside: Tensor | None,
        below: Tensor,
        factor: Tensor,
        rows: int | None,
    ) -> Tensor:
        del below, factor
        found = base**up if inside is None else base**up * inside
        return found if rows is None else found.expand(rows, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        base, _, _, below, factor, _ = inputs
        ctx.save_for_backward(base, below, factor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        base, below, factor = ctx.saved_tensors
        slopes = base**below * factor
        return (grads[0] * slopes).sum().reshape(1), None, None, None, None, None


def raised(base: Tensor, exponents: Exponents, rows: int | None = None) -> Tensor:
    """`base`, a single number, to these powers, perhaps for many rows; the gradient at zero is right."""
    return _Powers.apply(base.reshape(1), *exponents, rows)  # pyright: ignore[reportReturnType]


def powers(base: Tensor, highest: int) -> Float[Tensor, " power"]:
    """`base` to the powers 0 to `highest`."""
    return raised(base, Exponents.known(tuple(range(highest + 1)), base.device))


class Decay:
    """How much of what a step added is left after later ones, and how many later ones there were.

    The memory becomes `keep` times itself plus what is new; rows that have ended keep theirs.
    """

    def __init__(
        self, keep: Tensor, lengths: Tensor | None, time: int, *, by_kernels: bool = False
    ) -> None:
        """Prepares for a sequence of `time` steps, perhaps `by_kernels`."""
        self.keep, self.lengths = keep, lengths
        self.by_kernels = by_kernels
        self.kept = self._raised(tuple(range(time + 1)))

    def _raised(self, steps: tuple[int, ...] | Tensor, rows: int | None = None) -> Tensor:
        """What is kept after so many steps, perhaps for many rows; nothing after a negative number."""
        if self.by_kernels:
            from twomem.kernels.powers import powers as by_kernels

            on_device = steps if isinstance(steps, Tensor) else numbers(steps, self.keep.device)
            return by_kernels(self.keep.float().reshape(1), on_device, rows or 0)
        if isinstance(steps, Tensor):
            return raised(self.keep, Exponents.of(steps), rows)
        return raised(self.keep, Exponents.known(steps, self.keep.device), rows)

    def _after(self, steps: Sequence[int], rows: int = 1) -> Tensor:
        """What is left after so many steps; nothing of what is yet to come."""
        if not any(steps):
            ones = numbers((1.0,) * len(steps), self.keep.device, self.kept.dtype)
            return ones.expand(rows, -1)
        return self._raised(tuple(steps), rows)

    def carry(self, start: int, stop: int) -> Tensor:
        """What is left after the steps from `start` of a memory held before, for each row."""
        if self.lengths is None:
            return self.kept[stop - start].view(1, 1, 1)
        steps = (self.lengths - start).clamp(0, stop - start)
        return self._raised(steps)[:, None, None]

    def weights(self, start: int, stop: int, rows: int = 1) -> Tensor:
        """What is left before `stop` of what each step from `start` added: (row or 1, step)."""
        return self.stretches([stop], start, stop, rows)

    def stretches(
        self, ends: Sequence[int], start: int = 0, until: int | None = None, rows: int = 1
    ) -> Tensor:
        """What is left, behind each stretch of steps, of what each of its steps added.

        Nothing is left of the steps behind the last stretch, up to `until`. Where no row ends,
        there are as many `rows` as are asked for, all of them the same.
        """
        bounds = zip([start, *ends], ends, strict=False)
        stops = [stop for first, stop in bounds for _ in range(first, stop)]
        stops += [0] * ((ends[-1] if until is None else until) - ends[-1])
        if self.lengths is None:
            after = [max(stop - 1 - t, -1) for t, stop in enumerate(stops, start)]
            return self._after(after, rows)
        steps = numbers(tuple(range(start, start + len(stops))), self.kept.device)
        behind = numbers(tuple(stops), self.kept.device)
        after = torch.minimum(self.lengths[:, None], behind) - 1 - steps
        return self._raised(after)

    def between(self, ends: Sequence[int]) -> Tensor:
        """What is left at each of `ends` of the memory at the end before: (row or 1, end)."""
        if self.lengths is None:
            gone = [end - before for before, end in zip([0, *ends], ends, strict=False)]
            return self._after(gone)
        at = torch.minimum(numbers((0, *ends), self.kept.device), self.lengths[:, None])
        return self._raised(at.diff(dim=1))
