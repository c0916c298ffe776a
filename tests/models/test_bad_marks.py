"""Marks that do not fit are refused: which steps are asked, and where rows restart."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from models.contract import draw, small
from models.refused import as_users_have_it, check_refused  # noqa: F401 the fixture is autouse

from twomem import models

every = pytest.mark.parametrize("name", models.names())
TIME, BATCH = 4, 2
shapes = st.lists(st.integers(1, 5), max_size=3)


def refused(name, kind, *words, **how):
    memory = small(name)
    check_refused(lambda: memory(draw(TIME), **how), kind, *words, memory=memory)


@every
def test_asked_that_marks_nothing(name):
    refused(name, ValueError, "asked marks no step", asked=torch.zeros(TIME, dtype=torch.bool))


@every
@given(shape=shapes)
def test_asked_of_another_shape(name, shape):
    assume(shape != [TIME])
    asked = torch.ones(shape, dtype=torch.bool)
    refused(name, ValueError, "asked", str(tuple(shape)), f"({TIME},)", asked=asked)


@every
def test_asked_with_a_mark_per_row_is_told_the_way(name):
    asked = torch.ones(TIME, BATCH, dtype=torch.bool)
    refused(name, ValueError, "asked.any(1)", asked=asked)


@every
@given(shape=shapes)
def test_restarts_of_another_shape(name, shape):
    assume(shape != [TIME, BATCH])
    restarts = torch.ones(shape, dtype=torch.bool)
    refused(
        name, ValueError, "restarts", str(tuple(shape)), f"({TIME}, {BATCH})", restarts=restarts
    )


@every
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.uint8], ids=str)
def test_marks_that_are_not_boolean(name, dtype):
    asked = torch.ones(TIME, dtype=dtype)
    refused(name, TypeError, "asked", str(dtype), "boolean", asked=asked)
    restarts = torch.zeros(TIME, BATCH, dtype=dtype)
    refused(name, TypeError, "restarts", str(dtype), "boolean", restarts=restarts)


@every
@pytest.mark.parametrize("marks", ["yes", {"a": 1}, object()], ids=["words", "dict", "object"])
def test_marks_that_are_no_tensor(name, marks):
    refused(name, TypeError, "asked", "boolean", asked=marks)
    refused(name, TypeError, "restarts", "boolean", restarts=marks)


@every
def test_asked_may_be_a_list(name):
    memory, xs = small(name), draw(TIME)
    ys, _ = memory(xs, asked=[False, True, False, True])
    assert torch.equal(ys, memory(xs, asked=torch.tensor([False, True, False, True]))[0])
