"""Ranges of gradients, sums over sequences, and weights in the order of operands."""

import pytest
import torch
from accuracy import assert_exact
from place import DEVICE

from twomem.kernels import fragments
from twomem.kernels.packing import Ordered, packed
from twomem.kernels.products import range_of, rescaled, scaled
from twomem.kernels.sums import batch_sums


@pytest.mark.parametrize("place", [0, 7_000, 19_999])
@pytest.mark.parametrize("which", [0, 1])
def test_the_largest_number_is_found_wherever_it_stands(place, which):
    both = [torch.rand(20_000, device=DEVICE), torch.rand(500, 40, device=DEVICE)]
    both[which].view(-1)[place] = -3e4
    scale = range_of(torch.float16, *both)
    assert scale.item() == 2.0**-15
    assert_exact(scaled(both[0], scale, torch.float16), (both[0] / 2**15).half(), within=0)
    wanted = [3.0 * both[0], both[1] + 1]
    brought = [wanted[0] * scale, wanted[1] * scale]
    assert_exact(rescaled(brought, scale), wanted, within=0)


def test_what_is_not_finite_has_no_range():
    assert range_of(torch.float16, torch.tensor([1.0, float("inf")], device=DEVICE)).item() == 1


def test_sums_are_over_the_first_axis():
    scale = torch.tensor(4.0, device=DEVICE)
    given = [torch.rand(3, 2, 50), None, torch.rand(70, 33), torch.rand(0), torch.rand(1, 1)]
    given += [torch.rand(2048, 3), torch.rand(20 * 132 + 1)[1:].view(20, 132), torch.rand(2080, 8)]
    given = [x if x is None else x.to(DEVICE) for x in given]
    found = batch_sums(given, scale)
    for x, total in zip(given, found, strict=True):
        if x is None or not x.numel():
            assert total is None
        else:
            assert_exact(total, x.sum(0) / 4, within=1e-6)
    assert batch_sums([None]) == [None]


def test_sums_of_few_rows():
    given = [torch.rand(5, 2051, device=DEVICE), torch.rand(16, 3, 700, device=DEVICE)]
    assert_exact(batch_sums(given), [x.sum(0) for x in given], within=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_packed_in_their_orders(kind):
    gates, project, transfer = torch.rand(32, 16), torch.rand(24, 16), torch.rand(16, 128)
    weights = [x.to(DEVICE) for x in (gates, project, transfer)]
    wanted = [
        Ordered(0, fragments.gates),
        Ordered(1, fragments.scores_back),
        Ordered(2, fragments.transfer, (8,)),
    ]
    rows = torch.cat([project, torch.zeros(8, 16)])
    right = [
        fragments.gates(gates),
        fragments.right(rows.mT),
        fragments.transfer(transfer, 8),
    ]
    found = packed(weights, wanted, kind)
    assert_exact([x.cpu() for x in found], [x.flatten().to(kind) for x in right], within=0)
    assert packed([None, *weights[1:]], wanted, kind)[0] is None
