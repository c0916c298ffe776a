"""What a model remembers while it reads a sequence: a picture of its state, step by step."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from twomem.core.memory import Memory
from twomem.core.task import Task
from twomem.report.pictures import bare, figure

_SLICES = 4
"""Slices of a stack of matrices that are drawn."""
_COLUMNS = 16
"""Steps that are drawn; of longer sequences, evenly spread ones."""


class Trace(NamedTuple):
    """One sequence, what was answered, and every state, the one before the first step included."""

    labels: list[str]
    inputs: Float[Tensor, "time input"]
    answers: Float[Tensor, "time output"]
    targets: Float[Tensor, "time output"]
    asked: list[int]
    states: dict[str, Float[Tensor, "time_and_one *memory"]]


@torch.no_grad()
def trace(model: Memory[Any], task: Task, seed: int) -> Trace:
    """Reads one held-out sequence step by step."""
    device = next(model.parameters()).device
    batch = task.draw(1, task.generator(seed, device, held_out=True))
    state = model.initial_state(1)
    states, answers = [state], []
    for x in batch.inputs:
        y, state = model.step(x, state)
        states.append(state)
        answers.append(y[0])
    named = {
        name: torch.stack([getattr(each, name)[0] for each in states]).cpu()
        for name in state._fields
    }
    return Trace(
        labels=task.labels(batch.inputs[:, 0].cpu()),
        inputs=batch.inputs[:, 0].cpu(),
        answers=torch.stack(answers).cpu(),
        targets=batch.targets[:, 0].cpu(),
        asked=batch.asked[:, 0].nonzero().flatten().tolist(),
        states=named,
    )


def changes(seen: Trace) -> dict[str, list[float]]:
    """How far each part of the state moved at each step, as a share of its size."""
    found = {}
    for name, values in seen.states.items():
        flat = values.flatten(1).double()
        sizes = flat[1:].norm(dim=1).clamp_min(1e-12)
        found[name] = ((flat[1:] - flat[:-1]).norm(dim=1) / sizes).tolist()
    return found


class Row(NamedTuple):
    """A row of images: one memory matrix over time."""

    title: str
    values: Float[Tensor, "time_and_one slot width"]


def rows(seen: Trace) -> list[Row]:
    """The matrices that are drawn: a vector is a matrix of one row, a stack has several rows."""
    found = []
    for name, values in seen.states.items():
        if values.ndim == 2:  # noqa: PLR2004
            found.append(Row(name, values[:, :, None]))
        elif values.ndim == 3:  # noqa: PLR2004
            found.append(Row(name, values))
        else:
            stack = values.flatten(1, -3)
            found += [
                Row(f"{name} [{i}]", stack[:, i]) for i in range(min(_SLICES, stack.shape[1]))
            ]
    return found


def draw(seen: Trace, title: str, path: Path) -> None:
    """Draws inputs, memories, how far they moved, and the answers."""
    time = len(seen.inputs)
    shown = sorted({round(i * (time - 1) / (_COLUMNS - 1)) for i in range(_COLUMNS)})
    if time <= _COLUMNS:
        shown = list(range(time))
    drawn = rows(seen)
    height = 2.2 + 0.95 * len(drawn) + 3.4
    with figure(path, max(8.0, 0.95 * (len(shown) + 1) + 1.2), height) as picture:
        picture.suptitle(title)
        tall: Any = picture.subfigures(3, 1, height_ratios=[2.2, 0.95 * len(drawn) + 0.4, 3.4])
        _draw_sequence(tall[0], seen)
        _draw_rows(tall[1], drawn, shown, seen.labels)
        _draw_changes(tall[2], seen)


def _draw_sequence(place: Any, seen: Trace) -> None:
    """What is read, and at the asked steps what is answered beside what is right."""
    left, right = place.subplots(1, 2, width_ratios=[3, 1])
    left.imshow(seen.inputs.T.numpy(), aspect="auto", cmap="Greys", interpolation="nearest")
    left.set_title("what is read", fontsize=9)
    left.set_xticks(range(len(seen.labels)), seen.labels, fontsize=7)
    left.set_yticks([])
    answers, targets = seen.answers[seen.asked], seen.targets[seen.asked]
    pair = torch.cat([answers.sigmoid(), targets.new_full((1, targets.shape[1]), 0.5), targets])
    right.imshow(
        pair.T.numpy(), aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest"
    )
    right.set_title("answered | right", fontsize=9)
    bare(right)


def _draw_rows(place: Any, drawn: list[Row], shown: list[int], labels: list[str]) -> None:
    """Each memory before the first step and after the shown ones, one colour scale per row."""
    axes = place.subplots(len(drawn), len(shown) + 1, squeeze=False)
    for line, row in zip(axes, drawn, strict=True):
        largest = row.values.abs().max().item() or 1.0
        for cell, step in zip(line, [-1, *shown], strict=True):
            look = {"cmap": "RdBu", "vmin": -largest, "vmax": largest, "aspect": "auto"}
            cell.imshow(row.values[step + 1].numpy(), interpolation="nearest", **look)
            bare(cell)
        line[0].set_ylabel(row.title, fontsize=8)
    for cell, step in zip(axes[0], [-1, *shown], strict=True):
        cell.set_title("start" if step < 0 else labels[step], fontsize=8)


def _draw_changes(place: Any, seen: Trace) -> None:
    """How far each part of the state moved."""
    axes = place.subplots()
    for (name, moved), marker in zip(changes(seen).items(), "os^vD*", strict=False):
        axes.plot(range(len(moved)), moved, marker=marker, markersize=4, label=name)
    axes.set_xticks(range(len(seen.labels)), seen.labels, fontsize=7)
    axes.set_ylabel("share of the memory\nthat a step changes", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
