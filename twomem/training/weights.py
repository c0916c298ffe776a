"""Finds the model in a folder: a run, an exported model, or a converted one."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from twomem import models, tasks
from twomem.core.catalogue import reload
from twomem.core.errors import BadFile, SettingsError
from twomem.core.memory import Memory
from twomem.core.model import ModelConfig
from twomem.core.task import Task
from twomem.training import checkpoints
from twomem.training.files import read_json, read_tensors
from twomem.training.runs import read_experiment
from twomem.training.supervised import load_parameters


class Trained(NamedTuple):
    """A model with its weights, and what it was trained on if that is known."""

    model: Memory[Any]
    config: ModelConfig
    task: Task | None
    seed: int
    step: int | None


def load(folder: Path) -> Trained:
    """Loads the weights of a folder: its newest whole checkpoint, or else `model.safetensors`.

    Beside them stands `experiment.json` (a run) or `config.json` (a converted model).

    Raises:
        BadFile: there are none, or a file is cut, altered or of another model.
    """
    if not folder.is_dir():
        raise BadFile(f"{folder} is not a folder: name a run, or a folder with model.safetensors")
    if (folder / "experiment.json").exists():
        experiment = read_experiment(folder / "experiment.json")
        model = experiment.build()
        step = _fill(model, folder)
        return Trained(model.eval(), experiment.model, experiment.task, experiment.seed, step)
    if (folder / "config.json").exists():
        config, sizes = _from_config(folder / "config.json")
        try:
            model = config.build(*sizes)
        except (TypeError, ValueError) as error:
            raise BadFile(f"{folder / 'config.json'} does not describe a model: {error}") from None
        _fill(model, folder)
        return Trained(model.eval(), config, None, 0, None)
    raise BadFile(f"{folder} holds neither experiment.json nor config.json: it is not a run")


def task_for(trained: Trained, name: str | None, settings: dict[str, Any]) -> Task:
    """The task of that name, or the one that the model was trained on.

    Raises:
        SettingsError: neither is known, or the task has other widths than the model.
    """
    if name is None and settings and trained.task is not None:
        name, settings = trained.task.name, {**dict(trained.task), **settings}
    task = trained.task if name is None else tasks.load(name, **settings)
    if task is None:
        raise SettingsError("these weights do not say their task: name one with --task")
    model = trained.model
    if (model.input_size, model.output_size) != (task.input_size, task.output_size):
        raise SettingsError(
            f"{task.name} has inputs of {task.input_size} and answers of {task.output_size}; "
            f"this model reads {model.input_size} and answers {model.output_size}"
        )
    return task


def _from_config(path: Path) -> tuple[ModelConfig, tuple[int, int]]:
    """The settings and widths that a `config.json` holds."""
    saved = read_json(path)
    try:
        return reload(models, saved["model"]), (saved["input_size"], saved["output_size"])
    except KeyError as error:
        raise BadFile(f"{path} does not describe a model: it has no {error}") from None
    except (SettingsError, LookupError) as error:
        raise BadFile(f"{path} does not describe a model: {error}") from None


def _fill(model: Memory[Any], folder: Path) -> int | None:
    """Fills in the weights; returns the update they are from, if that is known."""
    path, step = folder / "model.safetensors", None
    found = checkpoints.read_newest(folder / "checkpoints", _warn)
    if found is not None:
        step, tensors = found.step, found.parameters
    elif path.exists():
        tensors = read_tensors(path)
    else:
        raise BadFile(f"{folder} has no weights yet: neither a checkpoint nor model.safetensors")
    dtypes = {each.dtype for each in tensors.values() if each.is_floating_point()}
    if len(dtypes) == 1:
        model.to(dtypes.pop())
    load_parameters(model, tensors)
    return step


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=2)
