"""The folder is the register: every file is found by its name, and a wrong name is told the near one."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import twomem
from twomem import models, tasks
from twomem.core.catalogue import kind, load, names, reload
from twomem.core.config import Named
from twomem.core.errors import SettingsError, UnknownName
from twomem.core.model import ModelConfig
from twomem.core.task import Task

FILES = [
    (package, path.stem)
    for package in (models, tasks)
    for path in sorted(Path(package.__file__).parent.glob("*.py"))
    if path.stem != "__init__"
]


@pytest.mark.parametrize("package", [models, tasks])
def test_every_file_is_named_once_and_in_order(package):
    found = names(package)
    assert found == sorted(name for where, name in FILES if where is package)
    assert found == package.names()
    assert found


@pytest.mark.parametrize(("package", "name"), FILES, ids=str)
def test_every_file_loads(package, name):
    config = load(package, name)
    assert isinstance(config, ModelConfig if package is models else Task)
    assert config.name == name
    assert type(config) is kind(package, name)
    assert config == package.load(name)
    assert reload(package, config.settings()) == config


@pytest.mark.parametrize(("package", "name"), FILES, ids=str)
def test_every_setting_says_what_it_is(package, name):
    for setting, field in kind(package, name).model_fields.items():
        assert field.description, f"{name}.{setting} has no description"


def test_settings_are_given_by_keyword():
    assert models.load("stm", queries=2).queries == 2
    assert tasks.load("copy", bits=3).bits == 3


def test_an_unknown_name_is_told_the_near_one():
    with pytest.raises(UnknownName, match=r"^there is no model 'stn': did you mean 'stm'\? there "):
        load(models, "stn")
    with pytest.raises(
        LookupError, match=r"^there is no task 'kopy': did you mean 'copy'\? there "
    ):
        load(tasks, "kopy")


@pytest.mark.parametrize("name", ["__init__", "", "STM", "twomem.models.stm", "../models/stm"])
def test_only_a_name_of_a_file_is_a_name(name):
    with pytest.raises(UnknownName, match="there is no model"):
        load(models, name)


@pytest.mark.parametrize(
    "saved",
    [None, [], "stm", {}, {"queries": 2}, {"name": None}, {"name": 3, "queries": 2}],
    ids=str,
)
def test_what_is_no_table_of_settings_is_refused(saved):
    with pytest.raises(SettingsError, match="settings with a name are needed"):
        reload(models, saved)


def test_saved_settings_that_are_wrong_are_refused():
    with pytest.raises(UnknownName, match="'stn'"):
        reload(models, {"name": "stn"})
    with pytest.raises(SettingsError, match="did you mean 'queries'"):
        reload(models, {"name": "stm", "querys": 2})
    with pytest.raises(SettingsError, match="queries = 0"):
        reload(models, {"name": "stm", "queries": 0})


def test_a_class_that_is_only_imported_is_not_what_a_file_defines(tmp_path, monkeypatch):
    source = (
        "from twomem.models.stm import STMConfig\n"
        "from twomem.core.config import Named\n"
        "class Own(Named):\n    '''The one.'''\n"
    )
    folder = tmp_path / "planted_models"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "own.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import planted_models

    assert isinstance(planted_models, ModuleType)
    assert kind(planted_models, "own").__name__ == "Own"
    assert issubclass(kind(planted_models, "own"), Named)
    with pytest.raises(UnknownName, match="there is no planted_model 'owm': did you mean 'own'"):
        kind(planted_models, "owm")


def python(code):
    """Runs code in a process of its own, whose last word is returned."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_and_its_names_come_without_torch():
    known = "import sys, twomem; dir(twomem); print(twomem.__version__, 'torch' in sys.modules)"
    assert python(known) == f"{twomem.__version__} False"


def test_a_name_of_the_package_is_imported_when_it_is_used():
    used = "import sys, twomem; twomem.STM; print('torch' in sys.modules)"
    assert python(used) == "True"


@pytest.mark.parametrize("name", twomem.__all__)
def test_every_public_name_is_there(name):
    found = getattr(twomem, name)
    assert found.__name__ in {name, f"twomem.{name}"}
    assert name in dir(twomem)
