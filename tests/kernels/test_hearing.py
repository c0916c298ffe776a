"""What few inputs decide by one launch is what products make of them."""

import pytest
import torch
from accuracy import assert_exact
from place import DEVICE

from twomem import models
from twomem.kernels.hearing import hear
from twomem.ops import stm_released_sequence, stm_sequence

HEAR = {"stm": stm_sequence.hear, "stm_released": stm_released_sequence.hear}
SETTINGS = [{}, {"gates": False}, {"alphas": (None, 0.5, None)}, {"alphas": (1.0, 0.0, 0.0)}]


@pytest.mark.parametrize("name", HEAR)
@pytest.mark.parametrize("settings", SETTINGS)
def test_few_inputs_are_heard_as_products_hear_them(name, settings):
    model = models.load(name, width=9, queries=3, **settings).build(5, 4).to(DEVICE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.rand_like(parameter))
        weights, xs = model.weights(), torch.randn(4, 3, 5, device=DEVICE)
        plain = HEAR[name](weights, xs)
        found = HEAR[name](weights, xs, by_kernels=True)
    reads = plain.address is not None
    right = plain.right @ weights.project.weight.mT if name == "stm_released" else plain.right
    truth = plain._replace(cue=weights.blends[1] * right if reads else None)
    for ours, known in zip(found, truth, strict=True):
        assert (ours is None) == (known is None)
        if known is not None:
            assert_exact(ours.cpu(), known.cpu(), within=1e-5)


def test_it_is_registered_rightly():
    xs, first = torch.randn(2, 3, 5, device=DEVICE), torch.rand(9, 5, device=DEVICE)
    maps = [[first, first[:, 0].clone()] for _ in range(2)]
    for address, blend in (([first[:4], first[:4, 0].clone()], first[0, 0].clone()), ([], None)):
        given = (xs, *maps, address, [], [], None, blend)
        torch.library.opcheck(hear, given, test_utils=("test_schema", "test_faketensor"))
