"""The help of every command, recorded: a flag that changes is seen here first.

`python tests/commands/test_recorded_help.py` records it again.
"""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shell import run

from twomem.cli import COMMANDS

RECORDED = Path(__file__).with_name("recorded_help.json")


def shown(command: str) -> list[str]:
    """The help as on a terminal of 80 columns, line by line."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        return [line.rstrip() for line in run(command, "--help").stdout.splitlines()]
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_as_recorded(command):
    assert shown(command) == json.loads(RECORDED.read_text())[command]


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({name: shown(name) for name in COMMANDS}, indent=1) + "\n")
