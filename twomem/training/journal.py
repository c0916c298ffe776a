"""What a run measured: JSON lines, and the same for TensorBoard."""

import json
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from twomem.training.files import said_plainly, write_whole

_NOT_SCORES = ("step", "loss", "seconds")


class Journal:
    """Appends measurements; what was measured after the checkpoint gone on from is dropped."""

    def __init__(self, folder: Path, step: int) -> None:
        """Opens the journal of `folder` as it was at `step`."""
        self._folder, self._path = folder, folder / "measurements.jsonl"
        kept = [line for line in read(folder) if line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_whole(self._path, text.encode())
        last = kept[-1] if kept else {}
        self.seconds: float = last.get("seconds", 0.0)
        self.last_scores = {k: v for k, v in last.items() if k not in _NOT_SCORES}
        with said_plainly(folder / "tensorboard"):
            self._board = _board(folder / "tensorboard", step)

    def add(self, measurement: dict[str, Any]) -> None:
        """Adds one measurement."""
        with said_plainly(self._path), self._path.open("a") as file:
            file.write(json.dumps(measurement) + "\n")
        if self._board is not None:
            with said_plainly(self._folder / "tensorboard"):
                for name, value in measurement.items():
                    if name != "step":
                        self._board.add_scalar(name, value, measurement["step"])
                self._board.flush()

    def __enter__(self) -> "Journal":
        """Is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes TensorBoard's file."""
        if self._board is not None:
            # a disk that is full by now was told of before
            with suppress(OSError):
                self._board.close()


def read(folder: Path) -> list[dict[str, Any]]:
    """The measurements of a run that are whole: a killed writer may leave the last one cut."""
    found, path = [], folder / "measurements.jsonl"
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            value = json.loads(line)
        except ValueError:
            break
        if not isinstance(value, dict) or not isinstance(value.get("step"), int):
            break
        found.append(value)
    return found


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer; nothing where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)
