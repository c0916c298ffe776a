"""What every memory model is: one step of a recurrence with its state in the open.

Axis order is time, batch, features everywhere. A state is a named tuple of tensors (or of
such tuples) whose first axis is `batch`; it is passed in and comes back, never kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_leaves, tree_map

from twomem.core import checks
from twomem.core.packing import pack_answers, unpack
from twomem.core.steps import at_steps

State = TypeVar("State")


def restart(state: State, where: Bool[Tensor, " batch"], fresh: State) -> State:
    """Puts `fresh` in place of `state` for the rows in `where`."""

    def pick(new: Tensor, old: Tensor) -> Tensor:
        # not a product with (1 - where): a learned first state is not zero, and 0 * inf is NaN
        return torch.where(where.view(-1, *[1] * (old.ndim - 1)), new, old)

    return tree_map(pick, fresh, state)


def detach(state: State) -> State:
    """Cuts the gradient: the same state, for truncated back-propagation through time."""
    return tree_map(torch.Tensor.detach, state)


def _given(x: Tensor) -> Tensor:
    """A view of rows that are all the same, of which a gradient may be asked; else the tensor itself."""
    return x.view_as(x) if x.requires_grad and not x.is_leaf and x.stride(0) == 0 else x


class Memory(nn.Module, ABC, Generic[State]):
    """A recurrent memory: parameters, and a recurrence whose state the caller holds.

    A model writes `initial_state` and `step`, and has the sequence form from this class. A model
    with a faster way to read a sequence overrides `read`, and nothing else.
    """

    input_size: int | None = None
    """Width of an input, against which inputs are checked; any width if a memory says none."""
    output_size: int | None = None
    """Width of an answer."""

    def __init__(self, *sizes: int) -> None:
        """Notes the widths of inputs and outputs, if both are given."""
        super().__init__()
        if sizes:
            self.input_size, self.output_size = sizes
            checks.size("input", self.input_size)
            checks.size("output", self.output_size)

    @abstractmethod
    def initial_state(self, batch: int) -> State:
        """Returns the state before the first step, which may be learned."""

    @abstractmethod
    def step(
        self, x: Float[Tensor, "batch input"], state: State | None = None
    ) -> tuple[Float[Tensor, "batch output"], State]:
        """Reads one input; returns the output and the next state."""

    def read(
        self,
        xs: Float[Tensor, "time batch input"],
        state: State,
        steps: Sequence[int],
        lengths: Int[Tensor, " batch"] | None,
    ) -> tuple[Float[Tensor, "answer batch output"], State]:
        """Reads a sequence that was checked and in which no row restarts.

        Args:
            xs: The inputs; rows that have ended read zeros.
            state: Where to go on from.
            steps: The steps to answer at, rising; perhaps none.
            lengths: How many steps each row reads, from none to all; its state stays as it is
                after them, and its later answers may be anything.
        """
        wanted, ys = set(steps), []
        y = None
        for t, x in enumerate(xs):
            y, new = self.step(x, state)
            state = new if lengths is None else restart(state, lengths > t, new)
            if t in wanted:
                ys.append(y)
        assert y is not None  # a sequence has at least one step
        return (torch.stack(ys) if ys else y.new_empty(0, *y.shape)), state

    def forward(
        self,
        xs: Float[Tensor, "time batch input"] | PackedSequence,
        state: State | None = None,
        *,
        restarts: Bool[Tensor, "time batch"] | None = None,
        lengths: Int[Tensor, " batch"] | Sequence[int] | None = None,
        asked: Bool[Tensor, " time"] | None = None,
    ) -> tuple[Any, State]:
        """Reads a sequence.

        Args:
            xs: The inputs, or a packed sequence of them.
            state: Where to go on from; the initial state if left out.
            restarts: A row starts afresh before the steps it is marked at.
            lengths: How many steps each row has. What stands behind them is not read, answers
                there are zero, and the state returned is the one after each row's last step.
            asked: The steps to answer at; all if left out. Computing an answer can cost as much
                as the rest of a step.

        Returns:
            The answers, one row per asked step (packed if the inputs were), and the last state.

        Raises:
            ValueError: a shape, a length, a mark or a device does not fit.
            TypeError: something is not a tensor, has another dtype, or is another model's state.
        """
        packing = None
        if isinstance(xs, PackedSequence):
            xs, lengths, packing = unpack(xs, lengths)
        checks.inputs(self, xs, ("time", "batch"))
        time, batch = xs.shape[:2]
        state = self.started(state, batch)
        steps = checks.asked_steps(asked, time)
        lengths = checks.lengths(lengths, time, batch, xs.device)
        restarts = checks.restarts(restarts, time, batch, xs.device)
        inside = None
        if lengths is not None:
            inside = torch.arange(time, device=xs.device)[:, None] < lengths
            xs = torch.where(inside[..., None], xs, 0)
            restarts = restarts & inside if restarts is not None else None
        ys, state = self._read_between_restarts(xs, state, steps, lengths, restarts)
        if inside is not None:
            ys = torch.where(at_steps(inside, steps)[..., None], ys, 0)
        if packing is not None:
            return pack_answers(ys, steps, packing), state
        return ys, state

    def _read_between_restarts(
        self,
        xs: Tensor,
        state: State,
        steps: list[int],
        lengths: Tensor | None,
        restarts: Tensor | None,
    ) -> tuple[Tensor, State]:
        """Cuts the sequence where a row restarts, so that `read` need not know of it."""
        if restarts is None:
            return self.read(xs, state, steps, lengths)
        time, batch = xs.shape[:2]
        fresh = self.initial_state(batch)
        marked = restarts.any(1).nonzero().flatten().tolist()
        starts = sorted({0, *marked})
        ys = []
        for start, stop in zip(starts, [*starts[1:], time], strict=True):
            if start in marked:
                state = restart(state, restarts[start], fresh)
            inside = [t - start for t in steps if start <= t < stop]
            left = None if lengths is None else (lengths - start).clamp(0, stop - start)
            answers, state = self.read(xs[start:stop], state, inside, left)
            ys.append(answers)
        return torch.cat(ys), state

    def started(self, state: State | None, batch: int) -> State:
        """The state given, once checked; the initial one if none is given."""
        if state is None:
            return self.initial_state(batch)
        checks.state(self, state, self.initial_state(1), batch)
        return tree_map(_given, state)

    def checked(self, x: Tensor, state: State | None) -> State:
        """Checks what `step` was given; returns the state to go on from."""
        checks.inputs(self, x, ("batch",))
        return self.started(state, x.shape[0])

    @staticmethod
    def detach(state: State) -> State:
        """Cuts the gradient: the same state, for truncated back-propagation through time."""
        return detach(state)

    @property
    def state_size(self) -> int:
        """Numbers that are held for a row between two steps."""
        return sum(leaf.numel() for leaf in tree_leaves(self.initial_state(1)))

    @property
    def parameter_count(self) -> int:
        """Numbers that are learned, a shared one counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


class BySequence(Memory[State]):
    """A memory that is written as `read`; a step of it is a sequence of one."""

    def step(
        self, x: Float[Tensor, "batch input"], state: State | None = None
    ) -> tuple[Float[Tensor, "batch output"], State]:
        """Reads one input; returns the output and the next state."""
        state = self.checked(x, state)
        ys, state = self.read(x[None], state, [0], None)
        return ys[0], state

    @abstractmethod
    def read(
        self,
        xs: Float[Tensor, "time batch input"],
        state: State,
        steps: Sequence[int],
        lengths: Int[Tensor, " batch"] | None,
    ) -> tuple[Float[Tensor, "answer batch output"], State]:
        """Reads a sequence, as `Memory.read` describes."""
