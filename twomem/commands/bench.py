"""`twomem bench`: speed and memory, side by side in one run."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from twomem.commands.output import document, progress, table
from twomem.core.errors import SettingsError


def bench_command(
    what: Literal["stm"] = "stm",
    /,
    *,
    batches: tuple[int, ...] = (16, 64),
    time: int = 36,
    width: int = 96,
    queries: int = 8,
    repeats: int = 3,
    threads: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Time forward and backward of both STMs, restructured against the literal formula.

    Literal lays out every outer product, as the released code does, and summed multiplies matrices
    instead; faster and smaller compare with literal. The answer is asked at the last step. Peak memory is measured in a process of its own each.

    Args:
        what: What is measured.
        batches: Sequences in a batch; one comparison for each.
        time: Steps of a sequence.
        width: Width of the item memory.
        queries: Queries of the SAM operator.
        repeats: How often each pass is timed, after one that does not count.
        threads: Threads of the CPU; all cores if left out.
        json: Print one JSON document.
    """
    import torch

    from twomem.bench.stm import FORMS, MODELS, Shape
    from twomem.training.environment import describe

    sizes = {"time": time, "width": width, "queries": queries, "repeats": repeats}
    for name, value in [*sizes.items(), *(("batches", each) for each in batches)]:
        if value < 1:
            raise SettingsError(f"{name} is {value}; at least 1 is needed")
    if threads is not None:
        torch.set_num_threads(max(threads, 1))
    rounds = len(batches) * len(MODELS) * len(FORMS) * (repeats + 2)
    with progress(f"measuring {what}", rounds) as move:
        done = iter(range(1, rounds + 1))
        rows = [
            _compare(model, Shape(batch, time, width, queries), repeats, lambda: move(next(done)))
            for batch in batches
            for model in MODELS
        ]
    if json:
        document({"what": what, "environment": describe("cpu"), "comparisons": rows})
    else:
        _print(rows, time)


def _compare(model: str, shape: Any, repeats: int, done: Any) -> dict[str, Any]:
    """One model at one shape, in both forms."""
    import torch

    from twomem.bench import measure
    from twomem.bench.stm import FORMS, make

    passes = [make(model, form, shape).run for form in FORMS]
    timings = measure.in_turns(passes, repeats, done)
    found: dict[str, Any] = {"model": model, "shape": shape._asdict()}
    for form, timing in zip(FORMS, timings, strict=True):
        what = {"model": model, "form": form, "shape": shape._asdict()}
        peak = measure.peak_bytes({**what, "threads": torch.get_num_threads()})
        done()
        found[form] = {
            **{f"seconds_{k}": v for k, v in timing._asdict().items()},
            "peak_bytes": peak,
        }
    literal, summed, fast = (found[form] for form in FORMS)
    found["times_faster"] = literal["seconds_median"] / fast["seconds_median"]
    found["times_faster_than_summed"] = summed["seconds_median"] / fast["seconds_median"]
    known = literal["peak_bytes"] is not None and fast["peak_bytes"]
    found["times_smaller"] = literal["peak_bytes"] / fast["peak_bytes"] if known else None
    return found


def _print(rows: list[dict[str, Any]], time: int) -> None:
    columns = ["model", "batch", "literal s", "summed s", "fast s", "faster", "literal MiB"]
    columns += ["summed MiB", "MiB", "smaller"]
    shown = []
    for row in rows:
        forms = row["literal"], row["summed"], row["restructured"]
        shown.append(
            [
                row["model"],
                row["shape"]["batch"],
                *(f"{each['seconds_median']:.3f}" for each in forms),
                f"{row['times_faster']:.1f}x",
                *(
                    "-" if each["peak_bytes"] is None else each["peak_bytes"] >> 20
                    for each in forms
                ),
                "-" if row["times_smaller"] is None else f"{row['times_smaller']:.1f}x",
            ]
        )
    table(f"forward and backward of {time} steps, the answer at the last", columns, shown)
