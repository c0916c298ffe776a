"""The released STM gives the numbers that the released code gave: `shared/golden`."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from accuracy import EXACT, assert_exact

from twomem import STMReleased
from twomem.ops.stm_released import literal

FOLDER = Path(__file__).parents[2] / ".." / "shared" / "golden"
NAMES = ("stm_gated_learned", "stm_ungated_learned")
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs shared/golden beside the checkout"
)
every = pytest.mark.parametrize("name", NAMES)

SINGLE = ("forget_bias", "input_bias")
"""The released code made these two in float32 even in a float64 model, and so their gradients."""


@cache
def golden(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        meta = json.loads(bytes(file["__meta__"]))
        return meta, {key: torch.from_numpy(file[key]) for key in file.files if key != "__meta__"}


def part(tensors, mark):
    """The tensors whose names begin with `mark`."""
    return {key[len(mark) :]: value for key, value in tensors.items() if key.startswith(mark)}


def model_of(name):
    meta, tensors = golden(name)
    told = {"gated": meta["gated"], "alphas": tuple(meta["alphas"])}
    return STMReleased.from_released_checkpoint(part(tensors, "w:"), **told)


def test_there_are_goldens():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(NAMES)


@every
def test_sizes_are_read_from_the_checkpoint(name):
    meta, _ = golden(name)
    model, config = model_of(name), model_of(name).config
    assert (model.input_size, model.output_size) == (meta["input_size"], meta["output_size"])
    assert (config.queries, config.width) == (meta["num_slot"], meta["slot_size"])
    assert (config.distilled, config.bottleneck) == (meta["rel_size"], meta["out_att_size"])
    assert (config.head, config.hidden, config.gates) == (meta["mlp_size"], 0, meta["gated"])
    assert {each.dtype for each in model.parameters()} == {torch.float64}


@every
def test_the_literal_form_gives_the_released_numbers(name):
    _, right = golden(name)
    model = model_of(name)
    with torch.no_grad():
        state = model.initial_state(right["x"].shape[1])
        found = literal(model.weights(), right["x"], *state)
    assert_exact(found, (right["y"], right["mi"], right["mr"]))


@every
def test_every_step_gives_the_released_numbers(name):
    _, right = golden(name)
    model, state = model_of(name), None
    with torch.no_grad():
        for t, x in enumerate(right["x"]):
            y, state = model.step(x, state)
            assert_exact((y, *state), (right["y"][t], right["mi"][t], right["mr"][t]), f"step {t}")


@every
def test_the_sequence_and_all_its_gradients_are_the_released_ones(name):
    _, right = golden(name)
    model, xs = model_of(name), right["x"].clone().requires_grad_()
    ys, state = model(xs)
    assert_exact((ys, *state), (right["y"], right["mi"][-1], right["mr"][-1]))
    (ys * right["w"]).sum().backward()
    assert_exact(xs.grad, right["gx"], "gradient of the inputs")
    found = {key: value.grad for key, value in model.named_parameters()}
    gradients = part(right, "g:")
    assert found.keys() == gradients.keys()
    for key in SINGLE if model.config.gates else ():
        # added up in float32 over the steps, so off by one rounding for each
        theirs, ours = gradients.pop(key), found.pop(key).float()
        within = len(xs) * torch.finfo(torch.float32).eps
        assert_exact(ours, theirs, f"gradient of {key}", within)
    assert_exact(found, gradients, "gradient")


@every
def test_a_golden_can_fail(name):
    _, right = golden(name)
    model = model_of(name)
    with torch.no_grad():
        model.alpha20.mul_(1 + 1e-6)
        ys, _ = model(right["x"])
    with pytest.raises(AssertionError, match="off by"):
        assert_exact(ys, right["y"], within=EXACT)
