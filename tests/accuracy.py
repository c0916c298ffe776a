"""How near must two numbers be? The one place that answers; every check raises.

Two exact forms of one formula are compared in float64, where both are far more precise than any
fault. At lower precision nothing is typed by hand: float64 is the truth, and the rounding error
of the reference at that precision sets what is allowed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten_with_path, tree_leaves

EXACT = 1e-9
"""Two forms of one formula in float64, relative to the largest entry."""

BESIDE = 1e-3
"""A tensor below this part of its largest neighbour is measured by it: it may be zero but for rounding."""

Results = Mapping[str, Any]
"""Tensors, or trees of them, by the kind of result that they are."""


def assert_exact(got: Any, truth: Any, what: str = "it", within: float = EXACT) -> None:
    """Compares two trees of tensors, each tensor relative to its largest entry."""
    ours, right = _by_place(got), _by_place(truth)
    assert right, f"{what}: there is nothing to compare"
    odd = sorted(ours.keys() ^ right.keys())
    assert not odd, f"{what}: only one of the two has {', '.join(odd)}"
    largest = max(map(_largest, right.values()))
    for place, t in right.items():
        g, where = ours[place], what + place
        assert g.shape == t.shape, f"{where}: shape {tuple(g.shape)}, {tuple(t.shape)} is right"
        assert g.dtype == t.dtype, f"{where}: {g.dtype}, {t.dtype} is right"
        assert bool(g.isfinite().all()), f"{where}: not finite"
        off, allowed = _largest(g - t), within * max(_largest(t), BESIDE * largest)
        assert off <= allowed, f"{where}: off by {off:.1e}, allowed {allowed:.1e}"


def _by_place(tree: Any) -> dict[str, Tensor]:
    """The leaves of a tree by where they are in it; of a tensor alone, itself."""
    return {"".join(map(str, path)): leaf for path, leaf in tree_flatten_with_path(tree)[0]}


def _largest(x: Tensor) -> float:
    return x.detach().abs().max().item() if x.numel() else 0.0


def error(got: Tensor, truth: Tensor) -> float:
    """Euclidean error relative to the truth; another shape, NaN and infinity are infinitely wrong."""
    if got.shape != truth.shape or not got.isfinite().all():
        return float("inf")
    return ((got.double() - truth.double()).norm() / truth.double().norm().clamp_min(1e-30)).item()


def assert_as_accurate(
    fast: Callable[[int, torch.dtype], Results],
    reference: Callable[[int, torch.dtype], Results],
    seeds: Iterable[int],
    dtype: torch.dtype = torch.float32,
    factor: float = 2.0,
) -> None:
    """Allows `factor` times the reference's own rounding error, for each kind of result.

    Both are called with a seed and a precision, and must draw the same numbers for both. Errors
    are pooled over the tensors of a kind and over seeds: those of one scalar are down to luck.
    """
    ours, own = {}, {}
    for seed in seeds:
        truth = reference(seed, torch.float64)
        for errors, form in ((ours, fast), (own, reference)):
            found = form(seed, dtype)
            for kind, right in truth.items():
                pairs = zip(tree_leaves(found[kind]), tree_leaves(right), strict=True)
                errors.setdefault(kind, []).extend(error(g, t) for g, t in pairs)
    assert own, "there is nothing to compare"
    for kind, errors in own.items():
        allowed = factor * _pooled(errors) + 4 * torch.finfo(dtype).eps
        found = _pooled(ours[kind])
        assert found <= allowed, f"{kind}: error {found:.1e}, allowed {allowed:.1e}"


def _pooled(errors: list[float]) -> float:
    return (sum(e**2 for e in errors) / len(errors)) ** 0.5


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor holds that is made inside, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                # an expanded view has many entries and little memory
                held = leaf.untyped_storage().nbytes() // leaf.element_size()
                self.numel = max(self.numel, min(held, leaf.numel()))
        return out
