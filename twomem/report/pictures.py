"""Figures without a screen: how one is begun and saved, and the look that all share."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twomem.core.errors import SettingsError, TwomemError
from twomem.training.files import said_plainly, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


class NoPictures(TwomemError):
    """The package that draws is not there."""


def check(path: Path) -> str:
    """The format that the ending of a picture's name asks for, if it can be drawn here.

    Raises:
        SettingsError: no picture has such an ending.
        NoPictures: matplotlib is missing.
    """
    kind = path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise SettingsError(f"{path} is no picture: use one of {', '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise NoPictures("drawing needs matplotlib: pip install 'twomem[train]'")
    return kind


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator["Figure"]:
    """Yields a figure, and saves it whole, in the format that the ending of `path` names.

    Raises:
        SettingsError: no picture has such an ending.
        NoPictures: matplotlib is missing.
    """
    kind = check(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    yield drawn
    content = BytesIO()
    drawn.savefig(content, format=kind, dpi=150)
    with said_plainly(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue())


def bare(axes: Any) -> None:
    """An image without ticks."""
    axes.set_xticks([])
    axes.set_yticks([])
