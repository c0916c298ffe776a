"""Compiled kernels on disk: made once, whole, and from this user's hand."""

import os

import pytest

from twomem.kernels import binaries


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Counts what is made, in a fresh folder."""
    monkeypatch.setenv("TWOMEM_CACHE", str(tmp_path / "kept"))
    return []


def get(made, made_of="source"):
    def make():
        made.append(made_of)
        return f"binary of {made_of}".encode()

    return binaries.kept(made_of, make)


def test_it_is_made_once(made):
    assert get(made) == get(made) == b"binary of source"
    assert get(made, "another") == b"binary of another"
    assert made == ["source", "another"]


@pytest.mark.parametrize("spoil", [lambda x: x[:-1], lambda x: x[:5], lambda x: x + b"?"])
def test_a_spoilt_file_is_made_anew(made, spoil):
    get(made)
    (path,) = binaries.folder().iterdir()
    path.write_bytes(spoil(path.read_bytes()))
    assert get(made) == get(made) == b"binary of source"
    assert made == ["source", "source"]


def test_nothing_is_read_where_others_can_write(made):
    get(made)
    binaries.folder().chmod(0o777)
    get(made)
    assert len(made) == 2


def test_without_a_place_it_is_made_each_time(made, monkeypatch):
    monkeypatch.setenv("TWOMEM_CACHE", os.devnull)
    assert get(made) == get(made) == b"binary of source"
    assert len(made) == 2


def test_a_full_disk_leaves_nothing_half_written(made, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(binaries.Path, "replace", full)
    assert get(made) == b"binary of source"
    assert list(binaries.folder().iterdir()) == []


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "HOME"])
def test_it_stands_in_the_users_cache(name, tmp_path, monkeypatch):
    for each in ("TWOMEM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    assert tmp_path in binaries.folder().parents
    assert binaries.folder().name == "twomem"


def test_a_user_without_a_home_makes_it_each_time(made, monkeypatch):
    def homeless():
        raise RuntimeError("no home")

    for each in ("TWOMEM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setattr(binaries.Path, "home", homeless)
    assert get(made) == get(made) == b"binary of source"
    assert len(made) == 2
