"""STM of one number in each memory, worked out by hand.

Normalising a single number leaves nothing of it, so queries, keys and values are their biases.
"""

from math import exp, log, tanh

import pytest
import torch
from accuracy import assert_exact

from twomem import STM, STMReleased, models

# the logistic function of ln 3 is 3/4 and of -ln 3 is 1/4; tanh(ln 2) is 3/5
PLANTED = {
    "alpha1": 0.5,
    "alpha2": 0.7,  # what is read back is normalised away
    "alpha3": 2.0,
    "left.weight": [[2.0]],
    "left.bias": [1.0],
    "right.weight": [[1.0]],
    "right.bias": [1.0],
    "address.weight": [[9.0]],
    "address.bias": [9.0],
    "gate_input.weight": [[1.0], [-1.0]],
    "gate_memory.weight": [[5.0], [10.0]],
    "gate_bias": [log(3) - 6, -log(3) - 3],
    "project.weight": [[1.0], [2.0], [3.0]],
    "norm_gain": [[4.0], [5.0], [6.0]],
    "norm_bias": [[2.0], [log(2) / 2], [5.0]],
    "transfer.weight": [[3.0]],
    "transfer.bias": [1.0],
    "distil.weight": [[2.0]],
    "distil.bias": [-1.0],
    "output.weight": [[0.1]],
    "output.bias": [0.5],
    "first_items": [[log(2)]],
    "first_relations": [[[4.0]]],
}


def planted(**changed):
    memory = STM(1, 1, queries=1, width=1, distilled=1).double()
    values = {**PLANTED, **changed}
    memory.load_state_dict({k: torch.tensor(v, dtype=torch.float64) for k, v in values.items()})
    return memory


def number(value, axes):
    return torch.full((1,) * axes, value, dtype=torch.float64)


def results(y, items, relations):
    return number(y, 2), number(items, 3), number(relations, 4)


# x = 1: f1 = 3, f2 = 2, X = 6
# I = sigma(1*3 + 5*3/5 + ln 3 - 6) = 3/4 and F = sigma(-1*3 + 10*3/5 - ln 3 - 3) = 1/4
# M^i = ln 2 / 4 + 3/4 * 6; SAM = tanh(2 * ln 2 / 2) * 5 = 3; M^r = 4 + 3/2
# the transfer adds 2 * (3 * 5.5 + 1) = 35, and the answer is 0.1 * (2 * 5.5 - 1) + 0.5
FIRST = (1.5, 35 + 4.5 + log(2) / 4, 5.5)


def test_a_step_by_hand():
    y, state = planted().step(number(1.0, 2))
    assert_exact((y, *state), results(*FIRST))


def test_a_second_step_by_hand():
    # x = -1/2: f1 = 0, f2 = 1/2, X = 0; only the forget gate and the transfer touch M^i
    _, items, _ = FIRST
    keep = 1 / (1 + exp(log(3) + 3 - 10 * tanh(items)))
    second = (0.1 * (2 * 7 - 1) + 0.5, keep * items + 2 * (3 * 7 + 1), 5.5 + 1.5)
    xs = torch.tensor([[[1.0]], [[-0.5]]], dtype=torch.float64)
    ys, state = planted()(xs)
    assert_exact((ys[1], *state), results(*second))
    assert_exact(ys[0], number(FIRST[0], 2))


def test_ungated_the_input_is_added():
    memory = STM(1, 1, queries=1, width=1, distilled=1, gates=False, transfer=False).double()
    own = memory.state_dict().keys()
    memory.load_state_dict(
        {k: torch.tensor(v, dtype=torch.float64) for k, v in PLANTED.items() if k in own}
    )
    y, state = memory.step(number(1.0, 2))
    assert_exact((y, *state), results(1.5, log(2) + 6, 5.5))


def test_fixed_blends_are_no_parameters():
    memory = STM(1, 1, queries=1, width=1, distilled=1, alphas=(0.5, 0, 2.0)).double()
    own = memory.state_dict().keys()
    left_out = {"alpha1", "alpha2", "alpha3", "address.weight", "address.bias"}
    assert set(PLANTED) - set(own) == left_out
    memory.load_state_dict({k: torch.tensor(PLANTED[k], dtype=torch.float64) for k in own})
    y, state = memory.step(number(1.0, 2))
    assert_exact((y, *state), results(*FIRST))


def test_sizes_by_hand():
    d, n, out = 7, 3, 5
    memory = STM(2, 4, queries=n, width=d, distilled=out)
    hears = 2 * (2 * d + d) + (2 * n + n)
    gates = 2 * (2 * d * d) + 2
    relates = 3 * n * d + 2 * (3 * n * d)
    answers = (n * d * d + d) + (d * d * out + out) + (n * out * 4 + 4)
    first = d * d + n * d * d
    assert memory.parameter_count == 3 + hears + gates + relates + answers + first
    assert memory.state_size == first


def test_sizes_of_the_released_model_by_hand():
    d, n, r, a, m = 7, 3, 5, 6, 8
    memory = STMReleased(2, 4, queries=n, width=d, distilled=r, bottleneck=a, head=m)
    hears = 2 * (2 * d + d) + (2 * n + n)
    gates = 2 * (d * 2 * d + 2 * d) + 2
    relates = (3 * n * d + 3 * n) + 2 * (3 * n * d)
    distils = (n * d * d + d) + (d * d * r + r) + (n * r * a + a)
    answers = (a * m + m) + (m * m + m) + (m * 4 + 4)
    first = d * d + n * d * d
    assert memory.parameter_count == 3 + hears + gates + relates + distils + answers + first
    assert memory.state_size == first


def test_the_defaults_are_the_papers():
    config = models.load("stm")
    assert (config.queries, config.width, config.distilled) == (8, 96, 96)
    assert (config.gates, config.transfer, config.alphas) == (True, True, (None, None, None))
    memory = STM(2, 2, width=2)
    start = [memory.alpha1.item(), memory.alpha2.item(), memory.alpha3.item()]
    assert start == pytest.approx([1, 0.1, 0])
    assert memory.gate_bias.tolist() == [0, 1]
