"""Learning curves: the mean over seeds, and the band between the lowest and the highest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twomem.report.pictures import figure

Measurements = Sequence[Mapping[str, Any]]
_STYLES = ("-", "--", "-.", ":")


def band(runs: Sequence[Measurements], score: str) -> dict[int, tuple[float, float, float]]:
    """Lowest, mean and highest score at each step that any run measured.

    A run that has ended earlier keeps its last score: it stopped since it was done.
    """
    steps = sorted({line["step"] for run in runs for line in run})
    found = {}
    for step in steps:
        values = [_latest(run, step, score) for run in runs]
        known = [value for value in values if value is not None]
        if known:
            found[step] = (min(known), sum(known) / len(known), max(known))
    return found


def _latest(run: Measurements, step: int, score: str) -> float | None:
    """The last score of a run at or before a step."""
    value = None
    for line in run:
        if line["step"] > step:
            break
        value = line.get(score, value)
    return value


def draw(
    groups: Mapping[str, Sequence[Measurements]],
    score: str,
    path: Path,
    title: str,
    chance: float | None = None,
) -> None:
    """Draws a curve for each group of runs."""
    with figure(path, 7, 4) as picture:
        axes = picture.subplots()
        for i, (name, runs) in enumerate(groups.items()):
            found = band(runs, score)
            low, middle, high = zip(*found.values(), strict=True) if found else ((), (), ())
            style = _STYLES[i % len(_STYLES)]
            line = axes.plot(list(found), middle, style, label=f"{name} ({len(runs)} seeds)")[0]
            axes.fill_between(list(found), low, high, alpha=0.2, color=line.get_color())
        if chance is not None:
            axes.axhline(chance, color="grey", linewidth=0.8, linestyle=":", label="chance")
        axes.set_title(title)
        axes.set_xlabel("updates")
        axes.set_ylabel(score.replace("_", " "))
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
