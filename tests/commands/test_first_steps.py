"""The transcript in the docs is what a new user sees, numbers aside.

`python tests/commands/test_first_steps.py` records it again, in a folder of its own.
"""

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shell import run

PAGE = Path(__file__).parents[2] / "docs" / "first-steps.md"
PROMPT = "$ twomem "


def answer(command: str) -> str:
    """What is printed as the result, or as the reason why there is none."""
    done = run(*shlex.split(command))
    shown = done.stdout if done.returncode == 0 else done.stderr
    return "\n".join(line.rstrip() for line in shown.strip().splitlines())


def replayed(page: str) -> str:
    """The page, with every answer as it is now."""
    lines, inside, skipping = [], False, False
    for line in page.splitlines():
        if line.startswith("```"):
            inside, skipping = line == "```console", False
        if inside and line.startswith(PROMPT):
            lines += [line, answer(line.removeprefix(PROMPT))]
            skipping = True
        elif not skipping:
            lines.append(line)
    return "\n".join(lines) + "\n"


def without_numbers(page: str) -> list[str]:
    """Its lines; the last digits of a score are the machine's own, and so is the width of a column."""
    masked = re.sub(r"\d+([.,]\d+)*(e[-+]?\d+)?", "#", page)
    return [re.sub(r"[ ━─]+", " ", line) for line in masked.splitlines()]


@pytest.mark.slow
def test_the_transcript_is_what_a_new_user_sees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    page = PAGE.read_text()
    assert page.count(PROMPT) >= 9
    assert without_numbers(replayed(page)) == without_numbers(page)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PAGE.write_text(replayed(PAGE.read_text()))
