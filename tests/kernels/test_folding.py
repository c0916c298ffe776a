"""Sums over steps, and what they are distilled to: the formula, written as it stands, is the truth."""

import emulate
import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from place import DEVICE

from twomem.kernels import fold_call
from twomem.kernels.folding import distil
from twomem.kernels.last_answer import fold_distil
from twomem.kernels.memory import fold
from twomem.kernels.products import product, range_of
from twomem.kernels.stm_shared import PRECISIONS

BATCH, TIME, QUERIES, WIDTH, DISTILLED = 2, 5, 3, 7, 4


STRETCHES = {
    "stretches": [1, 2, 4],
    "single steps": [1, 2, 3, 4, 5],
    "the last steps": [3, 4, 5],
    "a step that is not the last": [3, 4],
    "one stretch": [5],
}


def draw(seed, dtype, queries=QUERIES, width=WIDTH, time=TIME, own=False, batch=BATCH):
    generator = torch.Generator().manual_seed(seed)
    before = batch if own else 1
    shapes = (
        (batch, time, 3 * queries, width),
        (batch, time),
        (before, queries, width, width),
        (before,),
        (DISTILLED, width * width),
    )
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [
        x.to(DEVICE if dtype == torch.float32 else "cpu", dtype).requires_grad_() for x in drawn
    ]


def plain(normal, fades, old, carry, weight, ends):
    """The memory after all steps, what it is distilled to, and what stretches are distilled to."""
    queries, keys, values = normal.chunk(3, dim=2)
    matches = torch.tanh(queries[:, :, :, None] * keys[:, :, None])
    left = values * fades[:, :, None, None]
    every = torch.einsum("btsji, btjf -> btsif", matches, left)
    stretches = [every[:, a:b].sum(1).flatten(2) for a, b in zip([0, *ends], ends, strict=False)]
    memory = carry[:, None, None, None] * old + every.sum(1)
    last = memory.flatten(2) @ weight.mT
    return memory, last, torch.stack([each @ weight.mT for each in stretches])


def kernels(normal, fades, old, carry, weight, ends, precision="fp32"):
    memory = fold(normal, fades, old, carry, precision)
    also, last = fold_distil(normal, fades, old, carry, weight, precision)
    assert torch.equal(memory, also)
    return memory, last, distil(normal, fades, weight, ends, precision)[0]


def learned(run, inputs, ends, **how):
    found = run(*inputs, ends, **how)
    generator = torch.Generator().manual_seed(9)
    weights = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x) for x in found]
    total = sum((x * w).sum() for x, w in zip(found, weights, strict=True))
    grads = torch.autograd.grad(total, inputs)
    return {"found": [x.detach().cpu() for x in found], "gradients": [g.cpu() for g in grads]}


@pytest.mark.parametrize("which", STRETCHES)
def test_all_are_as_accurate_as_the_formula(which):
    ends = STRETCHES[which]

    def fast(seed, dtype):
        return learned(kernels, draw(seed, dtype), ends)

    def own(seed, dtype):
        return learned(plain, [x.cpu() for x in draw(seed, dtype)], ends)

    assert_as_accurate(fast, own, range(5))


WITHIN = {"half": 3e-3, "bf16": 3e-2, "tf32": 4e-3}


def compare(inputs, ends, precision, within):
    got = learned(kernels, inputs, ends, precision=precision)
    truth = learned(plain, [x.detach().cpu().double().requires_grad_() for x in inputs], ends)
    in_double = {kind: [x.double() for x in each] for kind, each in got.items()}
    assert_exact(in_double, truth, within=within)


@pytest.mark.parametrize("which", ["stretches", "single steps"])
@pytest.mark.parametrize("precision", ["half", "bf16"])
def test_operands_of_16_bits_cost_their_digits_and_no_more(which, precision):
    compare(draw(0, torch.float32), STRETCHES[which], precision, WITHIN[precision])


SIZES = {
    "three groups": {"queries": 20, "width": 18, "time": 6},
    "two groups, an odd width": {"queries": 9, "width": 19, "time": 5, "own": True},
    "several blocks": {"queries": 8, "width": 20, "time": 14, "own": True},
    "one of all": {"queries": 1, "width": 1, "time": 3},
    "wide": {"queries": 2, "width": 70, "time": 2, "batch": 1},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("precision", ["half", "tf32"])
def test_sizes_that_are_no_whole_tiles(size, precision):
    how = SIZES[size]
    compare(draw(0, torch.float32, **how), [how["time"] - 1], precision, 2 * WITHIN[precision])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("time", [1, None])
def test_few_sequences_are_cut_into_many_blocks(size, time, monkeypatch):
    how = {**SIZES[size], **({} if time is None else {"time": time})}
    inputs = draw(0, torch.float32, **how)
    whole = learned(kernels, inputs, [how["time"]], precision="half")
    monkeypatch.setattr(fold_call, "at_once", lambda device: 10_000)
    cut = learned(kernels, inputs, [how["time"]], precision="half")
    assert_exact(cut, whole, within=1e-3)


@pytest.mark.parametrize("precision", ["half", "fp32"])
def test_batches_in_slices_give_the_same(precision, monkeypatch):
    inputs = draw(0, torch.float32, own=True, batch=3)
    whole = learned(kernels, inputs, [4], precision=precision)
    monkeypatch.setattr(fold_call, "_MOST_BYTES", 2 * 4 * QUERIES * WIDTH**2)
    monkeypatch.setattr(fold_call, "at_once", lambda device: 1)
    assert_exact(learned(kernels, inputs, [4], precision=precision), whole, within=1e-5)


@pytest.mark.parametrize("blocks", [1, 64])
@pytest.mark.parametrize("time", [2, 14])
def test_a_block_has_some_queries_or_all(blocks, time, monkeypatch):
    monkeypatch.setattr(fold_call, "at_once", lambda device: blocks)
    inputs = draw(0, torch.float32, queries=5, width=66, time=time, own=True, batch=1)
    compare(inputs, [time], "half", 2 * WITHIN["half"])


def test_of_the_memory_or_of_what_it_is_distilled_to_alone():
    inputs = draw(0, torch.float32)
    truth = plain(*[x.cpu() for x in inputs], [5])[:2]
    found = fold_distil(*inputs, "fp32")
    for ours, right in zip(found, truth, strict=True):
        got = torch.autograd.grad(ours.square().sum(), inputs, allow_unused=True, retain_graph=True)
        want = torch.autograd.grad(
            right.square().sum(), inputs, allow_unused=True, retain_graph=True
        )
        want = [torch.zeros_like(x) if y is None else y for x, y in zip(inputs, want, strict=True)]
        assert_exact([x.cpu() for x in got], [x.cpu() for x in want], within=1e-5)


def test_where_a_block_has_little_room_one_gradient_of_a_memory_follows_the_other(monkeypatch):
    inputs = draw(0, torch.float32, queries=9, width=33, time=3)
    sizes = {"D": 48, "REAL_N": 9, "PRECISION": 3}
    assert fold_call.back_tiles(sizes, 24 * 1024)["BUFFERS"] == 1
    monkeypatch.setattr(fold_call, "room", lambda device: 24 * 1024)
    compare(inputs, [2], "tf32", 2 * WITHIN["tf32"])


BLOCKS = [(96, 8, "half"), (128, 24, "half"), (96, 20, "bf16"), (128, 16, "fp32"), (16, 1, "tf32")]


@pytest.mark.parametrize(("wide", "queries", "precision"), BLOCKS)
@pytest.mark.parametrize("most", [227 * 1024, 99 * 1024])
def test_shared_memory_is_what_it_is_said_to_be(wide, queries, precision, most):
    sizes = {"D": wide, "REAL_D": wide, "REAL_N": queries, "FLOATS": 1}
    sizes["PRECISION"] = PRECISIONS[precision]
    defines = {**sizes, **fold_call.back_tiles(sizes, most)}
    assert emulate.shared_bytes("fold_back", defines) == fold_call.back_bytes(defines) <= most


@pytest.mark.parametrize(
    ("wide", "queries", "precision"), [*BLOCKS, (90, 20, "half"), (7, 3, "fp32")]
)
@pytest.mark.parametrize("most", [227 * 1024, 99 * 1024])
def test_shared_memory_of_the_way_there_is_what_it_is_said_to_be(wide, queries, precision, most):
    sizes = {"D": -(-wide // 16) * 16, "REAL_D": wide, "REAL_N": queries}
    sizes["PRECISION"] = PRECISIONS[precision]
    defines = {**sizes, **fold_call.tiles(sizes, most)}
    assert emulate.shared_bytes("fold", defines) == fold_call.fold_bytes(defines) <= most


@pytest.mark.parametrize("operation", [fold, fold_distil, distil])
def test_all_are_registered_rightly(operation):
    normal, fades, old, carry, weight = draw(0, torch.float32)
    before = {fold: (old, carry), fold_distil: (old, carry, weight)}
    more = before.get(operation, (weight, [1, 2, 3, 4, 5]))
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(operation, (normal, fades, *more, "fp32"), test_utils=checks)


def test_the_range_is_a_power_of_two_that_brings_the_largest_to_one():
    small, none = torch.tensor([3e-7, -1e-9]), torch.zeros(3)
    scale = range_of(torch.float16, small, none).item()
    assert 0.5 <= 3e-7 * scale <= 1
    assert torch.tensor(scale).log2().frac() == 0
    assert range_of(torch.float16, none).item() == 1
    assert range_of(torch.float32, small) is None
    assert range_of(torch.float16, torch.tensor([1e-45])).isfinite()


def test_a_product_of_16_bit_operands_is_summed_in_float32():
    many = torch.ones(1, 4096, dtype=torch.float16, device=DEVICE)
    assert product(many * 16, many.mT * 16).item() == 4096 * 256
