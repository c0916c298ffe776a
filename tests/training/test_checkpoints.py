"""A checkpoint is whole or refused by name, and then the one before it is used."""

import json
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import experiment, weights

from twomem.core.errors import BadFile
from twomem.training import checkpoints
from twomem.training.checkpoints import Checkpoint
from twomem.training.runs import Hooks, run

FILES = ("checkpoint.json", "model.safetensors", "training.safetensors")


def some(step: int) -> Checkpoint:
    return Checkpoint(step, {"a": torch.arange(6.0) * step}, {"b": torch.tensor(step)})


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    for step in (10, 20):
        checkpoints.write(folder, some(step))
    return folder


def test_what_is_written_is_read(tmp_path):
    checkpoints.write(tmp_path, some(10))
    found = checkpoints.read_newest(tmp_path, pytest.fail)
    assert found is not None
    assert found.step == 10
    assert torch.equal(found.parameters["a"], torch.arange(6.0) * 10)
    assert torch.equal(found.training["b"], torch.tensor(10))


def test_the_newest_two_are_kept(tmp_path):
    for step in (10, 20, 30):
        checkpoints.write(tmp_path, some(step))
    assert [path.name for path in checkpoints.steps(tmp_path)] == [
        "step-000000030",
        "step-000000020",
    ]


@given(st.sampled_from(FILES), st.data())
def test_a_changed_byte_is_refused_by_name_and_the_one_before_is_used(kept, name, data):
    path = kept / "step-000000020" / name
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    spoilt = bytearray(whole)
    spoilt[place] ^= data.draw(st.integers(1, 255))
    warnings = []
    try:
        path.write_bytes(spoilt)
        found = checkpoints.read_newest(kept, warnings.append)
    finally:
        path.write_bytes(whole)
    if found.step == 20:
        # white space of the JSON alone may differ
        assert name == "checkpoint.json"
        assert json.loads(spoilt) == json.loads(whole)
    else:
        assert found.step == 10
        assert name in warnings[0]


@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True))
def test_a_cut_file_is_refused_by_name(kept, name, share):
    path = kept / "step-000000020" / name
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[: int(share * (len(whole) - 1))])
        with pytest.raises(BadFile, match=name):
            checkpoints.read(path.parent)
    finally:
        path.write_bytes(whole)


def test_with_no_whole_checkpoint_nothing_is_begun_afresh(tmp_path):
    checkpoints.write(tmp_path, some(10))
    (tmp_path / "step-000000010" / "model.safetensors").unlink()
    with pytest.raises(BadFile, match=r"no checkpoint in .* is whole"):
        checkpoints.read_newest(tmp_path, lambda _: None)


def test_a_run_warns_and_goes_on_from_the_last_good_one(tmp_path):
    run(experiment(12), tmp_path / "whole")
    run(experiment(8), tmp_path / "spoilt")
    newest = tmp_path / "spoilt" / "checkpoints" / "step-000000008"
    (newest / "training.safetensors").write_bytes(b"cut")
    warnings = []
    run(experiment(12), tmp_path / "spoilt", hooks=Hooks(warn=warnings.append))
    assert "step-000000008/training.safetensors" in warnings[0]
    assert weights(tmp_path / "spoilt") == weights(tmp_path / "whole")


def test_a_checkpoint_of_another_model_is_refused_by_what_differs(tmp_path):
    run(experiment(8), tmp_path / "stm")
    run(experiment(4, model="lstm"), tmp_path / "lstm")
    shutil.rmtree(tmp_path / "lstm" / "checkpoints")
    shutil.copytree(tmp_path / "stm" / "checkpoints", tmp_path / "lstm" / "checkpoints")
    with pytest.raises(BadFile, match="not the weights of this LSTM"):
        run(experiment(12, model="lstm"), tmp_path / "lstm")


def test_what_a_killed_writer_left_is_removed(tmp_path):
    (tmp_path / ".step-000000010.writing").mkdir()
    checkpoints.write(tmp_path, some(20))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000020"]
