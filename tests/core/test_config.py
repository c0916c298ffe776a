"""Settings are frozen and typed, and what is wrong with them is said in one sentence."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError, model_validator

from twomem.core.config import SEEDS, Config, Finite, Named, Seed, Size, guess
from twomem.core.errors import SettingsError, TwomemError


class Inner(Config):
    """A group inside another."""

    rate: Finite = 0.5
    """How fast."""


class Example(Named):
    """Settings of everything that a setting can be."""

    things: Size
    """How many."""
    seed: Seed = 0
    kind: Literal["plain", "striped"] = "plain"
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _few(self):
        if self.things > 100:
            raise ValueError(f"things is {self.things}, more than fit")
        return self


def sentence(**settings):
    """What is said when these settings are refused."""
    with pytest.raises(SettingsError) as caught:
        Example(**settings)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


def test_good_settings_are_kept():
    config = Example(things=3, seed=5, kind="striped", inner={"rate": 0.1})
    assert (config.things, config.seed, config.kind, config.inner.rate) == (3, 5, "striped", 0.1)
    assert Example(things=3) == Example(things=3, seed=0)
    assert Example(things=3) != Example(things=4)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "Example needs the setting 'things'"),
        (
            {"things": 1, "thing": 3},
            "Example has no setting 'thing': did you mean 'things'? there are: ",
        ),
        ({"things": 0}, "Example: things = 0: input should be greater than or equal to 1"),
        ({"things": "many"}, "Example: things = 'many': input should be a valid integer"),
        ({"things": True}, "Example: things = True: a whole number is needed"),
        ({"things": 1, "seed": -1}, "Example: seed = -1: "),
        ({"things": 1, "seed": SEEDS}, f"Example: seed = {SEEDS}: "),
        ({"things": 1, "seed": False}, "Example: seed = False: "),
        ({"things": 1, "kind": "dotted"}, "Example: kind = 'dotted': input should be 'plain' or"),
        ({"things": 1, "inner": {"rate": "x"}}, "rate = 'x': input should be"),
        (
            {"things": 1, "inner": {"rate": float("nan")}},
            "rate = nan: input should be a finite number",
        ),
        (
            {"things": 1, "inner": {"rate": float("inf")}},
            "rate = inf: input should be a finite number",
        ),
        ({"things": 101}, "things is 101, more than fit"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_a_sentence(settings, says):
    assert says in sentence(**settings)


def test_what_is_wrong_in_an_inner_group_is_said_with_its_place():
    with pytest.raises(SettingsError, match="Inner has no setting 'rat': did you mean 'rate'"):
        Inner(rat=1)
    message = sentence(things=1, inner={"rat": 1})
    for part in ("Example: inner", "no setting 'rat'", "did you mean 'rate'"):
        assert part in message


def test_a_settings_error_is_for_people_and_a_value_error():
    assert issubclass(SettingsError, TwomemError)
    assert issubclass(SettingsError, ValueError)


def test_settings_do_not_change():
    config = Example(things=3)
    with pytest.raises(ValidationError, match="frozen"):
        config.things = 4
    with pytest.raises(ValidationError, match="frozen"):
        del config.things
    assert config.things == 3
    assert hash(config) == hash(Example(things=3))


def test_the_file_gives_the_name():
    assert Example(things=1).name == __name__.rpartition(".")[2]


def test_settings_are_written_as_json_has_them():
    expected = {
        "name": Example(things=1).name,
        "things": 1,
        "seed": 0,
        "kind": "plain",
        "inner": {"rate": 0.5},
    }
    assert Example(things=1).settings() == expected


def test_what_stands_below_a_setting_is_its_description():
    assert Example.model_fields["things"].description == "How many."


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("stn", "did you mean 'stm'? there are: lstm, stm"),
        ("zzzz", "there are: lstm, stm"),
        ("", "there are: lstm, stm"),
    ],
)
def test_a_guess_offers_the_near_name_and_all_names(wrong, says):
    assert guess(wrong, ["stm", "lstm"]) == says


def test_a_guess_among_none():
    assert guess("stm", []) == "there are: none"


@given(seed=st.integers(0, SEEDS - 1), things=st.integers(1, 100))
def test_every_seed_and_size_in_range_is_taken(seed, things):
    config = Example(seed=seed, things=things)
    assert (config.seed, config.things) == (seed, things)
