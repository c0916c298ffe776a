"""What holds for every file in twomem/tasks."""

import json
from math import inf

import pytest
import torch
from accuracy import assert_exact
from hypothesis import assume, given
from hypothesis import strategies as st

from twomem import tasks
from twomem.core.catalogue import reload
from twomem.core.config import SEEDS
from twomem.core.task import Task

every = pytest.mark.parametrize("name", tasks.names())
seeds = st.integers(0, SEEDS - 1)
ROWS = 3


def batch_of(task, seed, count=ROWS, **how):
    return task.draw(count, task.generator(seed, **how))


def random_outputs(task, batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch.inputs.shape[:2], task.output_size, generator=generator)


@every
@given(seed=seeds)
def test_the_oracle_is_perfect(name, seed):
    task = tasks.load(name)
    batch = batch_of(task, seed)
    answers = task.oracle(batch.inputs)
    assert task.score(answers, batch) == task.perfect
    # and it is sure: its loss is next to none
    assert 0 <= task.loss(answers, batch) < 1e-6 < task.loss(0 * answers, batch)


@every
@given(seed=seeds)
def test_who_answers_otherwise_is_not_perfect(name, seed):
    task = tasks.load(name)
    batch = batch_of(task, seed)
    wrong = task.score(-task.oracle(batch.inputs), batch)
    assert wrong.keys() == task.perfect.keys()
    assert all(wrong[what] != task.perfect[what] for what in wrong)


@every
@given(seed=seeds)
def test_a_seed_means_a_batch(name, seed):
    task = tasks.load(name)
    assert all(map(torch.equal, batch_of(task, seed), batch_of(task, seed)))


@every
@given(seed=seeds)
def test_the_next_batch_of_a_stream_is_another(name, seed):
    task = tasks.load(name)
    stream = task.generator(seed)
    first, second = (task.draw(ROWS, stream).inputs for _ in range(2))
    assert first.shape != second.shape or not torch.equal(first, second)


@every
@given(count=st.integers(1, 5), seed=seeds)
def test_sizes_are_as_promised(name, count, seed):
    task = tasks.load(name)
    inputs, targets, asked, when = batch = batch_of(task, seed, count)
    assert when is not None
    assert isinstance(task, Task)
    assert inputs.shape == (len(inputs), count, task.input_size)
    assert targets.shape == (len(inputs), count, task.output_size)
    assert asked.shape == inputs.shape[:2]
    assert (inputs.dtype, targets.dtype, asked.dtype) == (torch.float32, torch.float32, torch.bool)
    assert asked.any(0).all(), "a row is asked nothing"
    assert torch.equal(batch.steps, asked.any(1))
    assert len(task.labels(inputs[:, 0])) == len(inputs)


def first_numbers(task, seed, held_out):
    stream = task.generator(seed, held_out=held_out)
    return tuple(torch.randint(2**31, (4,), generator=stream).tolist())


@every
def test_no_two_of_many_streams_begin_alike(name):
    # a generator that knew less of its seed than it is given would show here
    task = tasks.load(name)
    some = [*range(201), *(SEEDS - 1 - i for i in range(50)), *(2**i for i in range(9, 31))]
    streams = [(seed, held_out) for seed in set(some) for held_out in (False, True)]
    assert len({first_numbers(task, *stream) for stream in streams}) == len(streams)


@every
@given(one=seeds, other=seeds)
def test_held_out_streams_are_apart_from_those_of_training(name, one, other):
    task = tasks.load(name)
    assert first_numbers(task, one, held_out=False) != first_numbers(task, other, held_out=True)
    assume(one != other)
    for held_out in (False, True):
        assert first_numbers(task, one, held_out) != first_numbers(task, other, held_out)


@every
@pytest.mark.parametrize("seed", [-1, SEEDS, 2**40])
def test_a_seed_that_generators_do_not_know_is_refused(name, seed):
    with pytest.raises(ValueError, match=f"the seed is {seed}; 0 to {SEEDS - 1} is possible"):
        tasks.load(name).generator(seed)


@every
def test_chance_is_what_random_answers_get(name):
    task, batches = tasks.load(name), 400
    stream = task.generator(0)
    scores = []
    for i in range(batches):
        batch = task.draw(8, stream)
        scores.append(task.score(random_outputs(task, batch, seed=i), batch))
    assert scores[0].keys() == task.chance.keys() == task.perfect.keys()
    for what, expected in task.chance.items():
        got = torch.tensor([score[what] for score in scores], dtype=torch.float64)
        # a score that is all but never reached shows no spread: one in all draws is its grain
        allowed = 5 * got.std().item() / batches**0.5 + 100 / (8 * batches)
        assert abs(got.mean().item() - expected) <= allowed, f"{what}: {got.mean()}, not {expected}"


@every
@given(seed=seeds)
def test_answers_at_all_steps_and_at_asked_steps_are_worth_the_same(name, seed):
    task = tasks.load(name)
    batch = batch_of(task, seed)
    outputs = random_outputs(task, batch)
    few = outputs[batch.steps]
    assert_exact(task.loss(few, batch), task.loss(outputs, batch), within=0)
    assert task.score(few, batch) == task.score(outputs, batch)


@every
@given(seed=seeds, spoil=st.sampled_from([1e6, -1e6, inf]))
def test_what_is_not_asked_is_not_judged(name, seed, spoil):
    task = tasks.load(name)
    batch = batch_of(task, seed)
    outputs = random_outputs(task, batch)
    other = torch.where(batch.asked[..., None], outputs, spoil)
    assert_exact(task.loss(other, batch), task.loss(outputs, batch), within=0)
    assert task.score(other, batch) == task.score(outputs, batch)


@every
@given(seed=seeds, off=st.sampled_from([-1, 1, 7]))
def test_another_number_of_answers_is_refused(name, seed, off):
    task = tasks.load(name)
    batch = batch_of(task, seed)
    steps, asked = len(batch.inputs), int(batch.steps.sum())
    outputs = torch.zeros(steps + off, ROWS, task.output_size)
    assume(len(outputs) != asked)
    for judge in (task.loss, task.score):
        with pytest.raises(ValueError, match=f"{len(outputs)} steps; {asked} .* or {steps} "):
            judge(outputs, batch)


@every
def test_settings_make_the_same_task_again(name):
    task = tasks.load(name)
    again = reload(tasks, json.loads(json.dumps(task.settings())))
    assert again == task
    assert type(again) is type(task)
    assert task.name == name
    assert all(map(torch.equal, batch_of(task, 5), batch_of(again, 5)))


@every
def test_answers_of_other_rows_or_another_width_are_refused(name):
    # one row against three would be compared with each of them, and nobody would notice
    task = tasks.load(name)
    batch = batch_of(task, 0)
    outputs = random_outputs(task, batch)
    for wrong in (outputs[:, :1], outputs[:, :2], outputs[..., :1], outputs.repeat(1, 1, 2)):
        for judge in (task.loss, task.score):
            with pytest.raises(ValueError, match=f"outputs .*{wrong.shape[-1]}"):
                judge(wrong, batch)
