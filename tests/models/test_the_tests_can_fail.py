"""Planted faults, each refused by the check that should refuse it."""

from typing import NamedTuple

import pytest
import torch
from accuracy import assert_as_accurate, assert_exact, error
from models.contract import (
    check_cut,
    check_lengths,
    check_restart,
    check_rows,
    check_steps,
    check_time,
    draw,
    small,
)
from torch import Tensor, nn

from twomem import Memory


class Kept(NamedTuple):
    """What the sound model remembers."""

    hidden: Tensor


class Sound(Memory[Kept]):
    """A model without fault, for the faults to be planted in."""

    def __init__(self):
        super().__init__(3, 4)
        self.hear = nn.Linear(3 + 4, 4).double()
        self.first = nn.Parameter(torch.randn(4, dtype=torch.float64))

    def initial_state(self, batch):
        return Kept(self.first.expand(batch, -1))

    def step(self, x, state=None):
        hidden = self.hear(torch.cat([x, self.checked(x, state).hidden], dim=1)).tanh()
        return hidden, Kept(hidden)


class KeepsItsState(Sound):
    """Remembers in itself what it should hand out."""

    own = None

    def step(self, x, state=None):
        state = self.checked(x, state)
        fits = self.own is not None and len(self.own.hidden) == len(x)
        y, self.own = super().step(x, self.own if fits else state)
        return y, state


class MixesRows(Sound):
    """Normalises over the batch."""

    def step(self, x, state=None):
        y, state = super().step(x, state)
        return y - y.mean(0), state


class SeesAhead(Sound):
    """Subtracts the mean of the whole sequence."""

    def read(self, xs, state, steps, lengths):
        return super().read(xs - xs.mean(0), state, steps, lengths)


class OffByALittle(Sound):
    """Has a fast way to read which is wrong in one entry of one answer."""

    def read(self, xs, state, steps, lengths):
        ys, state = super().read(xs, state, steps, lengths)
        spoil = torch.zeros_like(ys)
        spoil[-1, 0, 0] = 1e-6
        return ys + spoil, state


class ReadsPadding(Sound):
    """Goes on behind the end of a row."""

    def read(self, xs, state, steps, lengths):
        return super().read(xs, state, steps, None)


def test_the_sound_model_keeps_the_contract():
    memory, xs = Sound(), draw(5)
    check_steps(memory, xs)
    check_cut(memory, xs, 2)
    check_rows(memory, xs)
    check_time(memory, 4)
    check_restart(memory, xs, 2)
    check_lengths(memory, xs, [5, 2])


@pytest.mark.parametrize(
    ("fault", "check", "says"),
    [
        (KeepsItsState, check_steps, "a sequence against its steps"),
        (KeepsItsState, lambda m, xs: check_cut(m, xs, 2), "cut at 2"),
        (KeepsItsState, lambda m, xs: check_restart(m, xs, 2), "before the restart"),
        (MixesRows, check_rows, "row 0"),
        (SeesAhead, lambda m, xs: check_time(m, 4), "answer 0 hears its future"),
        (OffByALittle, check_steps, "a sequence against its steps.*off by 1.0e-06"),
        (OffByALittle, lambda m, xs: check_cut(m, xs, 2), "cut at 2"),
        (ReadsPadding, lambda m, xs: check_lengths(m, xs, [5, 2]), "rows that end"),
    ],
)
def test_a_planted_fault_is_refused(fault, check, says):
    memory, xs = fault(), draw(5)
    with pytest.raises(AssertionError, match=says):
        check(memory, xs)


@pytest.mark.parametrize("name", ["stm", "stm_released", "lstm"])
def test_a_restart_that_multiplies_by_zero_is_refused(name, monkeypatch):
    def forgets(state, where, fresh):
        parts = (
            torch.where(where.view(-1, *[1] * (part.ndim - 1)), 0 * part, part) for part in state
        )
        return type(state)(*parts)

    memory, xs = small(name), draw(5)
    check_restart(memory, xs, 2)
    monkeypatch.setattr("twomem.core.memory.restart", forgets)
    with pytest.raises(AssertionError, match="the restarted row"):
        check_restart(memory, xs, 2)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x * (1 + 1e-8),
        lambda x: x.roll(1, 0),
        lambda x: torch.full_like(x, torch.nan),
        lambda x: x[:1],
        lambda x: x.float(),
        lambda x: (x, x),
        lambda x: (),
    ],
)
def test_what_is_not_exact_is_refused(spoil):
    right = draw(4)
    assert_exact(right.clone(), right)
    with pytest.raises(AssertionError):
        assert_exact(spoil(right), right)


def test_nothing_is_not_exact():
    with pytest.raises(AssertionError, match="nothing to compare"):
        assert_exact((), ())


@pytest.mark.parametrize("spoil", [lambda y: y * (1 + 1e-5), lambda y: y.roll(1, 0)])
def test_what_is_less_accurate_than_its_reference_is_refused(spoil):
    def product(seed, dtype):
        torch.manual_seed(seed)
        a, b = draw(20).float().to(dtype), draw(20).float().to(dtype)
        return {"product": (a * b).cumsum(0)}

    assert_as_accurate(product, product, range(3))
    with pytest.raises(AssertionError, match="product: error"):
        assert_as_accurate(
            lambda *how: {"product": spoil(product(*how)["product"])}, product, range(3)
        )
    with pytest.raises(AssertionError, match="nothing to compare"):
        assert_as_accurate(product, product, [])


def test_not_a_number_and_another_shape_are_infinitely_wrong():
    right = draw(2)
    assert error(right, right) == 0
    assert error(right.new_full((2, 2, 3), torch.nan), right) == float("inf")
    assert error(right[:1], right) == float("inf")
