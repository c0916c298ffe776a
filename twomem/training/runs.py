"""A run: one experiment in one folder, which can be stopped at any point and gone on with.

```text
runs/copy/stm/1f0c2a9b/
  experiment.json       the task, the model, how it is trained, the seed
  environment.json      versions, device, threads, commit
  measurements.jsonl    a line per measurement
  tensorboard/          the same, for TensorBoard
  checkpoints/          the newest two
  model.safetensors     the weights, once the run is done
```
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from twomem import models, tasks
from twomem.core.catalogue import reload
from twomem.core.config import guess
from twomem.core.errors import BadFile, SettingsError
from twomem.core.experiment import Experiment
from twomem.core.train import Train
from twomem.training import checkpoints, environment
from twomem.training.files import read_json, said_plainly, to_json, write_whole
from twomem.training.journal import Journal
from twomem.training.lock import only_one
from twomem.training.stopping import Stop
from twomem.training.supervised import Training


class Outcome(NamedTuple):
    """How a call of `run` ended."""

    folder: Path
    step: int
    done: bool
    scores: dict[str, float]
    seconds: float


class Hooks(NamedTuple):
    """What a caller wants to hear while a run goes on."""

    step: Callable[[int], None] = lambda _step: None
    measured: Callable[[dict[str, Any]], None] = lambda _measurement: None
    warn: Callable[[str], None] = lambda _sentence: None


def run(
    experiment: Experiment,
    folder: Path,
    device: torch.device | str = "cpu",
    hooks: Hooks | None = None,
) -> Outcome:
    """Trains in `folder`, from its newest checkpoint if it has one.

    Ctrl-C and a polite kill make a checkpoint first. An experiment with more steps than the
    folder's goes on with it; any other difference is refused.

    Raises:
        RunInUse: another process trains there.
        Diverged: the loss or a gradient is not finite; the checkpoints stay.
        SettingsError: the folder holds another experiment.
        BadFile: a file of the folder is damaged beyond use.
    """
    hooks = hooks or Hooks()
    known = experiment.task.perfect
    for name in experiment.train.stop_at.keys() - known.keys():
        raise SettingsError(f"{experiment.task.name} has no score {name!r}: {guess(name, known)}")
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with only_one(folder), Stop() as stop:
        _settle(experiment, folder)
        environment.settle(folder, device)
        training = Training(experiment, device)
        saved = checkpoints.read_newest(folder / "checkpoints", hooks.warn)
        if saved is not None:
            training.restore(*saved)
        with Journal(folder, training.step) as journal:
            return _train(training, folder, journal, stop, hooks)


def _train(training: Training, folder: Path, journal: Journal, stop: Stop, hooks: Hooks) -> Outcome:
    how, started, before = training.experiment.train, time.perf_counter(), journal.seconds
    scores, saved = journal.last_scores, training.step

    def seconds() -> float:
        return before + time.perf_counter() - started

    while (
        training.step < how.steps and not stop.asked and not _reached(training.experiment, scores)
    ):
        loss = training.update()
        hooks.step(training.step)
        reports = training.step % how.report_every == 0 or training.step == how.steps
        saves = training.step % how.save_every == 0
        if reports or saves:
            training.ask()
        if reports:
            scores = training.held_out()
            line = {"step": training.step, "loss": loss.item(), **scores, "seconds": seconds()}
            journal.add(line)
            hooks.measured(line)
        if saves:
            _save(training, folder)
            saved = training.step
    done = training.step >= how.steps or _reached(training.experiment, scores)
    if training.step > saved:
        training.ask()
        _save(training, folder)
    if done:
        weights = checkpoints.serialised(training.model.state_dict())
        write_whole(folder / "model.safetensors", weights)
    return Outcome(folder, training.step, done, scores, seconds())


def _reached(experiment: Experiment, scores: dict[str, float]) -> bool:
    """Whether every score at which to stop is as near to perfect as wanted."""
    perfect, goals = experiment.task.perfect, experiment.train.stop_at
    return bool(goals and scores) and all(
        abs(perfect[name] - scores[name]) <= abs(perfect[name] - goal)
        for name, goal in goals.items()
    )


def _save(training: Training, folder: Path) -> None:
    parameters = dict(training.model.state_dict())
    whole = checkpoints.Checkpoint(training.step, parameters, training.state())
    checkpoints.write(folder / "checkpoints", whole)


def _settle(experiment: Experiment, folder: Path) -> None:
    """Writes what is trained, or compares it with what the folder says."""
    path = folder / "experiment.json"
    wanted = experiment.settings()
    if path.exists():
        held = read_experiment(path)
        differ = _differences(held.settings(), wanted)
        if set(differ) - {"train.steps"}:
            raise SettingsError(
                f"{folder} holds another experiment ({', '.join(differ)}): choose another folder"
            )
        if held.train.steps > experiment.train.steps:
            raise SettingsError(
                f"{folder} holds a run of {held.train.steps} updates, which cannot become one of "
                f"{experiment.train.steps}: choose another folder"
            )
        if not differ:
            return
    write_whole(path, to_json(wanted))


def _differences(one: Any, other: Any, place: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        found = (_differences(one.get(k), other.get(k), f"{place}.{k}") for k in keys)
        return [each for several in found for each in several]
    return [] if one == other else [place.removeprefix(".")]


def from_settings(saved: dict[str, Any]) -> Experiment:
    """Makes again the experiment that `Experiment.settings` described."""
    saved = dict(saved)
    return Experiment(
        task=reload(tasks, saved.pop("task", None)),
        model=reload(models, saved.pop("model", None)),
        **{**saved, "train": Train(**saved.get("train", {}))},
    )


def read_experiment(path: Path) -> Experiment:
    """Reads what `run` wrote.

    Raises:
        BadFile: the file is missing or cut, or its settings cannot be.
    """
    saved = read_json(path)
    try:
        return from_settings(saved)
    except (SettingsError, LookupError, TypeError) as error:
        raise BadFile(f"{path}: {error}") from None
