"""What every model keeps, as checks that raise; the tests call them, and so do planted faults.

The truth is always the same and as plain as can be: each row alone, one step after the other.
"""

from typing import Any

import torch
from accuracy import assert_exact
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from twomem import models
from twomem.core.memory import Memory

INPUT, OUTPUT = 3, 4
LARGEST_BLEND = 0.3


def config_of(name: str) -> Any:
    """The settings at which a model is tested."""
    return type(models.load(name)).small()


def small(name: str, seed: int = 0) -> Memory[Any]:
    """A small model in float64, away from its start, where learned zeros would hide faults.

    Seeds the global generator too, so that what a test draws next is the same every time.
    """
    torch.manual_seed(seed)
    return perturbed(config_of(name).build(INPUT, OUTPUT).double())


@torch.no_grad()
def perturbed(memory: Memory[Any]) -> Memory[Any]:
    """Moves all parameters; blends stay small, since with large ones rounding errors grow."""
    for name, parameter in memory.named_parameters():
        if name.startswith("alpha"):
            parameter.uniform_(0.1, LARGEST_BLEND)
        else:
            parameter.add_(0.2 * torch.randn_like(parameter))
    return memory


def draw(steps: int, batch: int = 2, **how: Any) -> Tensor:
    """Random inputs."""
    return torch.randn(steps, batch, INPUT, dtype=torch.float64, **how)


def some_state(memory: Memory[Any], batch: int = 2) -> Any:
    """A state that is not the first one and has no gradient; its rows differ."""
    return memory.detach(memory(draw(3, batch))[1])


def row_of(state: Any, row: int) -> Any:
    """One row of a state, as a batch of one."""
    return tree_map(lambda part: part[row : row + 1], state)


def by_steps(memory: Memory[Any], xs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """Reads a sequence by `step` alone."""
    ys = []
    for x in xs:
        y, state = memory.step(x, state)
        ys.append(y)
    return torch.stack(ys), state


def truth(
    memory: Memory[Any],
    xs: Tensor,
    state: Any = None,
    restarts: Tensor | None = None,
    lengths: list[int] | None = None,
) -> tuple[Tensor, Any]:
    """Each row alone, step by step; answers behind a row's end are zero."""
    columns, lasts = [], []
    for row in range(xs.shape[1]):
        length = len(xs) if lengths is None else lengths[row]
        now = None if state is None else row_of(state, row)
        ys = []
        for t in range(length):
            if restarts is not None and restarts[t, row]:
                now = None
            y, now = memory.step(xs[t, row : row + 1], now)
            ys.append(y)
        ys += [torch.zeros_like(ys[0])] * (len(xs) - length)
        columns.append(torch.cat(ys))
        lasts.append(now)
    return torch.stack(columns, dim=1), tree_map(lambda *rows: torch.cat(rows), *lasts)


def check_reading(
    memory: Memory[Any], xs: Tensor, state: Any = None, asked: Tensor | None = None, **how: Any
) -> None:
    """The sequence form gives the answers and the last state of each row alone, step by step."""
    ys, last = memory(xs, state, asked=asked, **how)
    right, right_last = truth(memory, xs, state, **how)
    assert_exact(ys, right if asked is None else right[asked], "answers")
    assert_exact(last, right_last, "last state")


def check_steps(memory: Memory[Any], xs: Tensor) -> None:
    """The sequence form is its own steps, rows together."""
    assert_exact(memory(xs), by_steps(memory, xs), "a sequence against its steps")


def check_cut(memory: Memory[Any], xs: Tensor, cut: int) -> None:
    """A sequence may be cut anywhere and go on from the state."""
    whole = memory(xs)
    first, state = memory(xs[:cut])
    second, last = memory(xs[cut:], state)
    assert_exact((torch.cat([first, second]), last), whole, f"cut at {cut}")


def check_rows(memory: Memory[Any], xs: Tensor) -> None:
    """Rows of a batch do not meet."""
    ys, last = memory(xs)
    for row in range(xs.shape[1]):
        alone, own = memory(xs[:, row : row + 1])
        assert_exact((ys[:, row : row + 1], row_of(last, row)), (alone, own), f"row {row}")


def check_time(memory: Memory[Any], steps: int) -> None:
    """An answer hears all inputs up to its own step, and none after."""
    xs = draw(steps, 1, requires_grad=True)
    ys, _ = memory(xs)
    for t in range(steps):
        (heard,) = torch.autograd.grad(ys[t].sum(), xs, retain_graph=True)
        assert bool(heard[: t + 1].any(dim=2).all()), f"answer {t} does not hear its past"
        assert not heard[t + 1 :].any(), f"answer {t} hears its future"


def check_restart(memory: Memory[Any], xs: Tensor, at: int) -> None:
    """A restart forgets one row, and keeps the other."""
    marks = torch.zeros(xs.shape[:2], dtype=torch.bool)
    marks[at, 0] = True
    ys, last = memory(xs, restarts=marks)
    kept, kept_last = memory(xs)
    fresh, fresh_last = memory(xs[at:])
    assert_exact(ys[:at], kept[:at], "before the restart") if at else None
    assert_exact(ys[at:, 0], fresh[:, 0], "the restarted row")
    assert_exact(row_of(last, 0), row_of(fresh_last, 0), "the restarted row's state")
    assert_exact(ys[:, 1], kept[:, 1], "the other row")
    assert_exact(row_of(last, 1), row_of(kept_last, 1), "the other row's state")


def check_lengths(memory: Memory[Any], xs: Tensor, lengths: list[int]) -> None:
    """What stands behind a row's end, NaN included, changes nothing and gets no gradient."""
    behind = torch.arange(len(xs))[:, None] >= torch.tensor(lengths)
    padded = torch.where(behind[..., None], torch.nan, xs).requires_grad_()
    ys, last = memory(padded, lengths=lengths)
    assert_exact((ys, last), truth(memory, xs, lengths=lengths), "rows that end")
    assert not ys[behind].any(), "an answer behind a row's end is not zero"
    sums = [part.sum() for part in (ys, *tree_leaves(last))]
    (heard,) = torch.autograd.grad(sum(sums), padded)
    assert not heard[behind].any(), "the padding gets a gradient"
    assert bool(heard[~behind].isfinite().all()), "the inputs' gradient is not finite"
