"""What holds for every file in twomem/models: the recurrence, and where it starts afresh."""

import pytest
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st
from models.contract import (
    by_steps,
    check_cut,
    check_reading,
    check_restart,
    check_rows,
    check_steps,
    check_time,
    draw,
    row_of,
    small,
    some_state,
)
from torch.utils._pytree import tree_leaves, tree_map

from twomem import detach, models, restart
from twomem.ops.relations import CHUNK

every = pytest.mark.parametrize("name", models.names())
seeds = st.integers(0, 2**16)
LONG = 130


@every
def test_a_sequence_is_its_own_steps(name):
    check_steps(small(name), draw(7))


@every
@given(cut=st.integers(1, 7), seed=seeds)
def test_a_sequence_may_be_cut_anywhere(name, cut, seed):
    check_cut(small(name, seed), draw(8), cut)


@every
@given(seed=seeds)
def test_rows_of_a_batch_do_not_meet(name, seed):
    check_rows(small(name, seed), draw(5, batch=3))


@every
def test_a_row_gets_no_gradient_from_another(name):
    xs = draw(4, batch=3, requires_grad=True)
    ys, _ = small(name)(xs)
    (heard,) = torch.autograd.grad(ys[:, 1].sum(), xs)
    assert heard[:, 1].any()
    assert not heard[:, [0, 2]].any()


@every
def test_nothing_is_seen_before_its_time(name):
    check_time(small(name), 5)


@every
def test_reading_goes_on_from_a_given_state(name):
    memory = small(name)
    state = some_state(memory)
    check_reading(memory, draw(5), state)
    ys, _ = memory(xs := draw(2), state)
    assert not torch.allclose(ys[0], memory(xs)[0][0]), "the state is not read"


@every
@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_restart_forgets_and_the_other_rows_are_kept(name, at):
    check_restart(small(name), draw(5), at)


@every
def test_a_restart_before_the_first_step_forgets_the_given_state(name):
    memory = small(name)
    xs, state = draw(4), some_state(memory)
    marks = torch.zeros(4, 2, dtype=torch.bool)
    marks[0, 1] = True
    ys, _ = memory(xs, state, restarts=marks)
    assert_exact(ys[:, 1], memory(xs)[0][:, 1])
    assert_exact(ys[:, 0], memory(xs, state)[0][:, 0])


@every
def test_a_restart_forgets_even_what_is_not_a_number(name):
    memory = small(name)
    spoilt = tree_map(lambda part: torch.full_like(part, torch.nan), some_state(memory))
    xs, marks = draw(3), torch.tensor([[True, True], [False, False], [False, False]])
    assert_exact(memory(xs, spoilt, restarts=marks), memory(xs))


@every
def test_restart_puts_the_first_state_into_the_marked_rows_only(name):
    memory = small(name)
    fresh, state = memory.initial_state(3), some_state(memory, 3)
    mixed = restart(state, torch.tensor([True, False, True]), fresh)
    for row, source in enumerate((fresh, state, fresh)):
        assert_exact(row_of(mixed, row), row_of(source, row), f"row {row}", within=0)
    assert type(mixed) is type(state)


@every
@given(flat=st.lists(st.booleans(), min_size=12, max_size=12), seed=seeds)
def test_a_restarted_sequence_is_its_pieces_read_apart(name, flat, seed):
    memory = small(name, seed)
    xs, state, marks = draw(6), some_state(memory), torch.tensor(flat).view(6, 2)
    ys, last = memory(xs, state, restarts=marks)
    for row in range(2):
        cuts = marks[:, row].nonzero().flatten().tolist()
        now = row_of(state, row)
        for start, stop in zip([0, *cuts], [*cuts, 6], strict=True):
            now = None if start in cuts else now
            if start < stop:
                piece, now = memory(xs[start:stop, row : row + 1], now)
                assert_exact(ys[start:stop, row : row + 1], piece, f"row {row} from {start}")
        assert_exact(row_of(last, row), now, f"last state of row {row}")


@every
def test_a_long_sequence_is_its_own_steps(name):
    memory, xs = small(name), draw(LONG)
    assert len(xs) > 2 * CHUNK  # the memory is laid out more than once on the way
    check_steps(memory, xs)


@every
def test_in_a_long_sequence_rows_end_and_restart_beside_where_it_is_chunked(name):
    memory, xs = small(name), draw(LONG, batch=4)
    lengths = [CHUNK - 1, CHUNK, CHUNK + 1, LONG]
    marks = torch.zeros(LONG, 4, dtype=torch.bool)
    marks[CHUNK, 2], marks[CHUNK + 7, 3], marks[LONG - 1, 3] = True, True, True
    asked = torch.zeros(LONG, dtype=torch.bool)
    asked[[0, CHUNK - 2, CHUNK - 1, CHUNK, LONG - 1]] = True
    check_reading(memory, xs, some_state(memory, 4), asked, lengths=lengths, restarts=marks)
    check_reading(memory, xs, None, asked, lengths=lengths)


@every
def test_reading_changes_nothing_in_place(name):
    memory = small(name)
    xs, state = draw(4), some_state(memory)
    marks = torch.tensor([[False, True], [True, False], [False, False], [False, True]])
    before = tree_map(torch.clone, (xs, state, marks, memory.state_dict()))
    memory(xs, state, restarts=marks, lengths=[4, 3])
    memory.step(xs[0], state)
    memory.step(xs[0])
    assert_exact((xs, state), before[:2], within=0)
    assert torch.equal(marks, before[2])
    assert_exact(dict(memory.state_dict()), dict(before[3]), within=0)


@every
def test_a_model_remembers_nothing_by_itself(name):
    memory, xs = small(name), draw(4)
    first = memory(xs)
    memory(draw(6, batch=3))
    memory.step(draw(1)[0])
    assert_exact(memory(xs), first, within=0)


@every
def test_detach_cuts_the_gradient_and_keeps_the_values(name):
    memory = small(name)
    _, state = memory(draw(3))
    assert all(part.requires_grad for part in tree_leaves(state))
    for cut in (detach(state), memory.detach(state)):
        assert_exact(cut, state, within=0)
        assert type(cut) is type(state)
        assert not any(part.requires_grad for part in tree_leaves(cut))


@every
def test_a_step_from_no_state_is_a_step_from_the_first_state(name):
    memory, xs = small(name), draw(1)
    assert_exact(memory.step(xs[0]), memory.step(xs[0], memory.initial_state(2)), within=0)
    assert_exact(by_steps(memory, xs), memory(xs), "a sequence of one step")
