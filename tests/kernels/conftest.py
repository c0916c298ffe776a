"""Kernels run on a GPU where there is one, and else in an emulator, which needs a C++ compiler."""

import emulate
import pytest
from place import DEVICE

from twomem.kernels import runtime


@pytest.fixture(autouse=True)
def somewhere_to_run(monkeypatch):
    """Puts the emulator in the place of a GPU."""
    if DEVICE == "cpu":
        if emulate.CXX is None:
            pytest.skip("needs a GPU or a C++ compiler")
        monkeypatch.setattr(runtime, "on_cpu", emulate.run)
