"""Is what a memory is given what it needs? Each check says what is wrong and what would be right.

A wrong kind of thing is a `TypeError` (not a tensor, another dtype, another model's state); a
right kind with a wrong shape, value or device is a `ValueError`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten_with_path


def size(what: str, value: int) -> None:
    """A width is a whole number, at least one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"the {what} size is a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"the {what} size is {value}; it must be at least 1")


def inputs(memory: nn.Module, xs: Any, axes: tuple[str, ...]) -> None:
    """A floating tensor with `axes` and the model's width, of its dtype and on its device."""
    width = getattr(memory, "input_size", None)
    needed = f"({', '.join((*axes, 'input' if width is None else str(width)))})"
    if not isinstance(xs, Tensor):
        raise TypeError(f"the input is a {type(xs).__name__}; a tensor of shape {needed} is needed")
    shape = tuple(xs.shape)
    if xs.ndim != len(axes) + 1 or (width is not None and shape[-1] != width):
        raise ValueError(f"the input has shape {shape}; {needed} is needed")
    for axis, length in zip(axes, shape, strict=False):
        if length < 1:
            raise ValueError(f"the input has shape {shape}: its {axis} axis is empty")
    own = next(memory.parameters(), None)
    if own is None:
        return
    if xs.dtype != own.dtype and not _autocast_converts(xs, own):
        raise TypeError(
            f"the input is {xs.dtype} and the model {own.dtype}: convert one with .to(dtype)"
        )
    if xs.device != own.device:
        raise ValueError(f"the input is on {xs.device} and the model on {own.device}")


def _autocast_converts(xs: Tensor, own: Tensor) -> bool:
    """Whether autocast brings both to one dtype; it leaves double precision as it is."""
    narrow = {torch.float32, torch.float16, torch.bfloat16}
    return torch.is_autocast_enabled(xs.device.type) and {xs.dtype, own.dtype} <= narrow


def state(memory: nn.Module, given: Any, own: Any, batch: int) -> None:
    """A state as `own`, which is the model's initial state for one row, for `batch` rows."""
    model = type(memory).__name__
    if type(given) is not type(own):
        raise TypeError(
            f"the state is a {type(given).__name__}; "
            f"{model} goes on from a {type(own).__name__}, as it returns one"
        )
    leaves, shape = tree_flatten_with_path(given)
    expected, own_shape = tree_flatten_with_path(own)
    if shape != own_shape:
        raise TypeError(f"the parts of the state are not those that {model} returns")
    for (path, leaf), (_, fresh) in zip(leaves, expected, strict=True):
        _state_part("".join(map(str, path)), leaf, fresh, batch)


def _state_part(name: str, leaf: Any, fresh: Tensor, batch: int) -> None:
    if not isinstance(leaf, Tensor):
        raise TypeError(f"state{name} is a {type(leaf).__name__}; a tensor is needed")
    needed = (batch, *fresh.shape[1:])
    if tuple(leaf.shape) != needed:
        raise ValueError(f"state{name} has shape {tuple(leaf.shape)}; {needed} is needed")
    if leaf.dtype != fresh.dtype:
        raise TypeError(f"state{name} is {leaf.dtype} and the model's own is {fresh.dtype}")
    if leaf.device != fresh.device:
        raise ValueError(f"state{name} is on {leaf.device} and the model on {fresh.device}")


def _marks(what: str, needed: str, given: Any) -> Tensor:
    """The tensor that was meant."""
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} is a {type(given).__name__}; {needed} is needed") from None


def asked_steps(asked: Any, time: int) -> list[int]:
    """The steps marked in `asked`, all if there are no marks."""
    if asked is None:
        return list(range(time))
    asked = _marks("asked", "a boolean mark for each step", asked)
    if asked.dtype != torch.bool:
        raise TypeError(f"asked is {asked.dtype}; a boolean mark for each step is needed")
    if tuple(asked.shape) != (time,):
        hint = "; a mark per row is reduced by asked.any(1)" if asked.ndim == 2 else ""  # noqa: PLR2004
        raise ValueError(f"asked has shape {tuple(asked.shape)}; ({time},) is needed{hint}")
    steps = asked.nonzero().flatten().tolist()
    if not steps:
        raise ValueError("asked marks no step: mark at least one, or leave it out to ask for all")
    return steps


def lengths(
    given: Tensor | Sequence[int] | None, time: int, batch: int, device: torch.device
) -> Tensor | None:
    """A whole number from 1 to `time` for each row, on `device`; none if all rows are full."""
    if given is None:
        return None
    given = _marks("lengths", "a tensor of whole numbers", given)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"lengths are {given.dtype}; whole numbers are needed")
    if tuple(given.shape) != (batch,):
        raise ValueError(f"lengths have shape {tuple(given.shape)}; ({batch},) is needed")
    wrong = ((given < 1) | (given > time)).nonzero().flatten().tolist()
    if wrong:
        row = wrong[0]
        raise ValueError(f"row {row} has length {int(given[row])}; 1 to {time} is possible")
    return given.to(device=device, dtype=torch.int64)


def restarts(given: Any, time: int, batch: int, device: torch.device) -> Tensor | None:
    """A boolean mark for each step and row, on `device`."""
    if given is None:
        return None
    given = _marks("restarts", "a boolean mark for each step and row", given)
    if given.dtype != torch.bool:
        raise TypeError(f"restarts are {given.dtype}; a boolean mark per step and row is needed")
    if tuple(given.shape) != (time, batch):
        raise ValueError(f"restarts have shape {tuple(given.shape)}; ({time}, {batch}) is needed")
    return given.to(device)
