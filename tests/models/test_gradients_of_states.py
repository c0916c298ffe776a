"""A gradient can be asked of any state that is given, the first one included."""

import pytest
import torch
from accuracy import assert_exact

from twomem import models


@pytest.mark.parametrize("name", ["stm", "stm_released"])
def test_the_first_state_has_a_gradient_if_it_is_given(name):
    model = models.load(name, width=5, queries=2, distilled=3).build(4, 3).double()
    xs = torch.randn(3, 2, 4, dtype=torch.float64)
    state = model.initial_state(2)
    ys, _ = model(xs, state)
    learned = [model.get_parameter(key) for key, _ in model.named_parameters()]
    memories = [x for x in learned if x.shape in {part.shape[1:] for part in state}]
    found = torch.autograd.grad(ys.square().sum(), [*state, *memories], allow_unused=True)
    own = torch.autograd.grad(model(xs)[0].square().sum(), memories, allow_unused=True)
    of_rows = {grad.shape[1:]: grad.sum(0) for grad in found[: len(state)]}
    for memory, given, left_out in zip(memories, found[len(state) :], own, strict=True):
        assert_exact(given, left_out)
        if memory.ndim > 2:
            assert_exact(of_rows[memory.shape], left_out)
