"""Counts what an operation computes, from the implementation and not from the formula.

Every call that reaches PyTorch's kernels is seen and counted exactly. A sum of `n` numbers is
`n - 1` additions; a difference counts as an addition, a quotient as a multiplication. A call that
nobody has told how to count is an error, so nothing is left out in silence.
"""

from collections.abc import Callable
from math import prod
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from twomem.ops.attention import (
    dot_product_attention,
    outer_product_attention,
    softmax_over_keys,
)

Attention = Literal["DPA", "OPA"]


class Count(NamedTuple):
    """How many of each; `functions` are values of tanh and exp."""

    multiplications: int = 0
    additions: int = 0
    functions: int = 0


class Sizes(NamedTuple):
    """The sizes of an attention."""

    queries: int
    pairs: int
    width: int
    depth: int


def _each(**once: int) -> Callable[..., Count]:
    """Counts `once` for every number that comes out."""
    return lambda out, *_: Count(**{what: times * out.numel() for what, times in once.items()})


def _product(out: Tensor, left: Tensor, *_: Any) -> Count:
    inner = left.shape[-1]
    return Count(out.numel() * inner, out.numel() * (inner - 1))


def _sum(out: Tensor, x: Tensor, *_: Any) -> Count:
    return Count(additions=x.numel() - out.numel())


def _softmax(out: Tensor, _: Tensor, axis: int, *__: Any) -> Count:
    """The largest is taken off, exp is taken, and all are divided by their sum."""
    rows = out.numel() // out.shape[axis]
    return Count(out.numel(), 2 * out.numel() - rows, out.numel())


_RULES: dict[str, Callable[..., Count]] = {
    "aten::add": _each(additions=1),
    "aten::sub": _each(additions=1),
    "aten::mul": _each(multiplications=1),
    "aten::div": _each(multiplications=1),
    "aten::tanh": _each(functions=1),
    "aten::exp": _each(functions=1),
    "aten::sum": _sum,
    "aten::_softmax": _softmax,
    "aten::mm": _product,
    "aten::bmm": _product,
}

_FREE = {"aten::clone", "aten::copy_", "aten::_unsafe_view", "aten::_reshape_alias"}
"""Calls that only move numbers; views are free too."""


class Counting(TorchDispatchMode):
    """Counts what is computed inside of `with Counting() as counting`: see `counting.count`."""

    def __init__(self) -> None:
        """Has counted nothing."""
        super().__init__()
        self.count = Count()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Lets the call through, and counts it."""
        del types
        out = func(*args, **(kwargs or {}))
        name = func._schema.name  # noqa: SLF001
        if kwargs and kwargs.get("alpha", 1) != 1:
            name += " with alpha"  # a sum that multiplies as well
        if name in _RULES:
            new = _RULES[name](out, *args)
            self.count = Count(*map(sum, zip(self.count, new, strict=True)))
        elif not func.is_view and name not in _FREE:
            raise NotImplementedError(f"nobody has said how {name} is counted")
        return out


def count(operation: Callable[..., Any], *inputs: Tensor) -> Count:
    """What `operation` computes on these inputs.

    Raises:
        NotImplementedError: it makes a call that has no rule; the message names it.
    """
    with torch.no_grad(), Counting() as counting:
        operation(*inputs)
    return counting.count


def inputs(sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of these sizes; counts do not depend on what is in them."""
    shapes = (sizes.queries, sizes.width), (sizes.pairs, sizes.width), (sizes.pairs, sizes.depth)
    queries, keys, values = (torch.zeros(shape) for shape in shapes)
    return queries, keys, values


def count_attention(which: Attention, sizes: Sizes) -> tuple[Count, int]:
    """What the attention `which` (DPA or OPA) computes, and how many numbers hold its relations.

    The relations of DPA are the weights of queries and keys, those of OPA what it returns.
    """
    held = []

    def weigh(scores: Tensor) -> Tensor:
        weights = softmax_over_keys(scores)
        held.append(weights.numel())
        return weights

    def run(queries: Tensor, keys: Tensor, values: Tensor) -> None:
        if which == "DPA":
            dot_product_attention(queries, keys, values, weigh=weigh)
        else:
            held.append(outer_product_attention(queries, keys, values).numel())

    counted = count(run, *inputs(sizes))
    return counted, held[0]


def published(which: Attention, sizes: Sizes) -> tuple[int, int, int]:
    """The orders that the paper's table gives: of additions, of multiplications, of storage."""
    queries, pairs, width, depth = sizes
    if which == "DPA":
        return (
            (width * queries + depth) * pairs,
            (width + depth) * queries * pairs,
            queries * pairs,
        )
    return prod(sizes), queries * width * depth, queries * width * depth


def table(queries: int, pairs: int, width: int, depth: int) -> str:
    """The paper's table of complexity in numbers, counted beside published, as Markdown."""
    sizes = Sizes(queries, pairs, width, depth)
    lines = ["| | counted | published order | ratio |", "| --- | ---: | ---: | ---: |"]
    for which in get_args(Attention):
        counted, held = count_attention(which, sizes)
        found = counted.additions, counted.multiplications, held
        names = "additions", "multiplications", "numbers that hold relations"
        for name, own, order in zip(names, found, published(which, sizes), strict=True):
            lines.append(f"| {which}: {name} | {own:,} | {order:,} | {own / order:.2f} |")
    return "\n".join(lines)
