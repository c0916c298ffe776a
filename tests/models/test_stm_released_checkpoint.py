"""Checkpoints of the released STM: every size is read, and what does not fit is told in a sentence."""

import pytest
import torch
from accuracy import assert_exact
from hypothesis import given
from hypothesis import strategies as st
from models.refused import as_users_have_it, check_refused  # noqa: F401 the fixture is autouse
from models.two_forms import BLENDS, moved

from twomem import STMReleased
from twomem.core.errors import BadFile

SIZES = {"queries": 2, "width": 4, "distilled": 3, "bottleneck": 5, "head": 6}
LOAD = STMReleased.from_released_checkpoint


def saved(dtype=torch.float64, **settings):
    """A model, and the checkpoint that the released code would have left of it."""
    torch.manual_seed(0)
    model = moved(STMReleased(3, 7, **{**SIZES, **settings}).to(dtype), first=0.2)
    return model, dict(model.state_dict())


def whole(**settings):
    """A checkpoint with every tensor that the released code saves, used or not."""
    gates_and_transfer = saved(**{**settings, "gates": True, "alphas": (None, None, None)})[1]
    own = saved(**settings)[1]
    fixed = [i for i, a in enumerate(settings.get("alphas", ()), 1) if a is not None]
    extra = {k: v for k, v in gates_and_transfer.items() if k not in {f"alpha{i}0" for i in fixed}}
    return {**extra, **own}


@given(
    sizes=st.fixed_dictionaries({name: st.integers(1, 5) for name in SIZES}),
    hidden=st.integers(0, 3),
    widths=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    gated=st.booleans(),
    alphas=st.tuples(*[st.sampled_from(BLENDS)] * 3),
)
def test_a_checkpoint_makes_the_model_it_was_saved_from(sizes, hidden, widths, gated, alphas):
    model = STMReleased(*widths, **sizes, hidden=hidden, gates=gated, alphas=alphas).double()
    moved(model, first=0.2)
    made = LOAD(model.state_dict(), gated=gated, alphas=alphas)
    assert made.config == model.config
    xs = torch.randn(4, 2, widths[0], dtype=torch.float64)
    assert_exact(made(xs), model(xs), within=0)
    assert all(p.requires_grad for p in made.parameters())


@pytest.mark.parametrize("alphas", [(None, None, None), (1.0, None, 0.0), (0.5, 0.0, None)])
@pytest.mark.parametrize("gated", [True, False])
def test_tensors_that_are_saved_but_not_used_are_left_out(gated, alphas):
    model, _ = saved(gates=gated, alphas=alphas)
    checkpoint = whole(gates=gated, alphas=alphas)
    assert set(model.state_dict()) <= set(checkpoint)
    made = LOAD(checkpoint, gated=gated, alphas=alphas)
    xs = torch.randn(3, 2, 3, dtype=torch.float64)
    assert_exact(made(xs), model(xs), within=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_model_has_the_precision_of_its_checkpoint(dtype):
    model, checkpoint = saved(dtype)
    assert {p.dtype for p in LOAD(checkpoint).parameters()} == {dtype}
    # two scalars of a released float64 model are narrower than the rest
    checkpoint["forget_bias"] = checkpoint["forget_bias"].float()
    made = LOAD(checkpoint)
    assert {p.dtype for p in made.parameters()} == {dtype}
    assert made.forget_bias.item() == model.forget_bias.float().item()


def test_the_model_is_apart_from_its_checkpoint():
    _, checkpoint = saved()
    made, before = LOAD(checkpoint), checkpoint["out.weight"].clone()
    with torch.no_grad():
        made.out.weight.add_(1)
    assert torch.equal(checkpoint["out.weight"], before)


def refused(checkpoint, *words, **told):
    check_refused(lambda: LOAD(checkpoint, **told), BadFile, *words)


@pytest.mark.parametrize("hidden", [0, 2])
def test_a_missing_tensor_is_named(hidden):
    for name in saved(hidden=hidden)[1]:
        _, checkpoint = saved(hidden=hidden)
        del checkpoint[name]
        # without a layer, what is left of its neighbours may be what does not fit
        refused(checkpoint, "fc" if ".fc" in name else name)


def test_an_extra_tensor_is_named():
    refused({**saved()[1], "previous_state": torch.zeros(2)}, "previous_state")
    _, checkpoint = saved(gates=False)
    refused(checkpoint, "input_", gated=True)


@pytest.mark.parametrize("name", list(saved()[1]))
def test_a_tensor_of_another_shape_is_named(name):
    _, checkpoint = saved()
    checkpoint[name] = torch.zeros(*checkpoint[name].shape, 1)
    refused(checkpoint, name, "shape")


@pytest.mark.parametrize("name", [n for n, t in saved()[1].items() if t.ndim and "alpha" not in n])
def test_shapes_that_contradict_are_refused(name):
    _, checkpoint = saved()
    longer = torch.cat([checkpoint[name], checkpoint[name][-1:]])
    checkpoint[name] = longer
    # which of the two that contradict is wrong cannot be known
    refused(checkpoint, "shape")


@pytest.mark.parametrize("which", [1, 2, 3])
@pytest.mark.parametrize("number", [0.0, 0.5, 1.0])
def test_a_learned_blend_told_as_a_number(which, number):
    alphas = [None, None, None]
    alphas[which - 1] = number
    refused(saved()[1], f"alpha{which}0", "tell None", alphas=tuple(alphas))


@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_fixed_blend_told_as_learned(which):
    alphas = [None, None, None]
    alphas[which - 1] = 0.5
    _, checkpoint = saved(alphas=tuple(alphas))
    refused(checkpoint, f"alpha{which}0", "must be told as a number")


@pytest.mark.parametrize("name", ["out.weight", "alpha10", "item_memory_state_bias"])
def test_whole_numbers_are_refused(name):
    _, checkpoint = saved()
    checkpoint[name] = checkpoint[name].long()
    refused(checkpoint, name, "int64", "floating")


@pytest.mark.parametrize("wrong", [None, 3.0, "words", [1.0]], ids=repr)
@pytest.mark.parametrize("name", ["out.weight", "alpha10", "input_projector2.fc1.bias"])
def test_what_is_no_tensor_is_refused(name, wrong):
    refused({**saved()[1], name: wrong}, name)


def test_what_is_no_checkpoint_is_refused():
    refused({}, "not the checkpoint of a released STM")
    refused({"weight": torch.zeros(3)}, "not the checkpoint of a released STM")
