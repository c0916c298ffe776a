"""Powers of one number: their formula is the truth."""

import pytest
import torch
from accuracy import assert_exact
from place import DEVICE

from twomem.kernels.powers import powers


@pytest.mark.parametrize("base", [0.0, 1.0, -0.7, 0.9])
@pytest.mark.parametrize(("rows", "count"), [(0, 5), (3, 5), (300, 40)])
def test_powers_and_their_gradient_are_those_of_the_formula(base, rows, count):
    of = torch.tensor([base], device=DEVICE, requires_grad=True)
    steps = torch.arange(-2, count - 2, device=DEVICE)
    found = powers(of, steps, rows)
    weights = torch.rand(found.shape, device=DEVICE)
    (grad,) = torch.autograd.grad((found * weights).sum(), of)

    exact = torch.tensor([base], dtype=torch.float64, requires_grad=True)
    up = steps.clamp(min=0).cpu()
    terms = [exact**each if step >= 0 else 0 * exact for each, step in zip(up, steps, strict=True)]
    truth = torch.cat(terms)
    (right,) = torch.autograd.grad((truth * weights.cpu()).sum(), exact)
    assert_exact(found.detach().cpu(), truth.detach().expand(found.shape).float(), within=1e-6)
    assert_exact(grad.cpu(), right.float(), within=1e-5)


def test_they_are_registered_rightly():
    of = torch.tensor([0.5], device=DEVICE, requires_grad=True)
    given = (of, torch.arange(4, device=DEVICE), 2)
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(powers, given, test_utils=tests)
