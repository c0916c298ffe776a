"""Cost over the length of a sequence, and over the number of sequences, side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twomem.report.pictures import figure

Lines = Mapping[str, Sequence[tuple[int, float]]]
_STYLES = ("o-", "s--", "^-.", "v:")


def draw(over_time: Lines, over_batch: Lines, path: Path, titles: tuple[str, str]) -> None:
    """Draws both panels, each line in the same colour in both; all axes are logarithmic."""
    names = list({**over_time, **over_batch})
    with figure(path, 11, 4.5 + 0.12 * len(names)) as picture:
        panels = picture.subplots(1, 2)
        about = (("steps of a sequence", "µs a step"), ("sequences in a batch", "ms a pass"))
        for axes, lines, title, labels in zip(
            panels, (over_time, over_batch), titles, about, strict=True
        ):
            for i, name in enumerate(names):
                if lines.get(name):
                    places, values = zip(*lines[name], strict=True)
                    axes.plot(places, values, _STYLES[i % 4], color=f"C{i % 10}", label=name)
            axes.set(xscale="log", yscale="log", title=title, xlabel=labels[0], ylabel=labels[1])
            _plain_numbers(axes)
        drawn = {
            name: line
            for axes in panels
            for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        where = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        picture.legend(list(drawn.values()), list(drawn), **where)


def _plain_numbers(axes: Any) -> None:
    """Says 1,000 and not a power of ten, and leaves room, so that what is flat looks flat."""
    from matplotlib.ticker import LogFormatter, NullFormatter

    axes.margins(y=0.2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    axes.spines[["top", "right"]].set_visible(False)
