"""A run can be stopped at any point and goes on to the same numbers, bit for bit."""

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest
import torch
from small import SIZES, experiment, numbers, weights

from twomem.core.errors import BadFile, Diverged, RunInUse, SettingsError
from twomem.training import checkpoints
from twomem.training.files import Unwritable
from twomem.training.runs import Hooks, read_experiment, run
from twomem.training.supervised import Training


def stop_after(step: int) -> Hooks:
    """Asks politely to stop, as Ctrl-C does, in the middle of a run."""
    return Hooks(step=lambda now: os.kill(os.getpid(), signal.SIGINT) if now == step else None)


@pytest.mark.parametrize("model", sorted(SIZES))
@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_a_stopped_run_goes_on_to_the_same_numbers(tmp_path, model, optimizer):
    wanted = experiment(model=model, optimizer=optimizer)
    run(wanted, tmp_path / "whole")
    for step in (2, 5, 9):
        assert not run(wanted, tmp_path / "parts", hooks=stop_after(step)).done
    assert run(wanted, tmp_path / "parts").done
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    assert numbers(tmp_path / "parts") == numbers(tmp_path / "whole")


def test_another_seed_gives_other_numbers(tmp_path):
    run(experiment(seed=1), tmp_path / "one")
    run(experiment(seed=2), tmp_path / "two")
    assert weights(tmp_path / "one") != weights(tmp_path / "two")


def test_a_stop_saves_the_update_it_stopped_at(tmp_path):
    outcome = run(experiment(), tmp_path, hooks=stop_after(5))
    assert outcome.step == 5
    saved = checkpoints.read_newest(tmp_path / "checkpoints", pytest.fail)
    assert saved is not None
    assert saved.step == 5


def test_a_finished_run_is_not_trained_again(tmp_path):
    run(experiment(), tmp_path)
    heard = []
    outcome = run(experiment(), tmp_path, hooks=Hooks(step=heard.append))
    assert outcome.done
    assert heard == []
    assert outcome.scores == {k: numbers(tmp_path)[-1][k] for k in ("bit_errors", "items_perfect")}


def test_a_run_can_be_made_longer(tmp_path):
    run(experiment(8), tmp_path / "parts")
    run(experiment(12), tmp_path / "parts")
    run(experiment(12), tmp_path / "whole")
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_another_experiment_in_the_folder_is_refused_by_the_setting_that_differs(tmp_path):
    run(experiment(), tmp_path)
    before = weights(tmp_path)
    with pytest.raises(SettingsError, match=r"another experiment.*train.learning_rate"):
        run(experiment(learning_rate=0.5), tmp_path)
    assert weights(tmp_path) == before


def test_a_second_run_in_the_folder_is_refused(tmp_path):
    with (tmp_path / ".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RunInUse, match="another process trains in"):
            run(experiment(), tmp_path)
    assert run(experiment(), tmp_path).done


def test_reaching_the_goal_ends_the_run(tmp_path):
    easy = experiment(1000, stop_at={"bit_errors": 100.0})
    assert run(easy, tmp_path).step == 3


def test_a_goal_for_an_unknown_score_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="did you mean 'bit_errors'"):
        run(experiment(stop_at={"bit_error": 1.0}), tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_gradient_is_named_and_the_last_checkpoint_stays(tmp_path, value, monkeypatch):
    def spoil(training):
        if training.step == 6:
            training.model.distil.weight.register_hook(lambda grad: torch.full_like(grad, value))
        return update(training)

    update = Training.update
    monkeypatch.setattr(Training, "update", spoil)
    with pytest.raises(Diverged, match=r"gradient of distil.weight is not finite at update 7"):
        run(experiment(), tmp_path)
    saved = checkpoints.read_newest(tmp_path / "checkpoints", pytest.fail)
    assert saved is not None
    assert saved.step == 4
    assert all(each.isfinite().all() for each in saved.parameters.values())


def test_a_bad_loss_is_named(tmp_path):
    with pytest.raises(Diverged, match=r"the loss is not finite at update"):
        run(experiment(200, learning_rate=1e30, clip_value=None), tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unwritable, match=r"cannot write .*file/run: .* nothing was changed"):
        run(experiment(), tmp_path / "file" / "run")


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    run(experiment(4), tmp_path)
    before = weights(tmp_path)

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("twomem.training.files.os.fsync", full)
    with pytest.raises(
        Unwritable, match=r"^cannot write \S+: the disk is full; nothing was changed$"
    ):
        run(experiment(12), tmp_path)
    monkeypatch.undo()
    assert weights(tmp_path) == before
    assert not list(tmp_path.rglob(".*writing"))
    assert run(experiment(12), tmp_path).done


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"task": {"name": "copy"}}', '{"task": 3, "model": {"name": "stm"}}', "\0"],
)
def test_a_spoilt_description_is_refused_by_its_name(tmp_path, text):
    run(experiment(4), tmp_path)
    (tmp_path / "experiment.json").write_text(text)
    with pytest.raises(BadFile, match=r"experiment\.json"):
        run(experiment(4), tmp_path)


def test_an_experiment_survives_its_json(tmp_path):
    wanted = experiment(seed=7)
    run(wanted, tmp_path)
    assert read_experiment(tmp_path / "experiment.json") == wanted


def test_the_environment_is_written_and_its_threads_are_kept(tmp_path):
    run(experiment(4), tmp_path)
    path = Path(tmp_path / "environment.json")
    described = json.loads(path.read_text())
    assert (
        described["packages"]["torch"] == torch.__version__.split("+")[0]
        or described["packages"]["torch"] == torch.__version__
    )
    path.write_text(json.dumps({**described, "threads": 2}))
    try:
        run(experiment(8), tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
