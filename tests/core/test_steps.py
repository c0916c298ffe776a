"""Picking steps is indexing by a list."""

import pytest
import torch

from twomem.core.steps import at_steps


@pytest.mark.parametrize("steps", [[], [0], [3], [1, 2, 3], [0, 2], [0, 1, 3, 4], [0, 1, 2, 3, 4]])
def test_steps_are_picked_as_by_a_list(steps):
    x = torch.arange(10.0).view(5, 2)
    assert torch.equal(at_steps(x, steps), x[steps])
