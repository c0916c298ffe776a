"""The LSTM: its formula in NumPy, and a case worked out by hand."""

from math import log

import numpy as np
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st
from models.contract import perturbed

from twomem import LSTM

sizes = st.integers(1, 5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def in_numpy(memory, xs, hidden, cell):
    """Answers and the last state, row by row, by the formula."""
    p = {name.removeprefix("lstm."): value.numpy() for name, value in memory.state_dict().items()}
    ys = np.zeros((*xs.shape[:2], memory.output_size))
    hidden, cell = hidden.copy(), cell.copy()
    for t, row in np.ndindex(*xs.shape[:2]):
        heard = p["weight_ih_l0"] @ xs[t, row] + p["bias_ih_l0"]
        remembered = p["weight_hh_l0"] @ hidden[row] + p["bias_hh_l0"]
        take, keep, new, show = np.split(heard + remembered, 4)
        cell[row] = sigmoid(keep) * cell[row] + sigmoid(take) * np.tanh(new)
        hidden[row] = sigmoid(show) * np.tanh(cell[row])
        ys[t, row] = p["output.weight"] @ hidden[row] + p["output.bias"]
    return tuple(map(torch.from_numpy, (ys, hidden, cell)))


@given(widths=st.tuples(sizes, sizes, sizes), batch=st.integers(1, 3), time=st.integers(1, 6))
def test_it_is_the_formula_in_numpy(widths, batch, time):
    inputs, hidden, outputs = widths
    memory = perturbed(LSTM(inputs, outputs, hidden=hidden).double())
    xs = torch.randn(time, batch, inputs, dtype=torch.float64)
    with torch.no_grad():
        ys, state = memory(xs)
        first = [part.numpy() for part in memory.initial_state(batch)]
        assert_exact((ys, *state), in_numpy(memory, xs.numpy(), *first), within=1e-12)


# the logistic function of ln 3 is 3/4 and of -ln 3 is 1/4; tanh(ln 2) is 3/5 and tanh(ln 3) is 4/5
PLANTED = {
    "lstm.weight_ih_l0": [[log(3)], [0.0], [0.0], [0.0]],  # i hears the input, which is 1
    "lstm.weight_hh_l0": [[0.0], [0.0], [0.0], [-log(3)]],  # o hears the hidden state, which is 1
    "lstm.bias_ih_l0": [0.0, 0.0, 1.0, 0.0],
    "lstm.bias_hh_l0": [0.0, 0.0, log(2) - 1, 0.0],  # both biases of g together are ln 2
    "output.weight": [[10.0]],
    "output.bias": [1.0],
    "first_hidden": [1.0],
    "first_cell": [2 * (log(3) - 0.45)],
}


def test_a_step_by_hand():
    memory = LSTM(1, 1, hidden=1).double()
    memory.load_state_dict({k: torch.tensor(v, dtype=torch.float64) for k, v in PLANTED.items()})
    one = torch.ones(1, 1, dtype=torch.float64)
    y, stepped = memory.step(one)
    ys, read = memory(one[None])
    # i = 3/4, f = 1/2, g = 3/5, o = 1/4: s = (ln 3 - 0.45) + 3/4 * 3/5 = ln 3, h = 1/4 * 4/5
    right = (3 * one, 0.2 * one, log(3) * one)
    assert_exact((y, *stepped), right)
    assert_exact((ys[0], *read), right)


def test_sizes_by_hand():
    # 4 gates of 5 hear 3 inputs and 5 hidden numbers, with two biases; 2 answers; two first states
    memory = LSTM(3, 2, hidden=5)
    assert memory.parameter_count == 4 * 5 * (3 + 5) + 2 * 4 * 5 + (2 * 5 + 2) + 2 * 5
    assert memory.state_size == 5 + 5


def test_the_default_is_the_papers_size_and_starts_from_zero():
    memory = LSTM(3, 2)
    assert memory.config.hidden == 512
    assert not any(part.any() for part in memory.initial_state(2))
