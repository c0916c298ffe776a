"""Settings: frozen, typed, and refused in one sentence when a name or a value is wrong."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from twomem.core.errors import SettingsError


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a whole number is needed")  # noqa: TRY004 pydantic hears this kind
    return value


Whole = Annotated[int, BeforeValidator(_no_truth_value)]
"""A whole number; true and false are none, although Python counts them among its integers."""

Size = Annotated[Whole, Field(ge=1)]
"""A number of things, at least one."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A number that is neither infinite nor NaN."""

SEEDS = 2**31
"""Seeds are below this: each means two streams, and generators know 32 bits."""

Seed = Annotated[Whole, Field(ge=0, lt=SEEDS)]
"""The seed of everything random in a run."""


def guess(wrong: str, known: Iterable[str]) -> str:
    """Offers the name that was probably meant, and says which there are."""
    known = sorted(known)
    near = get_close_matches(wrong, known, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}there are: {', '.join(known) or 'none'}"


class Config(BaseModel):
    """The base of every group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def __init__(self, **settings: Any) -> None:
        """Checks the settings.

        Raises:
            SettingsError: a name is unknown or a value cannot be; the message is one sentence.
        """
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingsError(_sentence(type(self), error)) from None


def _sentence(kind: type[Config], error: ValidationError) -> str:
    """The first thing that is wrong, in words."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{kind.__name__} has no setting {where!r}: {guess(where, kind.model_fields)}"
    if first["type"] == "missing":
        return f"{kind.__name__} needs the setting {where!r}"
    reason = first["msg"].removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    given = first["input"]
    place = f"{kind.__name__}: {where} = {given!r}" if where else kind.__name__
    return f"{place}: {reason}"


class Named(Config):
    """Settings of a thing that has a file of its own: the file gives the name."""

    @property
    def name(self) -> str:
        """The name on the command line and in results."""
        return type(self).__module__.rpartition(".")[2]

    def settings(self) -> dict[str, Any]:
        """The name and every setting, as JSON has it; the catalogue makes it whole again."""
        return {"name": self.name, **self.model_dump(mode="json")}
