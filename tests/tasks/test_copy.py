"""Copy: examples written out by hand, its lengths, and its loss by NumPy."""

import numpy as np
import pytest
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st

from twomem.core.errors import SettingsError
from twomem.core.task import Batch
from twomem.tasks.copy import Copy

# two bits, three symbols, one row; the two last channels are the marks
INPUTS = [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1], *[[0, 0, 0, 0]] * 3]
TARGETS = [*[[0, 0]] * 5, [1, 0], [0, 1], [1, 1]]
ASKED = [0, 0, 0, 0, 0, 1, 1, 1]


def example():
    inputs, targets = (torch.tensor(rows)[:, None].float() for rows in (INPUTS, TARGETS))
    return Batch(inputs, targets, torch.tensor(ASKED)[:, None].bool())


def test_the_oracle_says_again_what_was_read():
    answer = Copy(bits=2).oracle(example().inputs)
    assert_exact((answer[5:] > 0).float(), torch.tensor(TARGETS[5:])[:, None].float())
    assert Copy(bits=2).labels(example().inputs[:, 0]) == ["<", "1", "2", "3", ">", ".", ".", "."]


def test_wrong_bits_are_counted():
    # one bit of the first symbol and both of the last are wrong: 3 bits, 1 symbol of 3 is right
    said = torch.tensor([[2.0, 0.1], [-1.0, 3.0], [-1.0, -2.0]])[:, None]
    score = Copy(bits=2).score(said, example())
    assert score == {"bit_errors": 3.0, "items_perfect": pytest.approx(100 / 3)}


@given(bits=st.integers(1, 5), length=st.integers(1, 6), count=st.integers(1, 3))
def test_what_is_drawn_is_the_symbols_between_marks_and_then_silence(bits, length, count):
    task = Copy(bits=bits, shortest=length, longest=length)
    inputs, targets, asked, _ = task.draw(count, task.generator(3))
    for row in range(count):
        symbols = inputs[1 : length + 1, row, :bits].tolist()
        assert {bit for symbol in symbols for bit in symbol} <= {0.0, 1.0}
        silence = [0.0] * bits
        read = [[*silence, 1, 0], *([*s, 0, 0] for s in symbols), [*silence, 0, 1]]
        assert inputs[:, row].tolist() == [*read, *[[*silence, 0, 0]] * length]
        assert targets[:, row].tolist() == [*[silence] * (length + 2), *symbols]
        assert asked[:, row].tolist() == [False] * (length + 2) + [True] * length


def within_chance(counts, draws, share):
    """Each count is within five standard deviations of its share."""
    spread = (draws * share * (1 - share)) ** 0.5
    return all(abs(count - draws * share) <= 5 * spread for count in counts)


def test_lengths_are_even_over_their_range():
    task, draws = Copy(bits=1, shortest=2, longest=6), 2000
    stream = task.generator(0)
    lengths = [(len(task.draw(1, stream).inputs) - 2) // 2 for _ in range(draws)]
    assert set(lengths) == {2, 3, 4, 5, 6}
    assert within_chance([lengths.count(n) for n in range(2, 7)], draws, 1 / 5)


def test_bits_are_fair_and_each_for_itself():
    task = Copy(bits=2, shortest=20, longest=20)
    inputs = task.draw(200, task.generator(0)).inputs[1:21, :, :2]
    symbols = (inputs @ torch.tensor([2.0, 1.0])).flatten().tolist()
    assert within_chance([symbols.count(value) for value in range(4)], len(symbols), 1 / 4)


def test_chance_of_a_whole_symbol():
    # with few bits a symbol is right by chance often enough to be measured
    task, right = Copy(bits=2, shortest=3, longest=3), []
    stream = task.generator(0)
    for _ in range(200):
        batch = task.draw(10, stream)
        outputs = torch.randn(3, 10, 2)
        right.append(task.score(outputs, batch)["items_perfect"])
    assert task.chance == {"bit_errors": 3.0, "items_perfect": 25.0}
    assert within_chance([sum(right) / 100 * 30], 200 * 30, 1 / 4)


@given(seed=st.integers(0, 2**16))
def test_the_loss_is_the_cross_entropy_of_a_bit(seed):
    task = Copy(bits=3, longest=4)
    batch = task.draw(2, task.generator(seed))
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch.targets.shape, generator=generator, dtype=torch.float64)
    probability = 1 / (1 + np.exp(-logits.numpy()))
    target, asked = batch.targets.numpy(), batch.asked.numpy()
    each = -(target * np.log(probability) + (1 - target) * np.log(1 - probability))
    right = torch.tensor(each[asked].mean(), dtype=torch.float64)
    assert_exact(task.loss(logits, batch), right)


def test_rows_may_be_asked_at_steps_of_their_own():
    # the middle answer of the second row does not count, wrong as it is
    batch = Batch(*(torch.cat([part, part], dim=1) for part in example()[:3]))
    batch.asked[6, 1] = False
    said = 20 * (2 * batch.targets[5:] - 1)
    said[1, 1] *= -1
    assert Copy(bits=2).score(said, batch) == Copy(bits=2).perfect
    assert Copy(bits=2).loss(said, batch) < 1e-6


def test_a_range_that_is_empty_is_refused():
    with pytest.raises(SettingsError, match="shortest is 5, above longest, 4"):
        Copy(shortest=5, longest=4)
    with pytest.raises(SettingsError, match="bits = 0"):
        Copy(bits=0)


def test_the_defaults_are_the_papers():
    task = Copy()
    assert (task.bits, task.shortest, task.longest, task.embedding) == (32, 1, 20, 0)
    assert (task.input_size, task.output_size) == (34, 32)
    assert task.chance["bit_errors"] == 32 * 10.5 / 2
