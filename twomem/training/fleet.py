"""Many runs side by side: a process for each, one thread each, and news from all of them."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

from twomem.core.experiment import Experiment
from twomem.training.runs import Outcome

_HEARING = 0.2
"""Seconds between two looks at the news."""

Hear = Callable[[int, int, dict[str, Any]], None]
"""Is told the number of the run, its update, and what it measured there, if it did."""


def train_all(
    experiments: Sequence[tuple[Experiment, Path]], workers: int, hear: Hear
) -> list[Outcome]:
    """Trains every experiment in its folder, at most `workers` at once.

    Raises:
        TwomemError: what a run could not do; the others are ended, and can be gone on with.
    """
    context = get_context("spawn")
    with context.Manager() as manager:
        news = manager.Queue()
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            waiting: set[Future[Outcome]] = set()
            futures = []
            for number, (experiment, folder) in enumerate(experiments):
                future = pool.submit(_train, number, experiment.settings(), folder, news)
                futures.append(future)
                waiting.add(future)
            try:
                while waiting:
                    done, waiting = wait(waiting, _HEARING, FIRST_COMPLETED)
                    _tell(news, hear)
                    for future in done:
                        future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        _tell(news, hear)
        return [future.result() for future in futures]


def _tell(news: Any, hear: Hear) -> None:
    while True:
        try:
            hear(*news.get_nowait())
        except Empty:
            return


def _train(number: int, settings: dict[str, Any], folder: Path, news: Any) -> Outcome:
    """Trains one experiment in a process of its own."""
    import torch

    from twomem.training.runs import Hooks, from_settings, run

    torch.set_num_threads(1)
    hooks = Hooks(
        step=lambda step: news.put((number, step, {})) if step % 50 == 0 else None,
        measured=lambda line: news.put((number, line["step"], line)),
    )
    return run(from_settings(settings), folder, hooks=hooks)
