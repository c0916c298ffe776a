"""Checkpoints of the released code become safetensors, and none of them can run code."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from shell import document, run

import twomem
from twomem.training import weights


@pytest.fixture
def released():
    return twomem.STMReleased(5, 4, width=6, queries=2, distilled=3, bottleneck=4, head=5)


@pytest.mark.parametrize("prefix", ["", "encoder.stm."])
def test_a_checkpoint_is_converted_and_answers_as_before(tmp_path, released, prefix):
    tensors = {prefix + name: value for name, value in released.state_dict().items()}
    torch.save({**tensors, "rest": torch.zeros(2)} if prefix else tensors, tmp_path / "old.pt")
    told = document("convert", str(tmp_path / "old.pt"), str(tmp_path / "new"))
    assert told["left_out"] == (["rest"] if prefix else [])
    xs = torch.randn(3, 2, 5)
    again = weights.load(tmp_path / "new").model
    assert torch.equal(again(xs)[0], released(xs)[0])


def test_fixed_blends_and_missing_gates_are_told(tmp_path, released):
    tensors = {k: v for k, v in released.state_dict().items() if k not in ("alpha10", "alpha30")}
    torch.save(tensors, tmp_path / "old.pt")
    how = ("--no-gated", "--alphas", "1", "learned", "0")
    told = document("convert", str(tmp_path / "old.pt"), str(tmp_path / "new"), *how)
    assert told["model"]["alphas"] == [1.0, None, 0.0]
    assert not told["model"]["gates"]
    assert "rel_projector2.weight" not in load_file(tmp_path / "new" / "model.safetensors")


class Bomb:
    """Would make a file if it were ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def bomb(folder: Path) -> None:
    torch.save({"item_memory_state_bias": Bomb(folder / "ran")}, folder / "old.pt")


def old_pickle(folder: Path) -> None:
    (folder / "old.pt").write_bytes(pickle.dumps(Bomb(folder / "ran")))


def cut(folder: Path) -> None:
    torch.save({"item_memory_state_bias": torch.zeros(5, 5)}, folder / "old.pt")
    whole = (folder / "old.pt").read_bytes()
    (folder / "old.pt").write_bytes(whole[: len(whole) // 2])


def text(folder: Path) -> None:
    (folder / "old.pt").write_text("weights")


def empty(folder: Path) -> None:
    (folder / "old.pt").write_bytes(b"")


def a_list(folder: Path) -> None:
    torch.save([torch.zeros(2)], folder / "old.pt")


def another_model(folder: Path) -> None:
    torch.save(twomem.LSTM(2, 2, hidden=3).state_dict(), folder / "old.pt")


@pytest.mark.parametrize("write", [bomb, old_pickle, cut, text, empty, a_list, another_model])
def test_a_foreign_file_is_refused_and_runs_nothing(tmp_path, write):
    write(tmp_path)
    done = run("convert", str(tmp_path / "old.pt"), str(tmp_path / "new"))
    assert done.returncode == 1
    assert done.stderr.startswith("twomem: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["old.pt"]


def test_a_blend_that_is_no_number_is_refused(tmp_path):
    (tmp_path / "old.pt").write_bytes(b"")
    words = (str(tmp_path / "old.pt"), str(tmp_path / "new"), "--alphas", "one", "0", "0")
    done = run("convert", *words)
    assert done.returncode == 2
    assert "'learned' or a number, not 'one'" in done.stderr


def test_a_converted_model_needs_a_task_to_be_evaluated(tmp_path, released):
    torch.save(released.state_dict(), tmp_path / "old.pt")
    document("convert", str(tmp_path / "old.pt"), str(tmp_path / "new"))
    done = run("eval", str(tmp_path / "new"))
    assert done.returncode == 2
    assert "name one with --task" in done.stderr
    how = ("--task", "copy", "--set.bits", "3", "--set.longest", "2", "--batches", "2")
    wrong = run("eval", str(tmp_path / "new"), *how)
    assert "this model reads 5 and answers 4" in wrong.stderr
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    assert config["model"]["name"] == "stm_released"
