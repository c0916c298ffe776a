"""How a model must refuse: the right kind of error, one line that says what is wrong, no damage."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Turns off the shape checks of the tests: users have none, and are to be told all the same."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def check_refused(
    call: Callable[[], Any],
    kind: type[Exception],
    *words: str,
    memory: nn.Module | None = None,
) -> None:
    """`call` raises a `kind`, whose one line has all `words`; the parameters stay as they are."""
    before = [] if memory is None else [each.clone() for each in memory.state_dict().values()]
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert caught.type in (kind, *kind.__subclasses__()), f"{caught.type.__name__}: {message}"
    assert "\n" not in message, f"more than one line: {message}"
    assert len(message) < 300, f"more than a sentence: {message}"
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"
    if memory is not None:
        after = memory.state_dict().values()
        assert all(map(torch.equal, before, after)), "the parameters were changed"
