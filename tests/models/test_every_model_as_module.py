"""What holds for every model as a module: precision, copies, settings, sizes."""

import copy
import json

import pytest
import torch
from accuracy import assert_exact
from models.contract import INPUT, OUTPUT, config_of, draw, small, some_state
from torch.utils._pytree import tree_leaves

from twomem import models
from twomem.core.catalogue import kind, reload
from twomem.core.memory import Memory
from twomem.core.model import ModelConfig

every = pytest.mark.parametrize("name", models.names())


@every
def test_a_file_of_models_defines_settings_that_build_a_memory(name):
    config = models.load(name)
    assert isinstance(config, ModelConfig)
    assert config.name == name
    assert isinstance(config_of(name).build(INPUT, OUTPUT), Memory)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_answers_and_states_have_the_precision_of_the_model(name, dtype):
    memory, xs = small(name).to(dtype), draw(3).to(dtype)
    for found in (memory(xs), memory.step(xs[0]), memory(xs, lengths=[3, 1])):
        for leaf in tree_leaves(found):
            assert leaf.dtype == dtype
            assert leaf.isfinite().all()


@every
def test_a_copy_gives_the_same_answers_and_is_apart(name):
    memory, xs = small(name), draw(4)
    before = memory(xs)
    twin = copy.deepcopy(memory)
    assert_exact(twin(xs), before, within=0)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    assert_exact(memory(xs), before, within=0)


@every
def test_saved_parameters_make_the_same_model_again(name, tmp_path):
    memory, xs = small(name), draw(4)
    torch.save(memory.state_dict(), tmp_path / "parameters.pt")
    other = small(name, seed=1)
    assert not torch.equal(other(xs)[0], memory(xs)[0])
    other.load_state_dict(torch.load(tmp_path / "parameters.pt", weights_only=True))
    assert_exact(other(xs), memory(xs), within=0)


@every
def test_settings_make_the_same_model_again(name):
    config = config_of(name)
    again = reload(models, json.loads(json.dumps(config.settings())))
    assert again == config
    assert type(again) is type(config)
    shapes = [
        {which: tuple(p.shape) for which, p in each.build(INPUT, OUTPUT).named_parameters()}
        for each in (config, again)
    ]
    assert shapes[0] == shapes[1]


@every
def test_settings_may_be_keywords_of_the_model(name):
    config = config_of(name)
    given = {key: value for key, value in config.settings().items() if key != "name"}
    made = type(config.build(INPUT, OUTPUT))
    assert made(INPUT, OUTPUT, **given).config == config
    assert made(INPUT, OUTPUT, config).config == config
    # keywords stand above the settings that they are given beside
    first = next(iter(given))
    changed = made(INPUT, OUTPUT, config, **{first: given[first] + 1}).config
    assert changed == type(config)(**{**given, first: given[first] + 1})
    assert models.load(name, **given) == config


@every
def test_the_same_seed_makes_the_same_parameters(name):
    made = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        made.append(dict(config_of(name).build(INPUT, OUTPUT).state_dict()))
    assert_exact(made[0], made[1], within=0)
    assert any(not torch.equal(made[0][key], made[2][key]) for key in made[0])


@every
def test_sizes_are_counted_right(name):
    memory = small(name)
    held = sum(part[0].numel() for part in tree_leaves(some_state(memory, 5)))
    assert memory.state_size == held
    learned = sum(value.numel() for value in memory.state_dict().values())
    assert memory.parameter_count == learned
    assert (memory.input_size, memory.output_size) == (INPUT, OUTPUT)


@every
def test_a_model_built_without_memory_can_be_filled(name):
    whole, xs = small(name), draw(4)
    with torch.device("meta"):
        empty = config_of(name).build(INPUT, OUTPUT).double()
    assert all(parameter.is_meta for parameter in empty.parameters())
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(whole.state_dict())
    assert_exact(filled(xs), whole(xs), within=0)


@every
def test_a_model_without_memory_tells_the_shapes_of_its_answers(name):
    with torch.device("meta"):
        memory = config_of(name).build(INPUT, OUTPUT)
        ys, state = memory(torch.zeros(5, 2, INPUT))
    assert ys.shape == (5, 2, OUTPUT)
    assert all(part.is_meta for part in tree_leaves(state))


@every
def test_the_default_settings_build_a_model_that_reads(name):
    # the paper's sizes, for one step
    memory = kind(models, name)().build(INPUT, OUTPUT)
    y, _ = memory.step(torch.zeros(1, INPUT))
    assert y.shape == (1, OUTPUT)
    assert y.isfinite().all()
