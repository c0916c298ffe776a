"""The loop that trains a memory on a task: all that changes while it runs, and one update of it."""

from typing import Any

import torch
from torch import Tensor, nn, optim

from twomem.core.errors import BadFile
from twomem.core.experiment import Experiment
from twomem.core.memory import Memory
from twomem.core.task import Task
from twomem.core.train import Train
from twomem.training.captured import Captured
from twomem.training.clipping import clip
from twomem.training.rmsprop import RMSprop
from twomem.training.watch import Watch


class Training:
    """A model in training: parameters, optimiser, random streams, and the number of updates.

    Two of these made from one experiment go through the same numbers; on a CPU bit for bit. So
    does one that takes over the `state` of another. On a GPU nothing waits for the device but
    `ask`, and updates are captured in graphs.
    """

    def __init__(self, experiment: Experiment, device: torch.device | str = "cpu") -> None:
        """Makes fresh parameters and starts the random streams, from the experiment's seed."""
        self.experiment, self.device, self.step = experiment, torch.device(device), 0
        task = experiment.task
        torch.manual_seed(experiment.seed)
        self.model: Memory[Any] = experiment.build()
        self.model.to(self.device)
        self.generator = task.generator(experiment.seed, self.device)
        on_host = self.device.type == "cpu"
        self.lengths = self.generator if on_host else task.generator(experiment.seed)
        self.optimizer = make_optimizer(experiment.train, self.model)
        self._prepare()

    def _prepare(self) -> None:
        """Watches from this update on; what was captured before is forgotten."""
        names = [name for name, _ in self.model.named_parameters()]
        self._watch = Watch(names, self.step, self.device)
        self._run: Any = self._once
        if self.device.type == "cuda":
            self._run = Captured(self._once, self.generator)

    def update(self) -> Tensor:
        """Makes one update; returns the loss before it.

        Raises:
            Diverged: on a CPU, the loss or a gradient is not finite; the parameters stay as they are.
        """
        loss = self._run(self.experiment.task.length(self.lengths))
        self.step += 1
        return loss

    def ask(self) -> None:
        """Waits for the device, if it has one of its own.

        Raises:
            Diverged: the loss or a gradient of some update was not finite.
        """
        self._watch.ask()

    def _once(self, length: int | None) -> Tensor:
        """One update, of a shape that is given."""
        how, task = self.experiment.train, self.experiment.task
        batch = task.draw(how.batch, self.generator, length)
        self.optimizer.zero_grad(set_to_none=True)
        ys, _ = self.model(batch.inputs, asked=batch.steps)
        loss = task.loss(ys, batch)
        loss.backward()
        parameters = list(self.model.parameters())
        self._watch.note(loss, [_gradient(each) for each in parameters])
        if self.device.type == "cpu":
            self._watch.ask()
        clip(how, parameters)
        self.optimizer.step()
        return loss.detach()

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
        if self.lengths is not self.generator:
            tensors["random/lengths"] = self.lengths.get_state()
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
        if self.lengths is not self.generator:
            self.lengths.set_state(state["random/lengths"])
        torch.set_rng_state(state["random/torch"])
        self.step = step
        self._prepare()


def make_optimizer(how: Train, model: nn.Module) -> optim.Optimizer:
    """The rule that `how` names, over all parameters."""
    parameters = list(model.parameters())
    on_gpu = parameters[0].is_cuda
    # a captured update counts its steps on the device, and should be few launches
    more = {"lr": how.learning_rate, "capturable": on_gpu}
    if how.optimizer == "adam":
        return optim.Adam(parameters, fused=on_gpu or None, **more)
    rule = RMSprop if on_gpu else optim.RMSprop
    return rule(parameters, alpha=how.decay, momentum=how.momentum, **more)


def _gradient(parameter: nn.Parameter) -> Tensor:
    """What is there, and zeros for what took no part."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


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
