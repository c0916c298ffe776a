"""The algebra that keeps the relational memory out of loops: planted cases, and that forms agree."""

from math import log

import pytest
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st

from twomem.ops import relations as rel
from twomem.ops.decay import Decay, Exponents, powers, raised

# tanh of these logarithms is a fraction: tanh(ln a) = (a^2 - 1) / (a^2 + 1)
LN2, LN3 = log(2), log(3)
TANH_LN2, TANH_LN3 = 0.6, 0.8


def exactly(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def one_step(matches, values):
    """Factors of one row, one query: matches are key by width, values key by depth."""
    return rel.Factors(exactly(*matches)[None, :, None], exactly(*values)[None])


FIRST = one_step([[1, 2]], [[3, 4]])  # adds [[3, 4], [6, 8]]
SECOND = one_step([[10, 0]], [[1, -1]])  # adds [[10, -10], [0, 0]]
HELD = exactly([[100.0, 0.0], [0.0, 200.0]])[None]  # row and query axes are one wide


def decay(keep, time, lengths=None):
    return Decay(torch.tensor(keep, dtype=torch.float64), lengths, time)


def test_factors_match_every_query_with_every_key():
    queries, keys = [[1.0, LN2], [-1.0, 0.0]], [[LN2, 1.0], [LN3, -1.0]]
    values = [[5.0, 6.0], [7.0, 8.0]]
    found = rel.factors(exactly(*queries, *keys, *values)[None], 10.0)
    matches = [
        [[TANH_LN2, TANH_LN2], [-TANH_LN2, 0.0]],
        [[TANH_LN3, -TANH_LN2], [-TANH_LN3, 0.0]],
    ]
    assert_exact(found.matches, exactly(*matches)[None])
    assert_exact(found.values, exactly([50.0, 60.0], [70.0, 80.0])[None])


def test_a_power_is_a_product():
    assert_exact(powers(torch.tensor(-0.5), 3), torch.tensor([1, -0.5, 0.25, -0.125]))
    assert_exact(powers(torch.tensor([2.0]), 0), torch.tensor([1.0]))


def test_powers_of_zero_have_the_right_gradient():
    # d/db (7 + 5 b + 3 b^2 + 2 b^3) is 5 at b = 0, where dividing by b would give NaN
    base = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (exactly(7, 5, 3, 2) * powers(base, 3)).sum().backward()
    assert_exact(base.grad, torch.tensor(5.0, dtype=torch.float64))
    torch.autograd.gradcheck(lambda b: powers(b, 4), base)
    torch.autograd.gradgradcheck(lambda b: powers(b, 4), base + 0.5)


@pytest.mark.parametrize("held", [0, 1, 2])
def test_what_is_yet_to_come_has_no_power(held):
    base = torch.tensor(3.0, requires_grad=True)
    for steps in (Exponents.of(torch.tensor([2, -1])), Exponents.known((2, -1), base.device)):
        found = raised(base * held, steps)
        assert_exact(found, torch.tensor([9.0 * held**2, 0.0]))
        assert_exact(torch.autograd.grad(found.sum(), base)[0], torch.tensor(6.0 * held**2))


def test_what_is_left_at_an_end_counts_from_the_end_before():
    assert_exact(decay(0.5, 5).between([1, 2, 5]), exactly([0.5, 0.5, 0.125]))
    ended = decay(0.5, 5, torch.tensor([5, 1])).between([1, 2, 5])
    assert_exact(ended, exactly([0.5, 0.5, 0.125], [0.5, 1.0, 1.0]))


def test_nothing_is_left_behind_the_last_stretch():
    assert_exact(decay(0.5, 4).stretches([2, 3], until=4), exactly([0.5, 1.0, 1.0, 0.0]))
    ended = decay(0.5, 4, torch.tensor([4, 1])).stretches([2, 3], until=4)
    assert_exact(ended, exactly([0.5, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]))


def test_folding_adds_what_every_step_added():
    found = rel.fold(HELD, rel.stacked([FIRST, SECOND]), decay(1.0, 2), 0)
    assert_exact(found, exactly([[113.0, -6.0], [6.0, 208.0]])[None])


def test_folding_fades_what_was_before():
    # half of half of what was held, half of the first step, all of the second
    found = rel.fold(HELD, rel.stacked([FIRST, SECOND]), decay(0.5, 2), 0)
    assert_exact(found, exactly([[25 + 1.5 + 10, 2.0 - 10], [3.0, 50 + 4.0]])[None])


def test_folding_stops_where_a_row_ends():
    both = [rel.Factors(*(torch.cat([part] * 3) for part in each)) for each in (FIRST, SECOND)]
    lengths = torch.tensor([0, 1, 2])
    found = rel.fold(HELD, rel.stacked(both), decay(0.5, 2, lengths), 0)
    right = [
        [[[100.0, 0.0], [0.0, 200.0]]],
        [[[50 + 3.0, 4.0], [6.0, 100 + 8.0]]],
        [[[25 + 1.5 + 10, 2.0 - 10], [3.0, 50 + 4.0]]],
    ]
    assert_exact(found, exactly(*right))


def test_folding_later_steps_counts_from_where_they_are():
    lengths = torch.tensor([1])
    ended = rel.fold(HELD, rel.stacked([SECOND]), decay(0.5, 2, lengths), 1)
    assert_exact(ended, HELD.view(1, 1, 2, 2))
    going_on = rel.fold(HELD, rel.stacked([SECOND]), decay(0.5, 2, torch.tensor([2])), 1)
    assert_exact(going_on, exactly([[60.0, -10.0], [0.0, 100.0]])[None])


def test_memories_are_laid_out_at_the_asked_steps_and_at_the_end():
    fading = decay(0.5, 3)
    steps = [FIRST, SECOND, FIRST]
    wanted, last = rel.memories(HELD, rel.stacked(steps), fading, [0, 1])
    after_first = exactly([[50 + 3.0, 4.0], [6.0, 100 + 8.0]])[None]
    after_second = exactly([[36.5, -8.0], [3.0, 54.0]])[None]
    assert_exact(wanted, [after_first, after_second])
    assert_exact(last, after_second / 2 + exactly([[3.0, 4.0], [6.0, 8.0]]))
    nothing, same = rel.memories(HELD, rel.stacked(steps), fading, [])
    assert nothing == []
    assert_exact(same, last)
    [only], end = rel.memories(HELD, rel.stacked(steps), fading, [2])
    assert_exact((only, end), (last, last))


def test_a_low_rank_map_is_the_map_of_the_whole_memory():
    # two queries: the match (1, 2 | 3, 4) times (1, 0 | 0, 1) and (1, 1 | 1, 1)
    matches = exactly([[1.0, 2.0], [3.0, 4.0]])[None]
    weight = exactly([1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert_exact(rel.low_rank(matches, weight), exactly([5.0, 10.0])[None])
    # so times the values it is what the map gives of the memory laid out, value by value
    laid_out = matches[0, 0].flatten()[:, None] * exactly([7.0, -1.0])
    assert_exact(weight @ laid_out, exactly([35.0, -5.0], [70.0, -10.0]))


def test_reading_values_contracts_the_keys():
    memory = exactly([[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 40.0]])[None]
    address, cue = exactly([0.25, 0.75])[None], exactly([1.0, -1.0])[None]
    # row 0 minus row 1 is (-2, -2) in the first slice and (-20, -20) in the second
    assert_exact(rel.read_values(memory, address, cue), exactly([-15.5, -15.5])[None])


def test_reading_keys_contracts_the_values():
    memory = exactly([[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 40.0]])[None]
    address, cue = exactly([0.25, 0.75])[None], exactly([1.0, -2.0])[None]
    # column 0 minus twice column 1 is (-3, -5) in the first slice and (-30, -50) in the second
    assert_exact(rel.read_keys(memory, address, cue), exactly([-23.25, -38.75])[None])


def test_a_push_of_one_step_is_what_it_adds_to_reads():
    # the first step added [[3, 4], [6, 8]]: by its keys, or by its values
    address, cue = exactly([0.5])[None], exactly([1.0, 1.0])[None]
    assert_exact(rel.push_values(FIRST, address, cue), exactly([4.5, 6.0])[None])
    assert_exact(rel.push_keys(FIRST, address, cue), exactly([3.5, 7.0])[None])


@pytest.mark.parametrize(
    ("read", "push"), [(rel.read_values, rel.push_values), (rel.read_keys, rel.push_keys)]
)
@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 4),
    keep=st.sampled_from([0.0, 1.0, 0.3, -0.5]),
    together=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_a_read_of_the_folded_memory_is_the_first_read_and_all_pushes(
    read, push, sizes, keep, together, seed
):
    batch, queries, width, later = sizes
    torch.manual_seed(seed)
    drawn = {"dtype": torch.float64}
    held = torch.randn(1 if together else batch, queries, width, width, **drawn)
    steps = [
        rel.factors(torch.randn(batch, 3 * queries, width, **drawn), gain=0.7) for _ in range(3)
    ]
    address = torch.randn(batch, later, queries, **drawn).softmax(-1)
    cue = torch.randn(batch, later, width, **drawn)
    folded = rel.fold(held, rel.stacked(steps), decay(keep, 3), 0)
    pushed = keep**3 * read(held, address, cue)
    for age, step in zip((2, 1, 0), steps, strict=True):
        pushed = pushed + keep**age * push(step, address, cue)
    assert_exact(read(folded, address, cue), pushed)


def test_rows_of_an_expanded_memory_are_one():
    memory = torch.randn(1, 2, 3, dtype=torch.float64)
    assert_exact(rel.shared(memory.expand(4, 2, 3)), memory, within=0)
    apart = memory.repeat(4, 1, 1)
    assert rel.shared(apart) is apart
    learned = memory[0].clone().requires_grad_()
    for rows in (learned.expand(4, 2, 3), learned[:1].expand(4, 1, 2, 3)[:, 0]):
        assert_exact(rel.shared(rows)[0], rows[0], within=0)
        total = rel.shared(rows).square().sum()
        assert_exact(torch.autograd.grad(total, learned)[0].sum(), 2 * rows[0].sum())
    rows = torch.randn(4, 5, 2, dtype=torch.float64)
    assert_exact(rel.times(rows, memory), rel.times(rows, apart))
