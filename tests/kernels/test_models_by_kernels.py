"""Both STMs by their kernels: as accurate as by PyTorch's operations, chunks, ends and answers included."""

import pytest
import torch
from accuracy import assert_as_accurate
from place import DEVICE

from twomem import models
from twomem.ops.choice import without_kernels

LENGTHS = torch.tensor([50, 3, 49])
ASKED = {"some": torch.arange(50) % 7 == 6, "the last": torch.arange(50) == 49}


def learned(name, asked, seed, dtype):
    torch.manual_seed(seed)
    model = models.load(name, width=9, queries=3, distilled=4).build(5, 4)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.startswith("alpha"):
                parameter.fill_(0.1)
    xs = torch.randn(50, 3, 5)
    model, xs = model.to(DEVICE, dtype), xs.to(DEVICE, dtype)
    ys, state = model(xs, lengths=LENGTHS, asked=ASKED[asked])
    total = ys.square().sum() + sum(part.square().sum() for part in state)
    grads = torch.autograd.grad(total, list(model.parameters()))
    # a single number may be small by chance beside its rounding; all of them together are not
    numbers = torch.stack([grad.sum() for grad in grads if grad.numel() == 1])
    rest = [grad for grad in grads if grad.numel() > 1]
    return {"answers": ys.detach(), "state": list(state), "gradients": [numbers, *rest]}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", ["stm", "stm_released"])
def test_a_model_is_as_accurate_by_its_kernels(name, asked):
    def fast(seed, dtype):
        return learned(name, asked, seed, dtype)

    def plain(seed, dtype):
        with without_kernels():
            return learned(name, asked, seed, dtype)

    assert_as_accurate(fast, plain, range(3))
