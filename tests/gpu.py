"""The mark of a test that needs a GPU, and how things are brought to one."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on(device: str, values: Any) -> Any:
    """The same tensors on another device; whatever is no tensor stays."""
    return tree_map(lambda part: part.to(device) if isinstance(part, Tensor) else part, values)
