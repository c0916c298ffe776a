"""A memory behind an embedding keeps the contract of every memory, and reads rows of its table."""

import pytest
import torch
from accuracy import assert_exact
from models.contract import (
    INPUT,
    OUTPUT,
    check_cut,
    check_lengths,
    check_reading,
    check_restart,
    check_rows,
    check_steps,
    check_time,
    config_of,
    draw,
    perturbed,
    some_state,
)

from twomem import models
from twomem.core.embedding import Embedded

WIDTH = 6
every = pytest.mark.parametrize("name", models.names())


def embedded(name):
    """A small model behind an embedding of as many symbols as inputs are drawn with."""
    torch.manual_seed(0)
    return perturbed(Embedded(INPUT, config_of(name).build(WIDTH, OUTPUT)).double())


@every
def test_it_keeps_the_contract(name):
    memory, xs = embedded(name), draw(5)
    check_steps(memory, xs)
    check_cut(memory, xs, 2)
    check_rows(memory, xs)
    check_time(memory, 4)
    check_restart(memory, xs, 2)
    check_lengths(memory, xs, [5, 2])
    marks = torch.tensor([[False, True]] * 5)
    asked = torch.tensor([True, False, True, True, False])
    check_reading(memory, xs, some_state(memory), asked, restarts=marks, lengths=[3, 5])


@every
def test_the_memory_reads_the_symbols_row_of_the_table(name):
    memory = embedded(name)
    symbols = torch.tensor([[2, 0], [1, 1], [0, 2]])
    table = memory.embed.weight.T
    assert table.shape == (INPUT, WIDTH)
    one_hot = torch.eye(INPUT, dtype=torch.float64)[symbols]
    assert_exact(memory(one_hot), memory.memory(table[symbols]))


@every
def test_it_is_counted_with_its_table(name):
    memory = embedded(name)
    assert memory.parameter_count == INPUT * WIDTH + memory.memory.parameter_count
    assert memory.state_size == memory.memory.state_size
    assert (memory.input_size, memory.output_size) == (INPUT, OUTPUT)


def test_its_vectors_start_as_loud_as_unit_numbers():
    torch.manual_seed(0)
    table = Embedded(100, models.load("lstm", hidden=2).build(100, 1)).embed.weight
    # 10,000 numbers: their mean and spread are known to a part in a hundred
    assert abs(table.mean().item()) < 5 / 100
    assert abs(table.std().item() - 1) < 5 / 100
