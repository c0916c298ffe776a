"""What is not finite is noted once, with its first update, and told when it is asked for."""

import pytest
import torch

from twomem.core.errors import Diverged
from twomem.training.watch import Watch


def watched(*updates, step=0):
    watch = Watch(["a", "b"], step, torch.device("cpu"))
    for loss, a, b in updates:
        watch.note(torch.tensor(loss), [torch.tensor([1.0, a]), torch.tensor([b])])
    return watch


def test_finite_updates_are_passed_over():
    watched((1.0, 2.0, 3.0), (0.0, -1e30, 0.0)).ask()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_the_first_bad_update_and_parameter_are_named(bad):
    watch = watched((1.0, 0.0, 0.0), (1.0, 0.0, bad), (bad, bad, bad), step=10)
    with pytest.raises(Diverged, match="gradient of b is not finite at update 12"):
        watch.ask()


def test_a_bad_loss_is_named_before_its_gradients():
    with pytest.raises(Diverged, match="the loss is not finite at update 1"):
        watched((float("nan"), float("nan"), 0.0)).ask()
