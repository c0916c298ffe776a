"""What the kernels are said to take of shared memory is what the compiler gives them."""

from itertools import product

import emulate
import pytest

from twomem.kernels import stm_shared
from twomem.kernels.runtime import HOPPER_ROOM
from twomem.kernels.stm_arguments import PAPER, RELEASED, Sizes

SIZES = [Sizes(1, 36, 16, 3), Sizes(1, 8, 30, 12), Sizes(1, 48, 90, 20), Sizes(1, 48, 128, 8)]
FLAGS = {"stm_forward": stm_shared.forward_flags, "stm_backward": stm_shared.backward_flags}
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
        flags = FLAGS[name](stm_shared.flags(form, n, **how, precision=precision), HOPPER_ROOM)
        told.append((flags, BYTES[name](flags)))
    assert [emulate.shared_bytes(name, flags) for flags, _ in told] == [size for _, size in told]


EVERYTHING = {"gated": True, "read": True, "transfer": True}


@pytest.mark.parametrize("precision", stm_shared.PRECISIONS)
@pytest.mark.parametrize("form", [RELEASED, PAPER])
def test_the_papers_sizes_fit(precision, form):
    n, how = Sizes(128, 36, 96, 8), {**EVERYTHING, "precision": precision}
    assert stm_shared.chunk(form, n, **how, room=HOPPER_ROOM) == 48


def test_one_step_brings_no_weights_of_the_transfer():
    f = stm_shared.flags(RELEASED, Sizes(1, 1, 96, 8), **EVERYTHING, precision="half")
    held = [stm_shared.forward_flags(f, HOPPER_ROOM, time)["HELD"] for time in (1, 2, 3)]
    assert held == [0, 0, 1]


def test_what_does_not_fit_is_not_tried():
    n, how = Sizes(128, 36, 128, 24), {**EVERYTHING, "precision": "fp32"}
    assert stm_shared.chunk(PAPER, n, **how, room=HOPPER_ROOM) == 0
    small = Sizes(128, 36, 96, 8)
    assert stm_shared.chunk(PAPER, small, **how, room=99 * 1024) == 0
    assert stm_shared.chunk(PAPER, small, **{**how, "precision": "half"}, room=163 * 1024) == 48
