"""Many seeds of one small model on one device: a process for each, or all of them in one process?

    python benchmarks/many_seeds.py --device cuda --out many_seeds.json

Small models leave most of a GPU idle, so several trainings can share it. This measures the updates
per second of 1, 2, 4, 8 and 16 trainings together, made in two ways: `processes` are apart, and the GPU
takes turns between them; `streams` are trainings of one process, each captured in a graph of its own
and started in turn on a stream of its own. Each seed learns what it would learn alone.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from threading import BrokenBarrierError
from typing import Any

_TASK = {"embedding": 32}
_READY = 6
"""Updates after which whatever is captured has been."""
_ROW = 8
"""Updates between two looks at the clock."""
_PATIENCE = 300.0
"""Seconds that processes have to begin."""


def training(seed: int, given: dict[str, Any]) -> Any:
    """A small experiment in training, with its graphs captured."""
    from twomem import models, tasks
    from twomem.core.experiment import Experiment
    from twomem.core.train import Train
    from twomem.training.supervised import Training

    sizes = {"width": given["width"], "queries": given["queries"], "precision": given["precision"]}
    wanted = Experiment(
        task=tasks.load("associative_retrieval", pairs=given["pairs"], **_TASK),
        model=models.load(given["model"], **sizes),
        train=Train(batch=given["batch"]),
        seed=seed,
    )
    made = Training(wanted, given["device"])
    for _ in range(_READY):
        made.update()
    made.ask()
    return made


def rate(rounds: Callable[[], int], wait: Callable[[], None], seconds: float) -> float:
    """Updates per second: rounds are begun until the time is over, and then waited for."""
    wait()
    begun, done = time.perf_counter(), 0
    while time.perf_counter() < begun + seconds:
        for _ in range(_ROW):
            done += rounds()
        wait()
    return done / (time.perf_counter() - begun)


def in_streams(given: dict[str, Any]) -> Iterator[tuple[int, float]]:
    """Rates of more and more trainings of this process."""
    import torch

    made, places = [], []
    for count in given["runs"]:
        while len(made) < count:
            made.append(training(len(made), given))
            places.append(_stream(given["device"]))
        pairs = list(zip(made[:count], places[:count], strict=True))

        def rounds(pairs: list[tuple[Any, Any]] = pairs) -> int:
            for each, place in pairs:
                with place:
                    each.update()
            return len(pairs)

        wait = torch.cuda.synchronize if given["device"] != "cpu" else _nothing
        yield count, rate(rounds, wait, given["seconds"])


def _stream(device: str) -> Any:
    """A stream to work on; it can be entered again and again."""
    import torch

    if device == "cpu":
        return nullcontext()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return torch.cuda.stream(stream)


def _nothing() -> None:
    """A CPU is never waited for."""


def in_processes(given: dict[str, Any]) -> Iterator[tuple[int, float]]:
    """Rates of more and more processes: all begin once, and the first few of them work at a time."""
    context = get_context("spawn")
    many = max(given["runs"])
    begin, end = context.Barrier(many + 1), context.Queue()
    workers = [
        context.Process(target=_work, args=(seed, given, begin, end), daemon=True)
        for seed in range(many)
    ]
    for worker in workers:
        worker.start()
    try:
        for count in given["runs"]:
            begin.wait(_PATIENCE)
            yield count, sum(end.get(timeout=_PATIENCE) for _ in range(count))
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _work(seed: int, given: dict[str, Any], begin: Any, end: Any) -> None:
    """Trains one seed, in the rounds that have room for it."""
    import torch

    torch.set_num_threads(1)
    try:
        made = training(seed, given)
    except BaseException:
        begin.abort()  # or all others would wait for this one
        raise

    def rounds() -> int:
        made.update()
        return 1

    wait = torch.cuda.synchronize if given["device"] != "cpu" else _nothing
    for count in given["runs"]:
        begin.wait(_PATIENCE)
        if seed < count:
            end.put(rate(rounds, wait, given["seconds"]))


def main() -> None:
    """Measures both ways, prints a table, and writes the rates if there is a file for them."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = words.add_argument
    add("--device", default="cuda", help="where: cpu, cuda (default)")
    add("--runs", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="trainings at a time")
    add("--seconds", type=float, default=2.0, help="how long each number of them is measured")
    add("--model", default="stm_released", choices=("stm", "stm_released"))
    add("--width", type=int, default=32, help="of its item memory")
    add("--queries", type=int, default=2, help="of its SAM operator")
    add("--precision", default="half", choices=("fp32", "tf32", "half", "bf16"))
    add("--batch", type=int, default=32, help="sequences in an update")
    add("--pairs", type=int, default=14, help="of associative retrieval")
    add("--out", type=Path, help="a file for the rates, as JSON")
    given = vars(words.parse_args())
    out = given.pop("out")
    given["runs"] = sorted(set(given["runs"]))
    if given["runs"][0] < 1:
        words.error("at least 1 training is needed")
    try:
        found = measure(given)
    except (BrokenBarrierError, Empty):
        raise SystemExit("many_seeds: a process could not begin, or has died") from None
    if out is not None:
        write(out, given, found)


def measure(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Prints each rate when it is there."""
    print(f"{'':10} {'trainings':>9} {'updates/s':>10} {'times one':>9}")
    found = []
    ways = {"processes": in_processes(given), "streams": in_streams(given)}
    for way, rates in ways.items():
        first = None
        for count, each in rates:
            first = first or each
            print(f"{way:10} {count:9} {each:10.1f} {each / first:9.2f}", flush=True)
            found.append({"way": way, "trainings": count, "updates_per_second": each})
    return found


def write(out: Path, given: dict[str, Any], found: list[dict[str, Any]]) -> None:
    """Keeps the rates, and where they were measured."""
    import sys

    from twomem.training.environment import describe
    from twomem.training.files import to_json, write_whole

    environment = describe(given["device"])
    environment["command"] = " ".join(["python", *sys.argv])
    write_whole(out, to_json({"environment": environment, "measured": given, "rates": found}))


if __name__ == "__main__":
    main()
