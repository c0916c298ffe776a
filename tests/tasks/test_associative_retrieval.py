"""Associative retrieval: an example written out by hand, what is drawn, and its loss by NumPy."""

from string import ascii_lowercase, digits

import numpy as np
import pytest
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st

from twomem.core.errors import SettingsError
from twomem.core.task import Batch
from twomem.tasks.associative_retrieval import AssociativeRetrieval

SYMBOLS = ascii_lowercase + digits + "?"
seeds = st.integers(0, 2**16)


def written(*rows):
    """One-hot inputs of rows of symbols."""
    numbers = torch.tensor([[SYMBOLS.index(each) for each in row] for row in rows])
    return torch.eye(37)[numbers].transpose(0, 1)


def spoken(inputs):
    """The rows of symbols of one-hot inputs."""
    assert (inputs.sum(-1) == 1).all()
    assert ((inputs == 0) | (inputs == 1)).all()
    return ["".join(SYMBOLS[i] for i in row) for row in inputs.argmax(-1).T.tolist()]


def answered(*row_digits):
    """Sure answers at the last step, for each row."""
    return 20 * torch.eye(10)[[int(digit) for digit in row_digits]][None]


def example():
    inputs = written("c9k8j3f1??c", "a0b0z7q7??z")
    targets = torch.zeros(11, 2, 10)
    targets[-1, 0, 9] = targets[-1, 1, 7] = 1
    asked = torch.zeros(11, 2, dtype=torch.bool)
    asked[-1] = True
    return Batch(inputs, targets, asked)


def test_the_oracle_finds_the_digit_behind_the_letter():
    task, batch = AssociativeRetrieval(pairs=4), example()
    assert_exact(task.oracle(batch.inputs)[-1:], answered("9", "7"), within=0)
    assert task.labels(batch.inputs[:, 0]) == list("c9k8j3f1??c")


@pytest.mark.parametrize(("said", "accuracy"), [("97", 100), ("90", 50), ("17", 50), ("79", 0)])
def test_digits_that_are_right_are_counted(said, accuracy):
    assert AssociativeRetrieval(pairs=4).score(answered(*said), example()) == {"accuracy": accuracy}


@given(pairs=st.integers(1, 26), seed=seeds)
def test_what_is_drawn_is_pairs_then_two_marks_then_a_letter_of_them(pairs, seed):
    task = AssociativeRetrieval(pairs=pairs)
    inputs, targets, asked, _ = task.draw(4, task.generator(seed))
    for row, text in enumerate(spoken(inputs)):
        letters, values = text[: 2 * pairs : 2], text[1 : 2 * pairs : 2]
        assert len(text) == 2 * pairs + 3
        assert set(letters) <= set(ascii_lowercase)
        assert len(set(letters)) == pairs, "a letter stands twice"
        assert set(values) <= set(digits)
        assert text[2 * pairs : -1] == "??"
        right = values[letters.index(text[-1])]
        assert targets[-1, row].tolist() == torch.eye(10)[int(right)].tolist()
    assert not targets[:-1].any()
    assert asked.nonzero()[:, 0].tolist() == [len(inputs) - 1] * 4


def evenly(values, kinds):
    """Each kind comes as often as the others, within five standard deviations."""
    share = 1 / len(kinds)
    spread = (len(values) * share * (1 - share)) ** 0.5
    assert set(values) == set(kinds)
    for kind in kinds:
        assert abs(values.count(kind) - len(values) * share) <= 5 * spread, kind


def test_letters_digits_and_the_asked_pair_are_even():
    task = AssociativeRetrieval(pairs=3)
    texts = spoken(task.draw(3000, task.generator(0)).inputs)
    for place in (0, 2, 4):
        evenly([text[place] for text in texts], ascii_lowercase)
        evenly([text[place + 1] for text in texts], digits)
    evenly([text.index(text[-1]) // 2 for text in texts], range(3))


@given(seed=seeds)
def test_the_loss_is_the_cross_entropy_of_the_digit(seed):
    task = AssociativeRetrieval(pairs=3)
    batch = task.draw(5, task.generator(seed))
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, 5, 10, generator=generator, dtype=torch.float64)
    scores, right = logits[0].numpy(), batch.targets[-1].argmax(-1).numpy()
    each = np.log(np.exp(scores).sum(1)) - scores[np.arange(5), right]
    assert_exact(task.loss(logits, batch), torch.tensor(each.mean(), dtype=torch.float64))


def test_saying_nothing_costs_the_logarithm_of_ten():
    loss = AssociativeRetrieval(pairs=4).loss(torch.zeros(11, 2, 10), example())
    assert loss.item() == pytest.approx(np.log(10))


@pytest.mark.parametrize("pairs", [0, 27])
def test_more_pairs_than_letters_are_refused(pairs):
    with pytest.raises(SettingsError, match=f"pairs = {pairs}"):
        AssociativeRetrieval(pairs=pairs)


def test_the_papers_lengths():
    # L symbols: the pairs, and the two marks; the asked letter follows
    for length, pairs in ((30, 14), (50, 24)):
        task = AssociativeRetrieval(pairs=pairs)
        assert len(task.draw(1, task.generator(0)).inputs) == length + 1
    assert AssociativeRetrieval().pairs == 14
    assert (task.input_size, task.output_size) == (37, 10)
