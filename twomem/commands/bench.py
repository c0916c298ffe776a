"""`twomem bench`: speed and memory, side by side in one run."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from twomem.commands.arguments import choose_device
from twomem.commands.output import document, progress, table
from twomem.core.errors import SettingsError

_What = Literal["stm", "sort", "nth_farthest", "babi", "step", "train_step", "scaling"]
_Implementation = Literal[
    "literal", "restructured", "graph", "kernel", "cudnn_lstm", "cudnn_lstm_graph"
]
_Precision = Literal["fp32", "tf32", "half", "bf16"]
_Direction = Literal["forward", "train"]
_NO_SHAPES = ("stm", "train_step", "scaling")
_SUITES = {"h200": ("sort", "nth_farthest", "babi", "step", "train_step")}


def bench_command(
    what: _What = "stm",
    /,
    *,
    suite: Literal["h200"] | None = None,
    device: str = "cpu",
    implementations: tuple[_Implementation, ...] = (),
    precisions: tuple[_Precision, ...] = ("fp32", "tf32", "half", "bf16"),
    directions: tuple[_Direction, ...] = ("forward", "train"),
    batches: tuple[int, ...] = (),
    times: tuple[int, ...] = (),
    batch: int | None = None,
    time: int | None = None,
    width: int | None = None,
    queries: int | None = None,
    repeats: int | None = None,
    threads: int | None = None,
    explain: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Time what a model can be computed by, side by side.

    `stm` compares both STMs with their formulas on a CPU, forward and backward: literal lays out every
    outer product, as the released code does, and summed multiplies matrices instead; faster and smaller
    compare with literal. `train_step` is a whole update of training beside its forward and backward
    pass alone. `scaling` is the cost over the length of a sequence, and over the number of sequences.
    The other names are shapes: every implementation, at every precision, and the floor.

    Args:
        what: What is measured.
        suite: All shapes of a suite in the place of one.
        device: Where: `cpu`, `cuda`.
        implementations: Which are measured; all that the device has if left out, but the fastest alone
            for `scaling`. Say it once for each: `--implementations kernel --implementations graph`.
        precisions: What is multiplied, where an implementation lets one choose.
        directions: Forward alone, or forward and backward.
        batches: Sequences in a batch, one comparison for each; 16 and 64, or the shape's own.
        times: Lengths of the sequences of `scaling`; 10 to 10,000.
        batch: Sequences in a batch while `scaling` varies their length, 128; those of `train_step`.
        time: Steps of a sequence; 100 while `scaling` varies the number of sequences.
        width: Width of the item memory.
        queries: Queries of the SAM operator.
        repeats: How often each pass is timed, after some that do not count: 3 for `stm`, 11 for all
            else, where 3 are enough once a second is spent.
        threads: Threads of the CPU; all cores if left out.
        explain: Say which way each shape would be computed, and why nothing faster; measure nothing.
        out: A file to keep the records in, as JSON; written after every record.
        resume: Go on with the file of `--out`: records that it has, of this device, these versions and
            this commit, are not measured again, but for those that failed.
        plot: A picture of `scaling` (png, svg or pdf).
        json: Print one JSON document.
    """
    import torch

    sizes = {"time": time, "width": width, "queries": queries}
    counts = {"batch": batch, "repeats": repeats, **sizes}
    many = [("batches", each) for each in batches] + [("times", each) for each in times]
    for name, value in [*counts.items(), *many]:
        if value is not None and value < 1:
            raise SettingsError(f"{name} is {value}; at least 1 is needed")
    if plot is not None and what != "scaling":
        raise SettingsError(f"only scaling is drawn, not {what}: leave out --plot")
    if resume and out is None:
        raise SettingsError("--resume goes on with a file: name it by --out")
    place = str(choose_device(device))
    if threads is not None:
        torch.set_num_threads(max(threads, 1))
    names = _SUITES[suite] if suite else (what,)
    own = {name: value for name, value in sizes.items() if value is not None}
    if explain:
        _explain([name for name in names if name not in _NO_SHAPES], place, precisions, json)
    elif names == ("stm",):
        _compare(batches or (16, 64), own, repeats or 3, json)
    else:
        from twomem.commands.bench_records import Wish, tell

        asked = (implementations, precisions, directions, repeats or 11)
        wish = Wish(names, place, batches, times, batch, own, *asked)
        tell(wish, out, plot, resume=resume, json=json)


def _explain(names: Any, device: str, precisions: Any, json: bool) -> None:
    from twomem.bench.explain import explain
    from twomem.bench.shapes import SHAPES

    rows = list(explain(names or list(SHAPES), device, precisions))
    if json:
        document({"device": device, "ways": rows})
    else:
        table(f"ways on {device}", list(rows[0]), [list(row.values()) for row in rows])


def _compare(batches: tuple[int, ...], own: dict[str, Any], repeats: int, json: bool) -> None:
    from twomem.bench.compare import compare
    from twomem.bench.shapes import Shape
    from twomem.bench.stm import FORMS, MODELS
    from twomem.training.environment import describe

    rounds = len(batches) * len(MODELS) * len(FORMS) * (repeats + 2)
    with progress("measuring stm", rounds) as move:
        done = iter(range(1, rounds + 1))
        rows = [
            compare(model, Shape(batch, **own), repeats, lambda: move(next(done)))
            for batch in batches
            for model in MODELS
        ]
    if json:
        document({"what": "stm", "environment": describe("cpu"), "comparisons": rows})
        return
    columns = ["model", "batch", "literal s", "summed s", "fast s", "faster", "literal MiB"]
    columns += ["summed MiB", "MiB", "smaller"]
    steps = rows[0]["shape"]["time"]
    title = f"forward and backward of {steps} steps, the answer at the last"
    table(title, columns, [_compared(row, FORMS) for row in rows])


def _compared(row: dict[str, Any], forms: tuple[str, ...]) -> list[Any]:
    each = [row[form] for form in forms]
    peaks = ["-" if form["peak_bytes"] is None else form["peak_bytes"] >> 20 for form in each]
    smaller = "-" if row["times_smaller"] is None else f"{row['times_smaller']:.1f}x"
    seconds = [f"{form['seconds_median']:.3f}" for form in each]
    faster = f"{row['times_faster']:.1f}x"
    return [row["model"], row["shape"]["batch"], *seconds, faster, *peaks, smaller]
