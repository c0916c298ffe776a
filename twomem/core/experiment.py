"""One run, described in full: the same experiment on the same machine gives the same numbers."""

import hashlib
import json
from typing import Any

from pydantic import SerializeAsAny

from twomem.core.config import Config, Seed
from twomem.core.embedding import Embedded
from twomem.core.memory import Memory
from twomem.core.model import ModelConfig
from twomem.core.task import Task
from twomem.core.train import Train


class Experiment(Config):
    """A task, a model, how to train, and the seed of everything random."""

    task: SerializeAsAny[Task]
    model: SerializeAsAny[ModelConfig]
    train: Train = Train()
    seed: Seed = 0

    def build(self) -> Memory[Any]:
        """Makes the model, with fresh parameters, behind an embedding if the task asks for one."""
        task = self.task
        if not task.embedding:
            return self.model.build(task.input_size, task.output_size)
        return Embedded(task.input_size, self.model.build(task.embedding, task.output_size))

    def settings(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "task": self.task.settings(),
            "model": self.model.settings(),
            "train": self.train.model_dump(mode="json"),
            "seed": self.seed,
        }

    def short_hash(self) -> str:
        """Eight characters that differ when any setting does, but for the number of updates.

        So a run with more updates finds the folder of the shorter one, and goes on there.
        """
        settings = self.settings()
        del settings["train"]["steps"]
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]
