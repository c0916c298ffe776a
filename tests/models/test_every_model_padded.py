"""What holds for every model when rows end early, when few answers are asked, and when packed."""

import pytest
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st
from models.contract import check_lengths, check_reading, draw, row_of, small, some_state, truth
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils._pytree import tree_leaves

from twomem import models

every = pytest.mark.parametrize("name", models.names())
seeds = st.integers(0, 2**16)
TIME, BATCH = 6, 3
some_lengths = st.lists(st.integers(1, TIME), min_size=BATCH, max_size=BATCH)
some_marks = st.lists(st.booleans(), min_size=TIME * BATCH, max_size=TIME * BATCH)
some_asked = st.lists(st.booleans(), min_size=TIME, max_size=TIME).filter(any)


@every
@given(lengths=some_lengths, seed=seeds)
def test_what_stands_behind_a_row_changes_nothing(name, lengths, seed):
    check_lengths(small(name, seed), draw(TIME, BATCH), lengths)


@every
@given(lengths=some_lengths, seed=seeds)
def test_a_row_with_a_length_is_the_row_alone(name, lengths, seed):
    memory = small(name, seed)
    xs, state = draw(TIME, BATCH), some_state(memory, BATCH)
    ys, last = memory(xs, state, lengths=lengths)
    for row, length in enumerate(lengths):
        alone, own = memory(xs[:length, row : row + 1], row_of(state, row))
        assert_exact(ys[:length, row : row + 1], alone, f"row {row}")
        assert_exact(row_of(last, row), own, f"last state of row {row}")
        assert not ys[length:, row].any()


@every
def test_parameters_learn_the_same_from_padded_rows_as_from_rows_alone(name):
    memory, xs, lengths = small(name), draw(TIME, BATCH), [2, 6, 3]
    weights = torch.randn(TIME, BATCH, 4, dtype=torch.float64)
    own = dict(memory.named_parameters())
    ys, last = memory(xs, lengths=lengths)
    right, right_last = truth(memory, xs, lengths=lengths)
    grads = [
        torch.autograd.grad(
            (weights * outs).sum() + sum(part.square().sum() for part in tree_leaves(state)),
            list(own.values()),
        )
        for outs, state in ((ys, last), (right, right_last))
    ]
    assert_exact(dict(zip(own, grads[0], strict=True)), dict(zip(own, grads[1], strict=True)))


@every
@given(lengths=some_lengths, flat=some_marks, asked=some_asked, seed=seeds)
def test_lengths_restarts_and_asked_go_together(name, lengths, flat, asked, seed):
    # marks behind a row's end are among them, and must not touch its last state
    memory = small(name, seed)
    marks = torch.tensor(flat).view(TIME, BATCH)
    xs, state = draw(TIME, BATCH), some_state(memory, BATCH)
    check_reading(memory, xs, state, torch.tensor(asked), lengths=lengths, restarts=marks)


@every
@pytest.mark.parametrize("as_what", [list, tuple, torch.tensor, torch.IntTensor])
def test_lengths_may_be_numbers_or_a_tensor(name, as_what):
    memory, xs = small(name), draw(4)
    assert_exact(memory(xs, lengths=as_what([4, 2])), truth(memory, xs, lengths=[4, 2]))


@every
@given(asked=some_asked, seed=seeds)
def test_asked_gives_those_answers_and_their_gradients(name, asked, seed):
    memory, asked = small(name, seed), torch.tensor(asked)
    xs, state = draw(TIME, requires_grad=True), some_state(memory)
    inputs = [xs, *(part.requires_grad_() for part in tree_leaves(state))]
    inputs += memory.parameters()
    weights = torch.randn(int(asked.sum()), 2, 4, dtype=torch.float64)
    few, last = memory(xs, state, asked=asked)
    every_one, full_last = memory(xs, state)
    assert_exact((few, last), (every_one[asked], full_last))
    grads = [
        torch.autograd.grad((weights * ys).sum(), inputs, materialize_grads=True)
        for ys in (few, every_one[asked])
    ]
    assert_exact(*grads, "gradients")


def packed(xs, lengths, **how):
    return pack_padded_sequence(xs, torch.tensor(lengths), enforce_sorted=False, **how)


@every
@given(lengths=some_lengths, seed=seeds)
def test_a_packed_sequence_is_a_padded_one_with_lengths(name, lengths, seed):
    memory = small(name, seed)
    xs, state = draw(max(lengths), BATCH), some_state(memory, BATCH)
    out, last = memory(packed(xs, lengths), state)
    assert isinstance(out, PackedSequence)
    ys, own_lengths = pad_packed_sequence(out)
    assert own_lengths.tolist() == lengths
    assert_exact((ys, last), memory(xs, state, lengths=lengths))


@every
def test_a_packed_answer_is_sorted_as_its_input(name):
    memory, xs = small(name), draw(4, BATCH)
    for given_in in (packed(xs, [2, 4, 3]), pack_padded_sequence(xs, torch.tensor([4, 3, 1]))):
        out, _ = memory(given_in)
        assert torch.equal(out.batch_sizes, given_in.batch_sizes)
        for ours, theirs in zip(out[2:], given_in[2:], strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or torch.equal(ours, theirs)


@every
@given(lengths=some_lengths, asked=some_asked, seed=seeds)
def test_a_packed_answer_has_what_each_row_is_asked(name, lengths, asked, seed):
    memory, longest = small(name, seed), max(lengths)
    xs, asked = draw(longest, BATCH), torch.tensor(asked)[:longest]
    counts = [int(asked[:length].sum()) for length in lengths]
    if min(counts) == 0:
        row = counts.index(0)
        what = "asked marks no step" if not asked.any() else f"asked marks no step of row {row}"
        with pytest.raises(ValueError, match=what):
            memory(packed(xs, lengths), asked=asked)
        return
    out, last = memory(packed(xs, lengths), asked=asked)
    ys, answered = pad_packed_sequence(out)
    right, right_last = truth(memory, xs, lengths=lengths)
    assert answered.tolist() == counts
    for row, length in enumerate(lengths):
        wanted = right[:length, row][asked[:length]]
        assert_exact(ys[: counts[row], row], wanted, f"row {row}")
    assert_exact(last, right_last, "last state")


@every
def test_a_packed_row_may_restart(name):
    memory, xs = small(name), draw(4, BATCH)
    marks = torch.zeros(4, BATCH, dtype=torch.bool)
    marks[1, 0], marks[3, 1], marks[3, 2] = True, True, True
    out, last = memory(packed(xs, [2, 4, 3]), restarts=marks)
    right = truth(memory, xs, restarts=marks, lengths=[2, 4, 3])
    assert_exact((pad_packed_sequence(out)[0], last), right)
