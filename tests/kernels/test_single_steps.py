"""Single steps at sizes where blocks, tiles and parts are several, or not whole; float64 is the truth."""

import emulate
import pytest
import torch
from accuracy import assert_exact
from place import DEVICE

from twomem.kernels import single_sizes, single_steps
from twomem.kernels.products import range_of
from twomem.kernels.single_steps import SingleSteps

KINDS = {"fp32": torch.float32, "half": torch.float16, "bf16": torch.bfloat16}
WITHIN = {"fp32": 2e-6, "half": 3e-3, "bf16": 3e-2}
SHAPES = {
    # batch, time, first, count, queries, width, distilled, kind; multiprocessors
    "two blocks of one group, the last not full": ((3, 2, 0, 2, 3, 4, 5, "half"), 4),
    "blocks of two groups, two tiles of depth": ((5, 4, 1, 2, 8, 20, 20, "half"), 2),
    "a block of four groups, uneven halves of depth": ((4, 4, 2, 2, 2, 36, 7, "half"), 1),
    "an odd width, more than one part of the sum": ((9, 3, 1, 2, 7, 17, 3, "bf16"), 10),
    "four bytes": ((5, 3, 1, 2, 5, 20, 18, "fp32"), 10),
    "an odd width of four bytes": ((3, 2, 1, 1, 8, 19, 4, "fp32"), 1),
}


def truth(normal, fades, weight, back):
    """What is distilled, and the gradients of all that is given."""
    inputs = [x.detach().cpu().double().requires_grad_() for x in (normal, fades, weight)]
    queries, keys, values = inputs[0].chunk(3, dim=2)
    matches = torch.tanh(queries[:, :, :, None] * keys[:, :, None])
    memory = torch.einsum("btsji, btjf, bt -> tbsif", matches, values, inputs[1]).flatten(3)
    found = memory @ inputs[2].mT
    return [found.detach(), *torch.autograd.grad(found, inputs, back.cpu().double())]


def learned(shape, seed=0):
    batch, time, first, count, queries, width, distilled, name = shape
    torch.manual_seed(seed)
    normal, fades = torch.randn(batch, time, 3 * queries, width), torch.rand(batch, time)
    weight, back = torch.randn(distilled, width**2), torch.zeros(time, batch, queries, distilled)
    # far from what 16 bits hold
    back[first : first + count] = 1e-7 * torch.randn(count, batch, queries, distilled)
    given = [x.to(DEVICE) for x in (normal, fades, weight, back)]
    single = SingleSteps(given[0], given[1], given[2], first, KINDS[name])
    to = [torch.zeros_like(x) for x in given[:2]]
    taken = given[3][first : first + count]
    d_weight = single.backward(taken, range_of(KINDS[name], taken), to[0], to[1])
    right = truth(*given)
    right[0] = right[0][first : first + count]
    return [single.forward(count), *to, d_weight], right


def compare(got, right, within):
    for ours, true in zip(got, right, strict=True):
        # each by itself: they are of very different sizes
        assert_exact([ours.cpu().double()], [true], within=within)


@pytest.mark.parametrize("which", SHAPES)
def test_every_way_to_cut_the_work_is_the_formula(which, monkeypatch):
    shape, processors = SHAPES[which]
    if DEVICE == "cpu":
        monkeypatch.setattr(single_steps, "at_once", lambda _: processors)
    compare(*learned(shape), within=WITHIN[shape[-1]])


def test_a_map_of_many_rows_is_taken_in_parts(monkeypatch):
    monkeypatch.setattr(single_sizes, "MOST_DISTILLED", 4)
    compare(*learned((2, 3, 1, 2, 3, 4, 9, "half")), within=3e-3)


def test_what_is_summed_may_be_cut_too(monkeypatch):
    monkeypatch.setattr(single_sizes, "_SUMS", 16)
    compare(*learned((2, 3, 1, 2, 3, 4, 40, "half")), within=3e-3)


def test_parts_of_the_map_are_smaller_where_there_is_less_room(monkeypatch):
    monkeypatch.setattr(single_steps, "room", lambda _: 40_000)
    compare(*learned((2, 2, 0, 2, 8, 36, 48, "half")), within=3e-3)


def test_rows_that_are_not_aligned_are_copied():
    x = torch.arange(9.0)[1:]
    assert single_steps._aligned(x).data_ptr() % 16 == 0
    assert torch.equal(single_steps._aligned(x), x)


SPOILT = [
    ("distil", "await_copies<0>();\n        barrier();", "barrier();"),
    ("distil_back", "await_copies<0>();\n        barrier();", "await_copies<0>();"),
    ("distil_back", "turn ^ 1", "turn"),
    ("distil_weight", "at ? at - 1 : STAGES - 1", "at"),
]


@pytest.mark.skipif(DEVICE == "cuda", reason="the emulator alone shows it for sure")
@pytest.mark.parametrize(("name", "what", "by"), SPOILT)
def test_a_kernel_that_does_not_wait_is_refused(name, what, by, monkeypatch):
    spoilt = emulate.read(name).replace(what, by)
    assert spoilt != emulate.read(name)
    monkeypatch.setattr(emulate, "text", lambda n: spoilt if n == name else emulate.read(n))
    shape, processors = SHAPES["an odd width, more than one part of the sum"]
    monkeypatch.setattr(single_steps, "at_once", lambda _: processors // 10)
    with pytest.raises(AssertionError):
        compare(*learned(shape), within=WITHIN[shape[-1]])


@pytest.mark.parametrize(
    ("kind", "width", "distilled", "room"),
    [("half", 5, 4, 99), ("fp32", 48, 128, 227), ("half", 96, 96, 227), ("fp32", 128, 128, 99)],
)
def test_shared_memory_is_what_the_compiler_gives(kind, width, distilled, room):
    known = single_sizes.common(8, width, distilled, KINDS[kind])
    f = known | single_sizes.loop(known, 2048, 132, 1024 * room)
    assert emulate.shared_bytes("distil", f) == single_sizes.forward_bytes(f) <= 1024 * room
    assert emulate.shared_bytes("distil_back", f) == single_sizes.back_bytes(f) <= 1024 * room
    summed = known | single_sizes.summed(known)
    assert emulate.shared_bytes("distil_weight", summed) <= 99 * 1024
