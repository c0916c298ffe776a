"""Runs the command line as a user does, but without the seconds that a process takes."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

from twomem.cli import main


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*words: str) -> Done:
    """`twomem` with these words."""
    out, err, code = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    return Done(code, out.getvalue(), err.getvalue())


def document(*words: str) -> Any:
    """The JSON document that the command prints; it must end well and print nothing else."""
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SMALL = (
    *("--how.steps", "4", "--how.batch", "2", "--how.report-every", "2", "--how.test-batches", "1"),
    *("--model.width", "4", "--model.queries", "2", "--model.distilled", "3"),
)
COPY = ("--task.bits", "2", "--task.longest", "2")
