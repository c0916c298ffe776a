"""What is drawn of a memory is what the model held."""

import pytest
import torch

import twomem
from twomem import models, tasks
from twomem.report import memories


@pytest.fixture(params=models.names())
def seen(request):
    task = tasks.load("associative_retrieval", pairs=2)
    model = type(models.load(request.param)).small().build(task.input_size, task.output_size)
    return model, task, memories.trace(model, task, seed=3)


def test_the_trace_holds_every_state_and_the_sequence_it_came_from(seen):
    model, task, trace = seen
    xs = task.draw(1, task.generator(3, held_out=True)).inputs
    ys, state = model(xs)
    for name, values in trace.states.items():
        assert len(values) == len(xs) + 1
        torch.testing.assert_close(values[-1], getattr(state, name)[0].detach())
    torch.testing.assert_close(trace.answers, ys[:, 0].detach())
    assert trace.asked == [len(xs) - 1]


def test_every_memory_is_drawn(seen, tmp_path):
    _, _, trace = seen
    memories.draw(trace, "a title", tmp_path / "seen.png")
    assert (tmp_path / "seen.png").stat().st_size > 5000


def test_labels_say_what_is_read():
    task = tasks.load("copy", bits=2, shortest=2, longest=2)
    trace = memories.trace(twomem.LSTM(4, 2, hidden=3), task, seed=0)
    assert trace.labels == ["<", "1", "2", ">", ".", "."]


def test_a_memory_that_doubles_has_moved_by_half_of_what_it_is():
    states = {"items": torch.tensor([[[1.0]], [[2.0]], [[2.0]]])}
    empty = torch.zeros(2, 1)
    trace = memories.Trace(["a", "b"], empty, empty, empty, [], states)
    assert memories.changes(trace) == {"items": [0.5, 0.0]}


def test_a_long_stack_is_drawn_in_part():
    states = {"relations": torch.zeros(3, 9, 2, 2), "hidden": torch.zeros(3, 4)}
    empty = torch.zeros(2, 1)
    rows = memories.rows(memories.Trace(["a", "b"], empty, empty, empty, [], states))
    assert [row.title for row in rows] == [*(f"relations [{i}]" for i in range(4)), "hidden"]
    assert rows[-1].values.shape == (3, 4, 1)
