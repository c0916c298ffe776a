"""The loop that trains a memory on a task: all that changes while it runs, and one update of it."""

from typing import Any

import torch
from torch import Tensor, nn, optim

from twomem.core.errors import BadFile, Diverged
from twomem.core.experiment import Experiment
from twomem.core.memory import Memory
from twomem.core.task import Task
from twomem.core.train import Train


class Training:
    """A model in training: parameters, optimiser, random streams, and the number of updates.

    Two of these made from one experiment go through the same numbers; on a CPU bit for bit. So
    does one that takes over the `state` of another.
    """

    def __init__(self, experiment: Experiment, device: torch.device | str = "cpu") -> None:
        """Makes fresh parameters and starts the random streams, from the experiment's seed."""
        self.experiment, self.device, self.step = experiment, torch.device(device), 0
        task = experiment.task
        torch.manual_seed(experiment.seed)
        self.model: Memory[Any] = experiment.build()
        self.model.to(self.device)
        self.generator = task.generator(experiment.seed, self.device)
        self.optimizer = make_optimizer(experiment.train, self.model)

    def update(self) -> float:
        """Makes one update; returns the loss before it.

        Raises:
            Diverged: the loss or a gradient is not finite; the parameters stay as they are.
        """
        how, task = self.experiment.train, self.experiment.task
        batch = task.draw(how.batch, self.generator)
        self.optimizer.zero_grad(set_to_none=True)
        ys, _ = self.model(batch.inputs, asked=batch.steps)
        loss = task.loss(ys, batch)
        loss.backward()
        self._check(loss.detach())
        if how.clip_value is not None:
            nn.utils.clip_grad_value_(self.model.parameters(), how.clip_value)
        if how.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), how.clip_norm)
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def _check(self, loss: Tensor) -> None:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if (loss + nn.utils.get_total_norm(gradients)).isfinite():
            return
        where = f"at update {self.step + 1}"
        if not loss.isfinite():
            raise Diverged(f"the loss is {loss.item()} {where}")
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                raise Diverged(f"the gradient of {name} is not finite {where}")
        raise Diverged(f"the norm of all gradients is not finite {where}")

    def held_out(self) -> dict[str, float]:
        """The mean scores on the same held-out batches each time."""
        how, task = self.experiment.train, self.experiment.task
        stream = task.generator(self.experiment.seed, self.device, held_out=True)
        scores = evaluate(self.model, task, stream, how.test_batches, how.batch)
        return {name: sum(values) / len(values) for name, values in scores.items()}

    def state(self) -> dict[str, Tensor]:
        """What goes on with the training, the parameters left out."""
        names = [name for name, _ in self.model.named_parameters()]
        tensors = {
            f"optimizer/{names[index]}/{key}": value
            for index, kept in self.optimizer.state_dict()["state"].items()
            for key, value in kept.items()
            if isinstance(value, Tensor)
        }
        tensors["random/task"] = self.generator.get_state()
        tensors["random/torch"] = torch.get_rng_state()
        return tensors

    def restore(self, step: int, parameters: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Goes on from what `state` gave at `step`.

        Raises:
            BadFile: the tensors are those of another model.
        """
        load_parameters(self.model, parameters)
        numbers = {name: i for i, (name, _) in enumerate(self.model.named_parameters())}
        kept: dict[int, dict[str, Tensor]] = {}
        for place, value in state.items():
            kind, _, rest = place.partition("/")
            if kind == "optimizer":
                name, _, key = rest.rpartition("/")
                kept.setdefault(numbers[name], {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": kept, "param_groups": groups})
        self.generator.set_state(state["random/task"])
        torch.set_rng_state(state["random/torch"])
        self.step = step


def make_optimizer(how: Train, model: nn.Module) -> optim.Optimizer:
    """The rule that `how` names, over all parameters."""
    if how.optimizer == "adam":
        return optim.Adam(model.parameters(), lr=how.learning_rate)
    return optim.RMSprop(
        model.parameters(), lr=how.learning_rate, alpha=how.decay, momentum=how.momentum
    )


@torch.no_grad()
def evaluate(
    model: Memory[Any], task: Task, stream: torch.Generator, batches: int, size: int
) -> dict[str, list[float]]:
    """Every score on each of `batches` batches of `size` sequences from the stream."""
    scores: dict[str, list[float]] = {}
    for _ in range(batches):
        batch = task.draw(size, stream)
        ys, _ = model(batch.inputs, asked=batch.steps)
        for name, value in task.score(ys, batch).items():
            scores.setdefault(name, []).append(value)
    return scores


def load_parameters(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Puts `tensors` in place of the parameters.

    Raises:
        BadFile: names or shapes are those of another model; the first that differs is named.
    """
    own = model.state_dict()
    kind = type(model).__name__
    for name in sorted(own.keys() | tensors.keys()):
        if name not in tensors:
            raise BadFile(f"these are not the weights of this {kind}: there is no {name!r}")
        if name not in own:
            raise BadFile(f"these are not the weights of this {kind}: it has no {name!r}")
        if own[name].shape != tensors[name].shape:
            raise BadFile(
                f"these are not the weights of this {kind}: {name} has shape "
                f"{tuple(tensors[name].shape)}, where it needs {tuple(own[name].shape)}"
            )
    model.load_state_dict(tensors)
