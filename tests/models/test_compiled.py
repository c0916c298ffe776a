"""Every model's step compiles whole and exports, and then gives the same numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from accuracy import EXACT

from twomem import models

SCRIPT = Path(__file__).parent / "compiled_step.py"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    """What the script found; one process for all models, since it is slow to start."""
    done = subprocess.run(
        [sys.executable, SCRIPT, *models.names()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("how", ["compiled", "exported", "exported_for_any_batch"])
@pytest.mark.parametrize("name", models.names())
def test_a_step_gives_the_same_numbers(report, name, how):
    found = report[name][how]
    assert "error" not in found, found["error"]
    assert found["off"] <= EXACT * found["largest"]
    assert found["largest"] > 0
