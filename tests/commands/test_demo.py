"""The demo trains, compares and draws; that it learns is shown by running it in full."""

from pathlib import Path

import pytest
from shell import document, run


@pytest.mark.slow
def test_a_short_demo_ends_with_a_table_and_pictures(tmp_path):
    how = ("--folder", str(tmp_path), "--steps", "2", "--seeds", "2", "--workers", "1")
    told = document("demo", *how)
    stm, lstm = told["models"]
    assert (stm["model"], lstm["model"]) == ("stm", "lstm")
    assert abs(stm["parameters"] / lstm["parameters"] - 1) < 0.02
    for row in (stm, lstm):
        assert row["updates"] == 2
        assert row["lowest_accuracy"] == min(row["accuracies"])
        assert len(set(row["accuracies"])) == 2
    for picture in told["pictures"]:
        assert Path(picture).read_bytes().startswith(b"\x89PNG")
    again = run("demo", *how)
    assert again.returncode == 0
    assert "lstm" in again.stdout


def test_a_demo_without_seeds_is_refused():
    done = run("demo", "--seeds", "0")
    assert done.returncode == 2
    assert "seeds is 0" in done.stderr
