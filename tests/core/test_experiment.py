"""An experiment is a value: its name changes with every setting but how long it runs."""

from twomem import LSTM, models, tasks
from twomem.core.embedding import Embedded
from twomem.core.experiment import Experiment
from twomem.core.train import Train


def experiment(**changed):
    parts = {"task": tasks.load("copy"), "model": models.load("lstm", hidden=4), **changed}
    return Experiment(**parts)


def test_the_same_experiment_has_the_same_name():
    assert experiment() == experiment()
    assert experiment().short_hash() == experiment().short_hash()
    assert len(experiment().short_hash()) == 8


def test_any_setting_changes_the_name():
    others = [
        experiment(),
        experiment(seed=1),
        experiment(train=Train(batch=7)),
        experiment(train=Train(stop_at={"bit_errors": 0.0})),
        experiment(task=tasks.load("copy", bits=3)),
        experiment(task=tasks.load("associative_retrieval")),
        experiment(model=models.load("lstm", hidden=5)),
        experiment(model=models.load("stm")),
    ]
    assert len({each.short_hash() for each in others}) == len(others)


def test_more_updates_keep_the_name():
    # so that a longer run goes on in the folder of the shorter one
    assert experiment(train=Train(steps=7)).short_hash() == experiment().short_hash()


def test_a_task_that_asks_for_an_embedding_gets_one():
    plain = experiment(task=tasks.load("copy", bits=3)).build()
    assert type(plain) is LSTM
    assert (plain.input_size, plain.output_size) == (5, 3)
    task = tasks.load("associative_retrieval", embedding=6)
    embedded = experiment(task=task).build()
    assert isinstance(embedded, Embedded)
    assert (embedded.input_size, embedded.output_size) == (37, 10)
    assert (embedded.memory.input_size, embedded.memory.output_size) == (6, 10)


def test_settings_have_the_sizes_of_task_and_model():
    settings = experiment().settings()
    assert settings["model"] == {"name": "lstm", "hidden": 4}
    assert settings["task"]["name"] == "copy"
    assert settings["task"]["bits"] == 32
    assert settings["seed"] == 0
    assert settings["train"]["steps"] == 50_000
