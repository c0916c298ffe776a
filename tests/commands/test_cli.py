"""The command line: help at once, the right exit codes, and one sentence for each mistake."""

import subprocess
import sys

import pytest
from shell import COPY, SMALL, document, run

from twomem.cli import COMMANDS


def test_no_help_imports_torch():
    code = (
        "import sys\n"
        "from twomem.cli import COMMANDS, main\n"
        "for words in ([], *([name] for name in COMMANDS)):\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    for name in COMMANDS:
        assert f"Usage: twomem {name}" in shown.stdout


def test_every_command_is_in_the_help():
    shown = run("--help").stdout
    assert all(name in shown for name in COMMANDS)


MISTAKES = {
    "an unknown command": (("trian", "copy", "stm"), 2, "train"),
    "no command's word": (("--no-such-flag",), 2, "no-such-flag"),
    "an unknown task": (("train", "cpoy", "stm"), 2, "did you mean 'copy'?"),
    "an unknown model": (("train", "copy", "stn"), 2, "did you mean 'stm'?"),
    "an unknown setting": (
        ("train", "copy", "stm", "--model.widht", "3"),
        2,
        "did you mean 'width'?",
    ),
    "a size of zero": (("train", "copy", "stm", "--model.width", "0"), 2, "width = 0"),
    "a word for a number": (("train", "copy", "stm", "--task.bits", "many"), 2, "bits = 'many'"),
    "an unknown goal": (
        ("train", "copy", "stm", "--how.stop-at.accurcy", "9", "--folder", "{}/run"),
        2,
        "bit_errors",
    ),
    "a number of steps below one": (("train", "copy", "stm", "--how.steps", "0"), 2, "steps"),
    "a device that is not there": (("train", "copy", "stm", "--device", "cuda:77"), 1, "cuda:77"),
    "a word that is no device": (("train", "copy", "stm", "--device", "gpu"), 2, "is no device"),
    "nothing to evaluate": (("eval", "{}/none"), 1, "is not a folder"),
    "a folder without weights": (("eval", "{}"), 1, "holds neither"),
    "no batches": (("eval", "{}", "--batches", "0"), 2, "batches is 0"),
    "nothing to inspect": (("inspect", "{}/none"), 1, "is not a folder"),
    "nothing to convert": (("convert", "{}/none", "{}/out"), 1, "there is no file"),
    "an unknown list": (("list", "modles"), 2, "models"),
    "no repeats": (("bench", "--repeats", "0"), 2, "repeats is 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence_and_an_exit_code(mistake, tmp_path):
    words, code, sentence = MISTAKES[mistake]
    done = run(*(word.format(tmp_path) for word in words))
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.rglob("*"))


def test_the_lists_hold_every_file():
    models = {each["name"]: each for each in document("list", "models")}
    assert set(models) >= {"stm", "stm_released", "lstm"}
    assert models["stm"]["state_size"] == 96 * 96 + 8 * 96 * 96
    tasks = {each["name"]: each for each in document("list", "tasks")}
    assert tasks["copy"]["input_size"] == 34
    assert tasks["associative_retrieval"]["perfect"] == {"accuracy": 100.0}
    assert document("list", "tables") == []


def test_a_first_day(tmp_path):
    folder = str(tmp_path / "run")
    trained = document("train", "copy", "stm", *SMALL, *COPY, "--folder", folder)
    assert trained["done"]
    assert trained["step"] == 4
    again = document("train", "copy", "stm", *SMALL, *COPY, "--folder", folder)
    assert again["scores"] == trained["scores"]
    one, same, other = (
        document("eval", folder, "--batches", "3", "--batch", "5", "--seed", seed)
        for seed in ("1", "1", "2")
    )
    assert one == same
    assert one["scores"] != other["scores"]
    spread = one["scores"]["bit_errors"]
    assert spread["min"] <= spread["mean"] <= spread["max"]
    assert one["parameters"] > 0
    seen = document("inspect", folder, "--out", str(tmp_path / "seen.svg"))
    assert (tmp_path / "seen.svg").read_text().startswith("<?xml")
    assert len(seen["changes"]["relations"]) == len(seen["steps"])


def test_a_model_is_evaluated_on_longer_sequences(tmp_path):
    folder = str(tmp_path / "run")
    document("train", "copy", "stm", *SMALL, *COPY, "--folder", folder)
    longer = document("eval", folder, "--set.longest", "9", "--batches", "2")
    assert longer["task"]["longest"] == 9
    wider = run("eval", folder, "--set.bits", "9")
    assert wider.returncode == 2
    assert "this model reads 4 and answers 2" in wider.stderr


def test_an_unknown_picture_is_refused(tmp_path):
    folder = str(tmp_path / "run")
    document("train", "copy", "stm", *SMALL, *COPY, "--folder", folder)
    done = run("inspect", folder, "--out", str(tmp_path / "seen.docx"))
    assert done.returncode == 2
    assert "use one of png, svg, pdf" in done.stderr
