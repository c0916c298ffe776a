"""Sums over the rows of several matrices by one launch."""

from collections.abc import Sequence

from torch import Tensor

from twomem.kernels.runtime import launch

_MOST = 8
"""Matrices of one launch."""
_COLUMNS, _THREADS = 32, 512
"""Columns of a block, and its threads."""


def batch_sums(given: Sequence[Tensor | None], scale: Tensor | None = None) -> list[Tensor | None]:
    """Of each tensor the sum over its first axis, divided by `scale`; none where there is none."""
    there = [x.contiguous() for x in given if x is not None and x.numel()]
    assert len(there) <= _MOST
    if not there:
        return [None] * len(given)
    widths, missing = [x[0].numel() for x in there], _MOST - len(there)
    found = [x.new_empty(x.shape[1:]) for x in there]
    launch(
        "batch_sums",
        {"THREADS": _THREADS, "PRECISION": 2},
        sum(-(-width // _COLUMNS) for width in widths),
        _THREADS,
        [
            *(*there, *[None] * missing, scale, *found, *[None] * missing),
            *(*map(len, there), *[0] * missing),
            *(*widths, *[0] * missing),
        ],
    )
    each = iter(found)
    return [None if x is None or not x.numel() else next(each) for x in given]
