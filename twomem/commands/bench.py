"""`twomem bench`: speed and memory, side by side in one run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from twomem.commands.arguments import choose_device
from twomem.commands.output import document, progress, say, table
from twomem.core.errors import SettingsError

_What = Literal["stm", "sort", "nth_farthest", "babi", "step", "train_step"]
_Implementation = Literal[
    "literal", "restructured", "graph", "kernel", "cudnn_lstm", "cudnn_lstm_graph"
]
_Precision = Literal["fp32", "tf32", "half", "bf16"]
_Direction = Literal["forward", "train"]
_NO_SHAPES = ("stm", "train_step")
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
    time: int | None = None,
    width: int | None = None,
    queries: int | None = None,
    repeats: int = 3,
    threads: int | None = None,
    explain: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Time what a model can be computed by, side by side.

    `stm` compares both STMs with their formulas on a CPU, forward and backward: literal lays out every
    outer product, as the released code does, and summed multiplies matrices instead; faster and smaller
    compare with literal. `train_step` is a whole update of training beside its forward and backward
    pass alone. The other names are shapes: every implementation, at every precision, and the floor.

    Args:
        what: What is measured.
        suite: All shapes of a suite in the place of one.
        device: Where: `cpu`, `cuda`.
        implementations: Which are measured; all that the device has if left out.
        precisions: What is multiplied, where an implementation lets one choose.
        directions: Forward alone, or forward and backward.
        batches: Sequences in a batch, one comparison for each; 16 and 64, or the shape's own.
        time: Steps of a sequence.
        width: Width of the item memory.
        queries: Queries of the SAM operator.
        repeats: How often each pass is timed, after some that do not count.
        threads: Threads of the CPU; all cores if left out.
        explain: Say which way each shape would be computed, and why nothing faster; measure nothing.
        out: A file to keep the records in, as JSON.
        json: Print one JSON document.
    """
    import torch

    sizes = {"time": time, "width": width, "queries": queries, "repeats": repeats}
    for name, value in [*sizes.items(), *(("batches", each) for each in batches)]:
        if value is not None and value < 1:
            raise SettingsError(f"{name} is {value}; at least 1 is needed")
    place = str(choose_device(device))
    if threads is not None:
        torch.set_num_threads(max(threads, 1))
    names = _SUITES[suite] if suite else (what,)
    own = {name: value for name, value in sizes.items() if value is not None and name != "repeats"}
    if explain:
        _explain([name for name in names if name not in _NO_SHAPES], place, precisions, json)
    elif names == ("stm",):
        _compare(batches or (16, 64), own, repeats, json)
    else:
        how = {"implementations": implementations or None, "precisions": precisions}
        found = _records(
            names, place, batches, own, {**how, "directions": directions, "repeats": repeats}
        )
        _tell(names, place, found, out, json)


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


def _records(
    names: Any, device: str, batches: tuple[int, ...], own: dict[str, int], how: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Every record of every shape, as it is measured."""
    from twomem.bench import train_step
    from twomem.bench.device import ceilings
    from twomem.bench.shapes import SHAPES
    from twomem.bench.suite import IMPLEMENTATIONS, records

    how["implementations"] = how["implementations"] or IMPLEMENTATIONS
    most = ceilings(device)
    for name in names:
        if name == "train_step":
            sizes = {key: value for key, value in own.items() if key != "time"}
            yield from train_step.records(device, how["precisions"], how["repeats"], **sizes)
            continue
        for batch in batches or (SHAPES[name].batch,):
            shape = SHAPES[name]._replace(batch=batch, **own)
            for record in records(name, shape, device, **how, most=most):
                yield {**record, "batch": batch}


def _tell(names: Any, device: str, found: Any, out: Path | None, json: bool) -> None:
    """Prints the records, and keeps them if there is a file for them."""
    from twomem.training.environment import describe
    from twomem.training.files import to_json, write_whole

    environment, rows = describe(device), []
    for record in found:
        rows.append({**record, "command": environment["command"], "commit": environment["commit"]})
        say(
            f"{' '.join(map(str, list(record.values())[:5]))}: {record.get('microseconds_per_step')}"
        )
    whole = {"environment": environment, "records": rows}
    if out is not None:
        write_whole(out, to_json(whole))
    if json:
        document(whole)
        return
    if any(row["shape"] == "train_step" for row in rows):
        own = [row for row in rows if row["shape"] == "train_step"]
        names_of = ["task", "model", "precision", "milliseconds", "times_alone"]
        table("whole updates", names_of, [[row[name] for name in names_of] for row in own])
        rows = [row for row in rows if row["shape"] != "train_step"]
    columns = ["shape", "implementation", "form", "precision", "direction"]
    columns += ["microseconds_per_step", "floor_microseconds_per_step", "peak_gib"]
    if not rows:
        return
    cells = [["-" if row.get(name) is None else row[name] for name in columns] for row in rows]
    table(f"{', '.join(names)} on {environment['device']}", columns, cells)
