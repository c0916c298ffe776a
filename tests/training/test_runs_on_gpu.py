"""A run on a GPU is stopped, gone on with, and its weights are used on a CPU."""

import pytest
import torch
from gpu import needs_gpu
from small import SIZES, experiment, numbers
from test_runs import stop_after

from twomem.training import weights
from twomem.training.runs import run

pytestmark = needs_gpu


@pytest.mark.parametrize("model", sorted(SIZES))
def test_a_stopped_run_goes_on(tmp_path, model):
    wanted = experiment(model=model)
    assert run(wanted, tmp_path / "whole", "cuda").done
    assert not run(wanted, tmp_path / "parts", "cuda", stop_after(5)).done
    assert run(wanted, tmp_path / "parts", "cuda").done
    # sums may be in another order each time, but the sequences are the same
    for own, other in zip(numbers(tmp_path / "parts"), numbers(tmp_path / "whole"), strict=True):
        assert own["step"] == other["step"]
        assert own["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_a_model_trained_on_a_gpu_is_used_on_a_cpu(tmp_path):
    run(experiment(), tmp_path, "cuda")
    model = weights.load(tmp_path).model
    assert next(model.parameters()).device.type == "cpu"
    ys, _ = model(torch.zeros(4, 2, 5))
    there, _ = model.cuda()(torch.zeros(4, 2, 5, device="cuda"))
    assert torch.allclose(ys, there.cpu(), atol=1e-4)
