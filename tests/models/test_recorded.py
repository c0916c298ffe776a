"""Values recorded once: they change only when a model is meant to give other numbers.

`python tests/models/test_recorded.py` records them again; the change then says why.
"""

import json
from pathlib import Path

import pytest
import torch

from twomem import models

RECORDED = Path(__file__).with_name("recorded.json")


def values(name: str) -> dict[str, object]:
    """Answers and last state of a small model made from a seed, reading inputs made by formula."""
    torch.manual_seed(0)
    model = type(models.load(name)).small().build(3, 4).double()
    xs = torch.sin(torch.arange(5 * 2 * 3, dtype=torch.float64)).view(5, 2, 3)
    ys, state = model(xs)
    norms = [part.double().norm().item() for part in state]
    return {"parameters": model.parameter_count, "answers": ys.tolist(), "state_norms": norms}


@pytest.mark.parametrize("name", models.names())
def test_a_model_gives_the_numbers_that_were_recorded(name):
    recorded = json.loads(RECORDED.read_text())
    assert name in recorded, f"record the new model: python {Path(__file__).name}"
    found = values(name)
    assert found["parameters"] == recorded[name]["parameters"]
    for what in ("answers", "state_norms"):
        got, right = (torch.tensor(each[what]) for each in (found, recorded[name]))
        torch.testing.assert_close(got, right, rtol=1e-6, atol=1e-9)


def test_nothing_is_recorded_of_models_that_are_gone():
    assert sorted(json.loads(RECORDED.read_text())) == models.names()


if __name__ == "__main__":
    made = {name: values(name) for name in models.names()}
    RECORDED.write_text(json.dumps(made, indent=1) + "\n")
