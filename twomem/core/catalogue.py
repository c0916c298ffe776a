"""Finds models and tasks by name: the folder is the register."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from twomem.core.config import Named, guess
from twomem.core.errors import SettingsError, UnknownName


def names(package: ModuleType) -> list[str]:
    """Names everything in `package`: one name per file."""
    return sorted(found.name for found in iter_modules(package.__path__))


def kind(package: ModuleType, name: str) -> type[Named]:
    """The one class of settings that the file of `name` defines.

    Raises:
        UnknownName: there is no such file; the message offers the nearest name.
    """
    known = names(package)
    if name not in known:
        what = package.__name__.rpartition(".")[2].removesuffix("s")
        raise UnknownName(f"there is no {what} {name!r}: {guess(name, known)}")
    module = import_module(f"{package.__name__}.{name}")
    [found] = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Named)
        and value.__module__ == module.__name__
    ]
    return found


def load(package: ModuleType, name: str, **settings: Any) -> Any:
    """Makes the settings of `name`."""
    return kind(package, name)(**settings)


def reload(package: ModuleType, saved: Any) -> Any:
    """Makes again what `Named.settings` wrote.

    Raises:
        SettingsError: what is given is not a table of settings with a name.
    """
    if not isinstance(saved, dict) or not isinstance(saved.get("name"), str):
        raise SettingsError(f"settings with a name are needed, not {saved!r:.80}")
    return load(package, **saved)
