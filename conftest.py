"""What holds for all tests, the examples in the README and the docs among them."""

import os

import pytest
import torch
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

settings.register_profile("ours", deadline=None, max_examples=25)
settings.load_profile("ours")
# what cuBLAS needs to give the same sum each time; read when a GPU is first used
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# small models want one thread, and so do tests that run side by side
torch.set_num_threads(1)

# the Python blocks of the README and of the docs are tests
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md"],
    fixtures=["strict_numbers"],
).pytest()


@pytest.fixture(autouse=True)
def strict_numbers():
    """Seeds, and fills every fresh buffer with NaN, so that a forgotten write is seen."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
