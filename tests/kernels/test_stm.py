"""The kernels of the recurrence: as accurate as its equations at the same operands, and no race."""

from functools import partial

import emulate
import pytest
import torch
from accuracy import assert_as_accurate
from place import DEVICE
from recurrence import draw, learned, reference, to

from twomem.kernels import runtime, stm_back
from twomem.kernels.stm import recurrence, stm_forward
from twomem.kernels.stm_arguments import PAPER, RELEASED, Sizes, padded

FORMS = pytest.mark.parametrize("form", [RELEASED, PAPER], ids=["released", "paper"])
KINDS = {"fp32": None, "tf32": torch.float32, "half": torch.float16, "bf16": torch.bfloat16}
CASES = {
    "whole tiles": {"width": 16, "queries": 8, "time": 4},
    "odd widths": {"width": 5, "queries": 3, "time": 3},
    "two groups of queries": {"width": 7, "queries": 10, "time": 3},
    "two tiles of steps": {"width": 10, "queries": 1, "time": 18, "alpha": 0.1},
    "rows that end": {"width": 10, "queries": 3, "time": 5, "lengths": [5, 1]},
    "memories of their own": {"width": 9, "queries": 2, "time": 3, "own": True},
    "no gates": {"width": 10, "queries": 3, "time": 3, "gated": False},
    "no reads": {"width": 10, "queries": 3, "time": 3, "read": False},
    "no transfer": {"width": 10, "queries": 3, "time": 3, "transfer": False},
    "gates alone": {"width": 10, "queries": 3, "time": 3, "read": False, "transfer": False},
}
SLOW_CASES = {
    "the paper's sizes": {"width": 96, "queries": 8, "time": 2},
    "the sizes for stories": {"width": 90, "queries": 20, "time": 2, "transfer": False},
    "the widest": {"width": 128, "queries": 8, "time": 2, "batch": 1},
}


def forms(form, precision, **case):
    """The kernels and the equations, as the comparison calls them."""

    def fast(seed, dtype):
        given = to(draw(form, seed=seed, **case), dtype, DEVICE)
        return learned(form, partial(recurrence, precision=precision), given)

    def plain(seed, dtype):
        kind = None if dtype == torch.float64 else KINDS[precision]
        given = to(draw(form, seed=seed, **case), dtype)
        return learned(form, partial(reference, kind=kind), given)

    return fast, plain


@FORMS
@pytest.mark.parametrize("case", CASES)
def test_it_is_as_accurate_as_its_equations(form, case):
    assert_as_accurate(*forms(form, "fp32", **CASES[case]), range(4))


@FORMS
@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW_CASES)
@pytest.mark.parametrize("precision", ["fp32", "half"])
def test_it_is_as_accurate_at_the_sizes_that_are_used(form, case, precision):
    if (form, case, precision) == (PAPER, "the widest", "fp32"):
        pytest.skip("does not fit on the chip, and is not chosen")
    assert_as_accurate(*forms(form, precision, **SLOW_CASES[case]), range(2))


@FORMS
@pytest.mark.parametrize("precision", ["tf32", "half", "bf16"])
def test_it_is_as_accurate_as_its_operands(form, precision):
    assert_as_accurate(*forms(form, precision, width=16, queries=3, time=4, alpha=0.1), range(4))


@FORMS
@pytest.mark.parametrize("size", [2.0**-30, 2.0**20])
def test_small_and_large_gradients_fit_half_operands(form, size):
    given = to(draw(form, width=10, queries=3, time=3), torch.float32, DEVICE)
    normal, items = recurrence(form, given, "half")
    wanted = [given.row, given.transfer, given.gate_weight]
    once, more = (
        torch.autograd.grad(by * (normal.sum() + items.sum()), wanted, retain_graph=True)
        for by in (1.0, size)
    )
    for a, b in zip(once, more, strict=True):
        torch.testing.assert_close(b / size, a, rtol=1e-6, atol=1e-6 * a.abs().max().item())


@FORMS
def test_a_large_batch_is_read_row_by_row(form):
    given = to(draw(form, width=6, queries=2, time=2, batch=5), torch.float32, DEVICE)
    normal, items = recurrence(form, given, "fp32")
    whole = learned(
        form, reference, to(draw(form, width=6, queries=2, time=2, batch=5), torch.float64)
    )
    torch.testing.assert_close(
        normal.detach().cpu().double(), whole["normal"], rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(items.detach().cpu().double(), whole["items"], rtol=1e-4, atol=1e-5)


@FORMS
def test_it_gives_the_same_bits_in_any_order(form, monkeypatch):
    given = to(draw(form, width=20, queries=3, time=3, lengths=[3, 2]), torch.float32, DEVICE)
    found = []
    for seed in range(4):
        if DEVICE == "cpu":
            monkeypatch.setattr(runtime, "on_cpu", partial(emulate.run, seed=seed))
        found.append(learned(form, partial(recurrence, precision="half"), given))
    for other in found[1:]:
        for kind, first in found[0].items():
            torch.testing.assert_close(other[kind], first, rtol=0, atol=0)


@FORMS
def test_it_is_registered_rightly(form):
    given = draw(form, width=5, queries=3, time=2, lengths=[2, 1])
    n = Sizes.of(given)
    whole = padded(form, to(given, torch.float32, DEVICE), n)
    how = (form, n.width, n.queries, "fp32", True)
    torch.library.opcheck(
        stm_forward, (*whole, *how), test_utils=("test_schema", "test_faketensor")
    )


SPOILT = {
    "a barrier is missing": (
        "stm_forward",
        "      barrier();\n      // ---- phase 2",
        "      // ---- phase 2",
    ),
    "a row is left out": (
        "stm_forward",
        "r < ROWS; r++)\n#pragma unroll\n          for (int h = 0; h < 2",
        "r < ROWS - 1; r++)\n#pragma unroll\n          for (int h = 0; h < 2",
    ),
    "a sum is cut": (
        "stm_forward",
        "for (int w = 0; w < WARPS; w++) met +=",
        "for (int w = 0; w < WARPS - 1; w++) met +=",
    ),
    "a gate is another": (
        "stm_forward",
        "sigmoid_of(gate[r][4 + 2 * h]) *",
        "sigmoid_of(gate[r][2 * h]) *",
    ),
    "a barrier back is missing": (
        "stm_backward",
        "      barrier();\n      // ---- phase 3",
        "      // ---- phase 3",
    ),
    "a slope is left out": ("stm_backward", "* (1.f - m0 * m0)", "* 1.f"),
    "a gradient of a gate is another": (
        "stm_backward",
        "to_written * me * keep * (1.f - keep)",
        "to_written * me * take * (1.f - take)",
    ),
    "later reads are not met": (
        "stm_backward",
        "const elem faded = narrow(when > t ?",
        "const elem faded = narrow(when > t + 1 ?",
    ),
}


@pytest.mark.skipif(DEVICE != "cpu", reason="spoils what the emulator builds")
@pytest.mark.parametrize("fault", SPOILT)
def test_a_spoilt_kernel_is_refused(fault, monkeypatch):
    kernel, right, wrong = SPOILT[fault]
    assert right in emulate.read(kernel)

    def text(name):
        return emulate.read(name).replace(right, wrong) if name == kernel else emulate.read(name)

    monkeypatch.setattr(emulate, "text", text)
    with pytest.raises(AssertionError, match="error"):
        assert_as_accurate(*forms(RELEASED, "fp32", width=32, queries=3, time=4), range(1))


@FORMS
@pytest.mark.parametrize(
    "case", ["whole tiles", "rows that end", "no gates", "two groups of queries"]
)
def test_parts_of_the_steps_go_on_from_one_another(form, case, monkeypatch):
    monkeypatch.setattr(stm_back, "_ROOM", 1)
    monkeypatch.setattr(stm_back, "_BESIDE", 0.0)
    assert_as_accurate(*forms(form, "fp32", **CASES[case]), range(3))
