"""The script that compares ways to train many seeds runs, and keeps what it measured."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "many_seeds.py"


def test_both_ways_are_measured(tmp_path):
    out = tmp_path / "rates.json"
    sizes = ("--width", "4", "--batch", "2", "--pairs", "1", "--runs", "1", "2")
    how = ("--device", "cpu", "--seconds", "0.1", "--out", str(out))
    command = [sys.executable, str(SCRIPT), *sizes, *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    rates = json.loads(out.read_text())["rates"]
    found = [(each["way"], each["trainings"]) for each in rates]
    assert found == [(way, count) for way in ("processes", "streams") for count in (1, 2)]
    assert all(each["updates_per_second"] > 0 for each in rates)
    assert done.stdout.count("streams") == 2
