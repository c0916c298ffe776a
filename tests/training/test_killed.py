"""A run that is killed outright loses at most the updates since its last checkpoint."""

import os
import random
import sys

import pytest
import torch
from killed import experiment, survives
from small import numbers, weights

from twomem.training.runs import run

_FILE_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")


def killed_at(event: int, folder) -> int:
    """Runs in a process that ends, as if killed, before its file operation number `event`."""
    child = os.fork()
    if child == 0:
        left = event

        def hook(name: str, arguments: tuple) -> None:
            nonlocal left
            if name in _FILE_EVENTS and str(folder) in str(arguments[0]):
                left -= 1
                if left == 0:
                    os._exit(9)

        sys.addaudithook(hook)
        try:
            torch.set_num_threads(1)
            run(experiment(8), folder)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
def test_a_run_killed_before_any_file_operation_goes_on_to_the_same_weights(tmp_path):
    run(experiment(8), tmp_path / "whole")
    event, codes = 0, []
    while not codes or codes[-1] != 0:
        event += 1
        folder = tmp_path / str(event)
        codes.append(killed_at(event, folder))
        assert run(experiment(8), folder).done
        assert weights(folder) == weights(tmp_path / "whole"), event
        assert numbers(folder) == numbers(tmp_path / "whole"), event
    # the last one was not killed any more; the others were
    assert event > 30
    assert set(codes[:-1]) == {9}


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(tmp_path):
    run(experiment(60), tmp_path / "whole")
    killed, final = survives(6, 60, tmp_path / "killed", random.Random(0))
    assert killed > 0
    assert final == weights(tmp_path / "whole")
