"""Sums over the rows of several matrices by one launch."""

from collections.abc import Sequence

from torch import Tensor

from twomem.kernels.runtime import launch

_MOST = 8
"""Matrices of one launch."""
_COLUMNS, _THREADS = 64, 512
"""Columns of a block, and its threads."""
_FLAT = 16
"""Rows that are so few that a thread adds all of them."""
_TALL, _FOLD = 2048, 32
"""Rows that are too many for few blocks, and how many of them are laid side by side first."""


def batch_sums(given: Sequence[Tensor | None], scale: Tensor | None = None) -> list[Tensor | None]:
    """Of each tensor the sum over its first axis, divided by `scale`; none where there is none."""
    there = [x.contiguous() for x in given if x is not None and x.numel()]
    assert len(there) <= _MOST
    if not there:
        return [None] * len(given)
    tall = [x.view(-1, _FOLD, *x.shape[1:]) for x in there if _is_tall(x)]
    if tall:
        parts = iter(_summed(tall, None))
        there = [next(parts) if _is_tall(x) else x for x in there]
    each = iter(_summed(there, scale))
    return [None if x is None or not x.numel() else next(each) for x in given]


def _is_tall(x: Tensor) -> bool:
    return len(x) >= _TALL and len(x) % _FOLD == 0


def _summed(there: Sequence[Tensor], scale: Tensor | None) -> list[Tensor]:
    widths, missing = [x[0].numel() for x in there], _MOST - len(there)
    found = [x.new_empty(x.shape[1:]) for x in there]
    columns = _COLUMNS if max(map(len, there)) > _FLAT else 4 * _THREADS
    launch(
        "batch_sums",
        {"THREADS": _THREADS, "COLUMNS": columns, "PRECISION": 2},
        sum(-(-width // columns) for width in widths),
        _THREADS,
        [
            *(*there, *[None] * missing, scale, *found, *[None] * missing),
            *(*map(len, there), *[0] * missing),
            *(*widths, *[0] * missing),
        ],
    )
    return found
