"""Checkpoints: a folder each, complete or not there, with checksums; the one before is kept.

```text
checkpoints/
  step-000001000/
    model.safetensors      the parameters
    training.safetensors   optimiser and random streams
    checkpoint.json        step, checksums of both files and of itself
```
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import save
from torch import Tensor

from twomem.core.errors import BadFile
from twomem.training.files import (
    digest,
    flush_folder,
    read_json,
    read_tensors,
    said_plainly,
    to_json,
    write_whole,
)

_KEPT = 2
_FILES = ("model.safetensors", "training.safetensors")


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    step: int
    parameters: dict[str, Tensor]
    training: dict[str, Tensor]


def serialised(tensors: dict[str, Tensor]) -> bytes:
    """The tensors as a safetensors file, on the CPU, each with memory of its own."""
    return save({name: each.detach().cpu().clone().contiguous() for name, each in tensors.items()})


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Adds a checkpoint, then removes all but the newest two."""
    final = folder / f"step-{checkpoint.step:09d}"
    beside = folder / f".{final.name}.writing"
    with said_plainly(final):
        folder.mkdir(parents=True, exist_ok=True)
        clear_unfinished(folder)
        try:
            beside.mkdir()
            sums = {}
            for name, tensors in zip(_FILES, checkpoint[1:], strict=True):
                content = serialised(tensors)
                sums[name] = digest(content)
                write_whole(beside / name, content)
            facts = {"step": checkpoint.step, "files": sums}
            write_whole(beside / "checkpoint.json", to_json({**facts, "checksum": _sum(facts)}))
            if final.exists():  # a damaged one that was passed over
                shutil.rmtree(final)
            beside.rename(final)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        flush_folder(folder)
        for old in steps(folder)[_KEPT:]:
            shutil.rmtree(old)


def _sum(facts: dict[str, object]) -> str:
    return digest(json.dumps(facts, sort_keys=True).encode())


def clear_unfinished(folder: Path) -> None:
    """Removes what a killed writer left."""
    for left in folder.glob(".step-*.writing"):
        shutil.rmtree(left, ignore_errors=True)


def steps(folder: Path) -> list[Path]:
    """The folders of all checkpoints, newest first."""
    return sorted((found for found in folder.glob("step-*") if found.is_dir()), reverse=True)


def read(path: Path) -> Checkpoint:
    """Reads one checkpoint.

    Raises:
        BadFile: one of its files is missing, cut or altered; the message names it.
    """
    facts = read_json(path / "checkpoint.json")
    own = facts.pop("checksum", None)
    if own != _sum(facts):
        raise BadFile(f"{path / 'checkpoint.json'} was altered: its checksum differs")
    parameters, training = (read_tensors(path / name, facts["files"][name]) for name in _FILES)
    return Checkpoint(facts["step"], parameters, training)


def read_newest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """Reads the newest whole checkpoint; damaged ones are named in a warning and passed over.

    Raises:
        BadFile: there are checkpoints, and none of them is whole.
    """
    found = steps(folder)
    for path in found:
        try:
            return read(path)
        except BadFile as error:
            warn(f"{error}; the checkpoint before it is used")
    if found:
        raise BadFile(f"no checkpoint in {folder} is whole: move the folder away to start afresh")
    return None
