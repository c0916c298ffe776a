"""Reads of a first memory, and what is distilled at ends: their formulas are the truth."""

import pytest
import torch
from accuracy import assert_as_accurate
from place import DEVICE

from twomem.kernels.first_reads import first_reads
from twomem.kernels.mixing import mixed

BATCH, TIME, QUERIES, INNER, OUTER, ENDS, DISTILLED = 3, 4, 2, 5, 6, 3, 130
READS = ((BATCH, TIME, QUERIES), (BATCH, TIME, INNER), (QUERIES, INNER, OUTER), (TIME,))


def draw(seed, dtype, shapes):
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [
        x.to(DEVICE if dtype == torch.float32 else "cpu", dtype).requires_grad_() for x in drawn
    ]


def learned(found, inputs):
    weights = torch.randn(
        found.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64
    )
    grads = torch.autograd.grad((found * weights.to(found)).sum(), inputs)
    return {"found": found.detach().cpu(), "gradients": [grad.cpu() for grad in grads]}


def rounded(x, kind):
    return x if kind is None or x.dtype == torch.float64 else x.to(kind).to(x.dtype)


def plainly_read(address, cue, matrix, kept=None, kind=None):
    spread = torch.einsum("bts, bti -> btsi", address, cue)
    if kept is not None:
        spread = spread * kept[:, None, None]
    return torch.einsum("btsi, sio -> bto", rounded(spread, kind), rounded(matrix, kind))


@pytest.mark.parametrize("precision", ["fp32", "half"])
@pytest.mark.parametrize("fades", [True, False])
def test_reads_are_as_accurate_as_the_formula(precision, fades):
    kind = torch.float16 if precision == "half" else None

    def fast(seed, dtype):
        *given, kept = draw(seed, dtype, READS)
        inputs = [*given, kept] if fades else given
        kept = kept if fades else kept.new_empty(0)
        return learned(first_reads(*given, kept, precision)[0], inputs)

    def plain(seed, dtype):
        inputs = draw(seed, dtype, READS)[: 4 if fades else 3]
        return learned(plainly_read(*inputs, kind=kind), inputs)

    assert_as_accurate(fast, plain, range(4))


@pytest.mark.parametrize("carries", [1, BATCH])
@pytest.mark.parametrize("memories", [1, BATCH])
def test_ends_are_as_accurate_as_the_formula(carries, memories):
    shapes = (
        (ENDS, BATCH, QUERIES, DISTILLED),
        (carries, ENDS),
        (memories, QUERIES, DISTILLED),
        (DISTILLED,),
    )

    def fast(seed, dtype):
        inputs = draw(seed, dtype, shapes)
        return learned(mixed(*inputs), inputs)

    def plain(seed, dtype):
        inputs = draw(seed, dtype, shapes)
        added, carry, held, bias = inputs
        found = []
        for end, new in enumerate(added):
            held = carry[:, end, None, None] * held + new
            found.append(held + bias)
        return learned(torch.stack(found), inputs)

    assert_as_accurate(fast, plain, range(3))


@pytest.mark.parametrize("kept", [0, TIME])
def test_they_are_registered_rightly(kept):
    given = draw(0, torch.float32, READS[:3])
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    fades = torch.rand(kept, device=DEVICE)
    torch.library.opcheck(first_reads, (*given, fades, "fp32"), test_utils=tests)
    shapes = ((ENDS, BATCH, QUERIES, 4), (1, ENDS), (1, QUERIES, 4), (4,))
    torch.library.opcheck(mixed, tuple(draw(0, torch.float32, shapes)), test_utils=tests)
