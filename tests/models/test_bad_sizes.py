"""Sizes, settings and names that cannot be are refused before anything is built."""

import math

import pytest
from annotated_types import Ge
from hypothesis import given
from hypothesis import strategies as st
from models.contract import config_of
from models.refused import as_users_have_it, check_refused  # noqa: F401 the fixture is autouse

import twomem
from twomem import models
from twomem.core.errors import SettingsError, UnknownName

every = pytest.mark.parametrize("name", models.names())


def sizes(name):
    """The whole numbers among the settings, and the smallest that each may be."""
    fields = type(config_of(name)).model_fields
    return {
        setting: next(bound.ge for bound in field.metadata if isinstance(bound, Ge))
        for setting, field in fields.items()
        if field.annotation is int
    }


every_size = pytest.mark.parametrize(
    ("name", "setting"), [(name, setting) for name in models.names() for setting in sizes(name)]
)


def made(name):
    return type(config_of(name).build(3, 4))


@every
@given(wrong=st.integers(max_value=0))
def test_an_input_or_output_below_one(name, wrong):
    check_refused(lambda: made(name)(wrong, 4), ValueError, "input size", str(wrong))
    check_refused(lambda: made(name)(3, wrong), ValueError, "output size", str(wrong))
    build = config_of(name).build
    check_refused(lambda: build(wrong, 4), ValueError, "input size", str(wrong))


@every
@pytest.mark.parametrize("wrong", [2.5, 3.0, "3", True, None, [3]], ids=repr)
def test_an_input_or_output_that_is_no_whole_number(name, wrong):
    check_refused(lambda: made(name)(wrong, 4), TypeError, "input size", repr(wrong))
    check_refused(lambda: made(name)(3, wrong), TypeError, "output size", repr(wrong))


def test_every_model_has_a_size():
    assert {name for name in models.names() if sizes(name)} == set(models.names())


@every_size
@given(below=st.integers(1, 2**40))
def test_a_size_that_is_too_small(name, setting, below):
    wrong = sizes(name)[setting] - below
    call = lambda: made(name)(3, 4, **{setting: wrong})  # noqa: E731
    check_refused(call, SettingsError, setting, str(wrong), "greater than or equal")


@every_size
@pytest.mark.parametrize("wrong", [2.5, "wide", None, [3], math.nan, math.inf], ids=repr)
def test_a_size_that_is_no_whole_number(name, setting, wrong):
    settings = {setting: wrong}
    check_refused(lambda: made(name)(3, 4, **settings), SettingsError, setting, repr(wrong))
    check_refused(lambda: models.load(name, **settings), SettingsError, setting, repr(wrong))


@every
def test_a_size_that_is_a_truth_value(name):
    # true is a whole number to Python, but whoever writes it for a size means something else
    for setting in sizes(name):
        call = lambda: made(name)(3, 4, **{setting: True})  # noqa: B023, E731 called at once
        check_refused(call, SettingsError, setting, "True")


@every
def test_an_unknown_setting_is_told_the_near_name(name):
    near = next(iter(sizes(name)))
    wrong = near + "s" if not near.endswith("s") else near[:-1]
    said = repr(wrong), f"did you mean {near!r}?"
    check_refused(lambda: made(name)(3, 4, **{wrong: 2}), SettingsError, *said)
    check_refused(lambda: models.load(name, **{wrong: 2}), SettingsError, *said)


@every
def test_an_unknown_setting_far_from_any_is_told_which_there_are(name):
    known = sorted(type(config_of(name)).model_fields)
    check_refused(lambda: made(name)(3, 4, zzzz=2), SettingsError, "'zzzz'", ", ".join(known))


@every
def test_settings_are_not_changed(name):
    config = config_of(name)
    setting = next(iter(sizes(name)))
    with pytest.raises(ValueError, match="frozen"):
        setattr(config, setting, 2)
    assert config == config_of(name)


@pytest.mark.parametrize("name", ["stm", "stm_released"])
@pytest.mark.parametrize(
    "alphas", [(1, 2), (1, 2, 3, 4), "a", None, (0, "b", 0), (0, math.nan, 0), (math.inf, 0, 0)]
)
def test_blends_that_are_not_three_numbers(name, alphas):
    check_refused(lambda: made(name)(3, 4, alphas=alphas), SettingsError, "alphas")


def test_settings_of_another_model_are_refused():
    config = models.load("lstm")
    check_refused(lambda: twomem.STM(3, 4, config), SettingsError, "STMConfig", "'hidden'")


def test_an_unknown_model_is_told_the_near_name_and_all_names():
    known = ", ".join(models.names())
    check_refused(lambda: models.load("stn"), UnknownName, "'stn'", "did you mean 'stm'?", known)
    check_refused(lambda: models.load("zzzz"), LookupError, "'zzzz'", known)


def test_an_unknown_attribute_of_the_package():
    check_refused(lambda: twomem.STMM, AttributeError, "twomem", "'STMM'")
    with pytest.raises(ImportError, match="STMM"):
        exec("from twomem import STMM", {})
