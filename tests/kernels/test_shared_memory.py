"""What the kernels are said to take of shared memory is what the compiler gives them."""

from itertools import product

import emulate
import pytest

from twomem.kernels import stm_shared
from twomem.kernels.stm_arguments import PAPER, RELEASED, Sizes

SIZES = [Sizes(1, 36, 16, 3), Sizes(1, 8, 30, 12), Sizes(1, 48, 90, 20), Sizes(1, 48, 128, 8)]
BYTES = {"stm_forward": stm_shared.forward_bytes, "stm_backward": stm_shared.backward_bytes}


def switches():
    return [
        dict(zip(("gated", "read", "transfer"), each, strict=True))
        for each in product((True, False), repeat=3)
    ]


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("precision", ["fp32", "half"])
@pytest.mark.parametrize("form", [RELEASED, PAPER])
def test_the_sum_is_the_size_of_the_struct(name, precision, form):
    told = []
    for n, how in zip(SIZES * 2, switches(), strict=True):
        flags = stm_shared.flags(form, n, **how, precision=precision)
        told.append((flags, BYTES[name](flags)))
    assert [emulate.shared_bytes(name, flags) for flags, _ in told] == [size for _, size in told]


@pytest.mark.parametrize("precision", stm_shared.PRECISIONS)
def test_the_papers_sizes_fit(precision):
    for form in (RELEASED, PAPER):
        n = Sizes(128, 36, 96, 8)
        assert (
            stm_shared.chunk(form, n, gated=True, read=True, transfer=True, precision=precision)
            == 48
        )


def test_what_does_not_fit_is_not_tried():
    n = Sizes(128, 36, 128, 24)
    assert stm_shared.chunk(PAPER, n, gated=True, read=True, transfer=True, precision="fp32") == 0
