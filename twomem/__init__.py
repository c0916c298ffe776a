"""Memory-augmented sequence models: two memories, one for items and one for their relations.

The names below are imported when they are first used, so that `import twomem` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from twomem import models, ops, tasks
    from twomem.core.memory import Memory, detach, restart
    from twomem.models.lstm import LSTM, LSTMConfig
    from twomem.models.stm import STM, STMConfig
    from twomem.models.stm_released import STMReleased, STMReleasedConfig

_PLACES = {
    "LSTM": "twomem.models.lstm",
    "LSTMConfig": "twomem.models.lstm",
    "STM": "twomem.models.stm",
    "STMConfig": "twomem.models.stm",
    "STMReleased": "twomem.models.stm_released",
    "STMReleasedConfig": "twomem.models.stm_released",
    "Memory": "twomem.core.memory",
    "detach": "twomem.core.memory",
    "restart": "twomem.core.memory",
}
_PACKAGES = ("models", "ops", "tasks")

__all__ = [
    "LSTM",
    "STM",
    "LSTMConfig",
    "Memory",
    "STMConfig",
    "STMReleased",
    "STMReleasedConfig",
    "detach",
    "models",
    "ops",
    "restart",
    "tasks",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"twomem.{name}")
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'twomem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
