"""The command line: the names of the commands, and how an error is told.

A command is imported when it is asked for, and torch when it works, so that `--help` is quick.
Results go to stdout, all else to stderr. Exit codes: 0 done, 1 it could not be done, 2 it was
asked wrongly, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from twomem import __version__
from twomem.core.errors import SettingsError, TwomemError, UnknownName

COMMANDS = {
    "list": "List the models, the tasks, or the tables.",
    "train": "Train a model on a task; stopped at any point, the same command goes on.",
    "eval": "Score a trained model on fresh sequences.",
    "bench": "Time the fast forms against the literal formulas, side by side.",
    "convert": "Turn a checkpoint of the released code into safetensors.",
    "inspect": "Draw what a trained model remembers while it reads a sequence.",
    "demo": "Train an STM and an LSTM on a small task, and show what they learned.",
}

app = App(
    name="twomem",
    help="Memory models for sequences: train them, compare them, look inside them.",
    version=__version__,
    error_console=Console(stderr=True),
)
for _name, _help in COMMANDS.items():
    app.command(f"twomem.commands.{_name}:{_name}_command", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command that the arguments name, and ends with its exit code."""
    try:
        app(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:
        _leave(2)
    except (SettingsError, UnknownName) as error:
        _leave(2, error)
    except TwomemError as error:
        _leave(1, error)
    except BrokenPipeError:
        # the reader of a pipe has left: nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(1)
    except KeyboardInterrupt:
        _leave(130, "interrupted")


def _leave(code: int, sentence: object = None) -> None:
    if sentence is not None:
        print(f"twomem: {sentence}", file=sys.stderr)  # noqa: T201
    raise SystemExit(code)
