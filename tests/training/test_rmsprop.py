"""RMSprop over one vector is PyTorch's, bit for bit, and takes over from it."""

import pytest
import torch
from gpu import needs_gpu
from torch import nn, optim

from twomem.core.train import Train
from twomem.training.clipping import clip, clip_as_vector
from twomem.training.rmsprop import RMSprop

SHAPES = ((3, 2), (), (5,), (2, 1, 4))
HOW = {"lr": 0.1, "alpha": 0.9, "momentum": 0.8}


def parameters(seed=0, device="cpu"):
    stream = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=stream).to(device)) for shape in SHAPES]


def give_gradients(held, seed, largest=1.0):
    stream = torch.Generator().manual_seed(seed)
    for each in held:
        each.grad = largest * torch.randn(each.shape, generator=stream).to(each.device)


def moved(rule, held, seeds):
    for seed in seeds:
        give_gradients(held, seed)
        rule.step()
    return [each.detach().clone() for each in held]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_every_update_is_the_same(device):
    own, theirs = (parameters(device=device) for _ in range(2))
    assert all(
        map(
            torch.equal,
            moved(RMSprop(own, **HOW), own, range(5)),
            moved(optim.RMSprop(theirs, **HOW), theirs, range(5)),
        )
    )


@pytest.mark.parametrize(
    ("first", "then"), [(RMSprop, optim.RMSprop), (optim.RMSprop, RMSprop), (RMSprop, RMSprop)]
)
def test_one_goes_on_from_the_state_of_another(first, then):
    whole, parts = parameters(), parameters()
    wanted = moved(optim.RMSprop(whole, **HOW), whole, range(6))
    before = first(parts, **HOW)
    moved(before, parts, range(3))
    after = then(parts, **HOW)
    after.load_state_dict(before.state_dict())
    assert all(map(torch.equal, moved(after, parts, range(3, 6)), wanted))
    assert [float(after.state[each]["step"]) for each in parts] == [6.0] * len(parts)


def test_what_has_no_gradient_stays():
    held = parameters()
    before = held[0].detach().clone()
    rule = RMSprop(held, **HOW)
    give_gradients(held, 0)
    held[0].grad = None
    rule.step()
    assert torch.equal(held[0], before)
    assert not torch.equal(held[2], parameters()[2])


@pytest.mark.parametrize("how", [{"clip_value": 0.3}, {"clip_value": None, "clip_norm": 0.7}])
@pytest.mark.parametrize("largest", [1e-3, 100.0])
def test_gradients_are_clipped_alike(how, largest):
    own, theirs = parameters(), parameters()
    for held in (own, theirs):
        give_gradients(held, 1, largest)
        held[1].grad = None
    clip_as_vector(Train(**how), own)
    clip(Train(**how), theirs)
    for one, other in zip(own, theirs, strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)
