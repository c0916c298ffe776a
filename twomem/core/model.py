"""How a model is sized and built."""

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from twomem.core.config import Named
from twomem.core.memory import Memory

Kind = TypeVar("Kind", bound="ModelConfig")


class ModelConfig(Named, ABC):
    """The settings of one model."""

    @abstractmethod
    def build(self, input_size: int, output_size: int) -> Memory[Any]:
        """Makes the model, with fresh parameters, for inputs and outputs of these widths."""

    @classmethod
    @abstractmethod
    def small(cls) -> "ModelConfig":
        """Sizes at which the tests that hold for every model run it."""

    @classmethod
    def of(cls: type[Kind], config: Kind | None, settings: dict[str, Any]) -> Kind:
        """Puts `settings` in place of those of `config`, or of the defaults, and checks them."""
        given = {} if config is None else dict(config)
        return cls(**{**given, **settings})
