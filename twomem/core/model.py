"""How a model is sized and built."""

from abc import ABC, abstractmethod
from typing import Any, Self

from twomem.core.config import Named
from twomem.core.memory import Memory


class ModelConfig(Named, ABC):
    """The settings of one model."""

    @abstractmethod
    def build(self, input_size: int, output_size: int) -> Memory[Any]:
        """Makes the model, with fresh parameters, for inputs and outputs of these widths."""

    @classmethod
    @abstractmethod
    def small(cls) -> Self:
        """Sizes at which the tests that hold for every model run it."""

    @classmethod
    def of(cls, config: Self | None, settings: dict[str, Any]) -> Self:
        """Puts `settings` in place of those of `config`, or of the defaults, and checks them."""
        given = {} if config is None else dict(config)
        return cls(**{**given, **settings})
