"""What one product heard is parted, and gradients of all uses are joined, as PyTorch does it."""

import pytest
import torch
from accuracy import assert_exact
from place import DEVICE

from twomem.kernels.parting import join, part, parted

SIZES = [(7, 3, 14), (40, 24, 0), (5, 0, 10), (33, 0, 0)]


def plainly_parted(found, width, queries, gates):
    left, right, address, heard = found.split([width, width, queries, gates], -1)
    address = address.softmax(-1)
    return (left, left), (right, right, right), (address, address), heard


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("unused", [0, 2])
def test_parts_and_their_gradient_are_those_of_pytorch(sizes, unused):
    found = torch.randn(2, 5, 2 * sizes[0] + sum(sizes[1:]), device=DEVICE, requires_grad=True)

    def learned(parting):
        left, right, address, gates = parting(found, *sizes)
        parts = [*left, *right, *address, gates][unused:]
        torch.manual_seed(0)
        total = sum((x * torch.rand_like(x)).sum() for x in parts)
        return [x.detach().cpu() for x in parts], torch.autograd.grad(total, found)[0].cpu()

    assert_exact(learned(parted), learned(plainly_parted), within=1e-6)


def test_they_are_registered_rightly():
    found, sizes = torch.randn(2, 3, 22, device=DEVICE), [4, 6, 8]
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(part, (found, sizes), test_utils=tests)
    address, none = found[..., :6].contiguous(), torch.empty(0, device=DEVICE)
    grads = [found[..., :4].contiguous(), *[none] * 7]
    torch.library.opcheck(join, (address, grads, sizes), test_utils=tests)
