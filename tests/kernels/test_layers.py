"""Linear layers in a row: their formula is the truth."""

import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from place import DEVICE

from twomem.kernels.layers import answers, few, layers

SIZES, RELUS = (70, 6, 9, 9, 33), [False, True, True, False]


def draw(seed, dtype, rows=5, count=4):
    generator = torch.Generator().manual_seed(seed)
    pairs = list(zip(SIZES[1:], SIZES, strict=False))[:count]
    shapes = [(rows, SIZES[0]), *pairs, *((out,) for out, _ in pairs)]
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [
        x.to(DEVICE if dtype == torch.float32 else "cpu", dtype).requires_grad_() for x in drawn
    ]


def plain(x, weights, biases):
    for weight, bias, relu in zip(weights, biases, RELUS, strict=False):
        x = torch.nn.functional.linear(x, weight, bias)
        x = x.relu() if relu else x
    return x


def learned(run, inputs):
    count = len(inputs) // 2
    found = run(inputs[0], inputs[1 : 1 + count], inputs[1 + count :])
    weights = torch.linspace(-1, 1, found.numel(), dtype=torch.float64).view(found.shape)
    grads = torch.autograd.grad((found * weights.to(found)).sum(), inputs)
    return {"found": found.detach().cpu(), "gradients": [grad.cpu() for grad in grads]}


@pytest.mark.parametrize("count", [1, 4])
def test_layers_are_as_accurate_as_the_formula(count):
    def fast(seed, dtype):
        def run(*given):
            return answers(*given, RELUS[:count], "fp32")

        return learned(run, draw(seed, dtype, count=count))

    def own(seed, dtype):
        return learned(plain, [x.cpu() for x in draw(seed, dtype, count=count)])

    assert_as_accurate(fast, own, range(3))


def test_operands_of_16_bits_cost_their_digits_and_no_more():
    inputs = draw(0, torch.float32)
    got = learned(lambda *given: answers(*given, RELUS, "half"), inputs)
    assert_exact(got, learned(plain, [x.cpu() for x in inputs]), within=3e-3)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_rows_are_answered_by_one_launch(count):
    x, *rest = draw(0, torch.float32, count=count)
    weights, biases = rest[:count], rest[count:]
    with torch.no_grad():
        found = answers(x, weights, biases, RELUS[:count], "half")
        assert_exact(found, plain(x, weights, biases), within=1e-5)


def test_they_are_registered_rightly():
    x, *rest = draw(0, torch.float32)
    given = (x, rest[:4], rest[4:], RELUS)
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(layers, (*given, "fp32"), test_utils=tests)
    detached = [x.detach(), *([y.detach() for y in ys] for ys in given[1:3]), RELUS]
    torch.library.opcheck(few, tuple(detached), test_utils=tests[:2])
