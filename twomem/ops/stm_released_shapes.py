"""What the shapes in a released checkpoint say: the sizes of the model it was saved from.

Whether that model was gated, and which blends were fixed, is not in a checkpoint and must be told.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from twomem.core.errors import BadFile

Alphas = tuple[float | None, float | None, float | None]

_SHAPES = {
    "item_memory_state_bias": ("width", "width"),
    "rel_memory_state_bias": ("queries", "width", "width"),
    "rel_projector.weight": ("distilled", None),
    "rel_projector3.weight": ("bottleneck", None),
    "mlp.0.weight": ("head", "bottleneck"),
    "out.weight": ("output", "head"),
    "input_projector.fc1.weight": (None, "input"),
}
"""Tensors from which every size can be read."""


def read_sizes(tensors: Mapping[str, Any]) -> dict[str, int]:
    """The sizes, among them `input` and `output`.

    Raises:
        BadFile: a tensor is missing or has another number of axes, or two shapes contradict.
    """
    sizes: dict[str, int] = {"hidden": 0}
    for name, axes in _SHAPES.items():
        shape = _tensor(tensors, name).shape
        if len(shape) != len(axes):
            raise BadFile(f"{name} has shape {tuple(shape)}; a released STM's has {len(axes)} axes")
        for axis, length in zip(axes, shape, strict=True):
            if axis is not None and sizes.setdefault(axis, length) != length:
                raise BadFile(
                    f"{name} has shape {tuple(shape)}, where another tensor has {axis} {sizes[axis]}"
                )
    if "input_projector.fc3.weight" in tensors:
        sizes["hidden"] = _tensor(tensors, "input_projector.fc1.weight").shape[0]
    return sizes


def _tensor(tensors: Mapping[str, Any], name: str) -> Tensor:
    found = tensors.get(name)
    if not isinstance(found, Tensor):
        raise BadFile(f"this is not the checkpoint of a released STM: it has no tensor {name!r}")
    return found


def widest(tensors: Iterable[Tensor]) -> torch.dtype:
    """The dtype that holds all of them exactly: released scalars may be narrower than the rest."""
    return reduce(torch.promote_types, (each.dtype for each in tensors))


def unused(gated: bool, alphas: Sequence[float | None]) -> tuple[str, ...]:
    """How the names begin of what such a model saves and never uses."""
    names: tuple[str, ...] = ()
    if not gated:
        names += ("input_gate_projector.", "memory_gate_projector.", "input_bias", "forget_bias")
    if alphas[1] == 0:
        names += ("input_projector3.",)
    if alphas[2] == 0:
        names += ("rel_projector2.",)
    return names


def check_names(
    tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], ignored: tuple[str, ...]
) -> None:
    """Compares names, shapes and dtypes with those of a model of the sizes that were read.

    Raises:
        BadFile: a tensor is missing, unknown, or of another shape or dtype; the message says how
            a wrongly told gate or blend shows.
    """
    for name, needed in own.items():
        given = tensors.get(name)
        if not isinstance(given, Tensor):
            hint = "; a fixed blend must be told as a number" if name.startswith("alpha") else ""
            raise BadFile(f"the checkpoint has no tensor {name!r}{hint}")
        if given.shape != needed.shape:
            raise BadFile(
                f"{name} has shape {tuple(given.shape)}; by the other tensors it must have "
                f"{tuple(needed.shape)}"
            )
    for name in tensors:
        if name not in own and not name.startswith(ignored or ("\0",)):
            learned = name.startswith(("alpha", "input_projector3"))
            hint = "; it holds a learned blend: tell None for it" if learned else ""
            raise BadFile(f"a released STM so described has no tensor {name!r}{hint}")
    for name in own:
        if not tensors[name].is_floating_point():
            raise BadFile(f"{name} holds {tensors[name].dtype}; floating numbers are needed")
