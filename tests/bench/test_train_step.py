"""A whole update and its pass alone: the same computation, but for what an update adds."""

import pytest
from shell import document

from twomem import tasks
from twomem.bench.train_step import MODELS, ONE_LENGTH


def test_a_whole_update_is_measured_beside_its_pass():
    sizes = ("--width", "4", "--queries", "2", "--batch", "2")
    told = document("bench", "train_step", *sizes, "--repeats", "3")
    names = [(row["task"], row["model"]) for row in told["records"]]
    assert names == [(task, model) for task in tasks.names() for model in MODELS]
    for row in told["records"]:
        low, high = row["times_alone_spread"]
        assert 0 < low <= row["times_alone"] <= high
        assert row["spread"][0] <= row["milliseconds"] <= row["spread"][1]
        per_step = 1e3 * row["milliseconds"] / row["time"]
        assert row["microseconds_per_step"] == pytest.approx(per_step)
        assert (row["floor_microseconds_per_step"] is None) == (row["model"] == "lstm")
        assert (row["precision"], row["batch"]) == ("fp32", 2)


@pytest.mark.parametrize("name", tasks.names())
def test_tasks_have_one_length(name):
    task = tasks.load(name, **ONE_LENGTH.get(name, {}))
    stream = task.generator(0)
    assert len({task.draw(1, stream).inputs.shape for _ in range(20)}) == 1
