"""Sums over steps, and what they are distilled to: the formula, written as it stands, is the truth."""

import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from place import DEVICE

from twomem.kernels.folding import distil, fold
from twomem.kernels.matches import make_matches, match_gradient
from twomem.kernels.products import product, range_of

BATCH, TIME, QUERIES, WIDTH, DISTILLED = 2, 5, 3, 7, 4


STRETCHES = {
    "stretches": [1, 2, 4],
    "single steps": [1, 2, 3, 4, 5],
    "the last steps": [3, 4, 5],
    "a step that is not the last": [3, 4],
    "one stretch": [5],
}


def draw(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (BATCH, TIME, 3 * QUERIES, WIDTH),
        (BATCH, TIME),
        (DISTILLED, WIDTH * WIDTH),
    )
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [
        x.to(DEVICE if dtype == torch.float32 else "cpu", dtype).requires_grad_() for x in drawn
    ]


def plain(normal, fades, weight, ends):
    """The memory after all steps, and what is distilled of each stretch."""
    queries, keys, values = normal.chunk(3, dim=2)
    matches = torch.tanh(queries[:, :, :, None] * keys[:, :, None])
    left = values * fades[:, :, None, None]
    every = torch.einsum("btsji, btjf -> btsif", matches, left)
    stretches = [every[:, a:b].sum(1).flatten(2) for a, b in zip([0, *ends], ends, strict=False)]
    return every.sum(1), torch.stack([each @ weight.mT for each in stretches])


def kernels(normal, fades, weight, ends, precision="fp32"):
    return fold(normal, fades, precision), distil(normal, fades, weight, ends, precision)


def learned(run, inputs, ends, **how):
    found = run(*inputs, ends, **how)
    generator = torch.Generator().manual_seed(9)
    weights = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x) for x in found]
    total = sum((x * w).sum() for x, w in zip(found, weights, strict=True))
    grads = torch.autograd.grad(total, inputs)
    return {"found": [x.detach().cpu() for x in found], "gradients": [g.cpu() for g in grads]}


@pytest.mark.parametrize("which", STRETCHES)
def test_both_are_as_accurate_as_the_formula(which):
    ends = STRETCHES[which]

    def fast(seed, dtype):
        return learned(kernels, draw(seed, dtype), ends)

    def own(seed, dtype):
        return learned(plain, [x.cpu() for x in draw(seed, dtype)], ends)

    assert_as_accurate(fast, own, range(5))


@pytest.mark.parametrize("which", ["stretches", "single steps"])
@pytest.mark.parametrize(("precision", "within"), [("half", 3e-3), ("bf16", 3e-2)])
def test_operands_of_16_bits_cost_their_digits_and_no_more(which, precision, within):
    inputs, ends = draw(0, torch.float32), STRETCHES[which]
    got = learned(kernels, inputs, ends, precision=precision)
    truth = learned(plain, [x.detach().cpu().double().requires_grad_() for x in inputs], ends)
    in_double = {kind: [x.double() for x in each] for kind, each in got.items()}
    assert_exact(in_double, truth, within=within)


@pytest.mark.parametrize("operation", [fold, distil], ids=["fold", "distil"])
def test_both_are_registered_rightly(operation):
    normal, fades, weight = draw(0, torch.float32)
    more = () if operation is fold else (weight, [1, 2, 3, 4, 5])
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(operation, (normal, fades, *more, "fp32"), test_utils=checks)


def test_matches_and_their_gradient_by_hand():
    half = 0.5493061443340549  # its tangent is one half
    normal = torch.tensor([[[[1.0], [half], [9.0]]]], device=DEVICE)
    assert make_matches(normal, torch.float32).flatten().tolist() == pytest.approx([0.5])
    found = match_gradient(normal, torch.ones(1, 1, 1, 1, 1, device=DEVICE)).flatten()
    assert found.tolist() == pytest.approx([0.75 * half, 0.75, 0.0])


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
