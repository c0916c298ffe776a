"""The way that is taken, and the reason that is told for it."""

import pytest
import torch

from twomem import STM, STMReleased
from twomem.kernels import runtime
from twomem.ops import relations
from twomem.ops.choice import choose, without_kernels


def way(model, *, dtype=torch.float32, precision="fp32"):
    items = model.initial_state(2)[0].to(dtype)
    return choose(
        int(isinstance(model, STM)), model.weights(), torch.randn(6, 2, 5), items, precision
    )


def test_a_cpu_takes_the_operations_of_pytorch():
    found = way(STM(5, 2, width=4, queries=2))
    assert (found.precision, found.steps) == (None, relations.CHUNK)
    assert "need a GPU" in found.why


@pytest.mark.parametrize("kind", [STM, STMReleased])
def test_where_kernels_can_run_they_are_taken(kind, monkeypatch):
    monkeypatch.setattr(runtime, "on_cpu", lambda *_: None)
    assert way(kind(5, 2, width=4, queries=2)).precision == "fp32"
    assert way(kind(5, 2, width=4, queries=2), precision="half").precision == "half"
    assert way(kind(5, 2, width=4, queries=2, alphas=(None, 0.0, None))).precision == "fp32"


@pytest.mark.parametrize(
    ("settings", "how", "reason"),
    [
        ({"width": 129, "queries": 1}, {}, "up to width 128"),
        ({"width": 4, "queries": 25}, {}, "24 queries"),
        ({"width": 128, "queries": 24}, {}, "do not fit"),
        ({"width": 4, "queries": 2}, {"dtype": torch.float64}, "float32"),
    ],
)
def test_what_the_kernels_cannot_do_is_told(settings, how, reason, monkeypatch):
    monkeypatch.setattr(runtime, "on_cpu", lambda *_: None)
    found = way(STM(5, 2, distilled=2, **settings), **how)
    assert found.precision is None
    assert reason in found.why


def test_kernels_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(runtime, "on_cpu", lambda *_: None)
    model = STM(5, 2, width=4, queries=2)
    with without_kernels():
        assert "switched off" in way(model).why
    assert way(model).precision == "fp32"


def test_autocast_says_what_is_multiplied(monkeypatch):
    monkeypatch.setattr(runtime, "on_cpu", lambda *_: None)
    model = STM(5, 2, width=4, queries=2)
    for dtype, operands in ((torch.float16, "half"), (torch.bfloat16, "bf16")):
        with torch.autocast("cpu", dtype=dtype):
            assert way(model).precision == operands


def test_what_cannot_compile_is_told(monkeypatch):
    assert runtime.obstacle() is None
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert "NVIDIA" in (runtime.obstacle() or "")
