"""The recurrence of both STMs, step by step as its equations stand: the truth for its kernels.

What a kernel multiplies at a lower precision is rounded here too, on the way forward and back, so
that a kernel is compared with what such operands can give.
"""

from typing import Any

import torch
from torch import Tensor

from twomem.kernels.stm_arguments import PAPER, RELEASED, Arguments


def rounded(x: Tensor, kind: torch.dtype | None) -> Tensor:
    """`x` as an operand of that kind has it; tf32 is float32 with 13 bits cut off."""
    if kind is None:
        return x
    if kind == torch.float32:
        bits = x.float().view(torch.int32)
        return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).to(x.dtype)
    return x.to(kind).to(x.dtype)


class _Product(torch.autograd.Function):
    """A product of two stacks of matrices, both operands rounded; so are those of its gradients."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, kind: torch.dtype | None) -> Tensor:
        ctx.kind = kind
        a, b = rounded(a, kind), rounded(b, kind)
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        grad = rounded(grad, ctx.kind)
        to_a, to_b = grad @ b.mT, a.mT @ grad
        return to_a.sum_to_size(a.shape), to_b.sum_to_size(b.shape), None


def reference(form: int, a: Arguments, kind: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Normal queries, keys and values of every step, and the last item memory."""

    def times(x: Tensor, y: Tensor) -> Tensor:
        return _Product.apply(x, y, kind)

    batch, time, d = a.row.shape
    items, moved = a.items.expand(batch, d, d), a.moved
    found, matched, valued = [], [], []
    for t in range(time):
        seen = _written(a, form, items, t, times)
        scores = times(seen, a.project.mT) + a.project_bias
        if a.address is not None:
            scores = scores + _read(a, form, t, matched, valued, times)
        normal = _normalised(scores.mT, (1, 2) if form == RELEASED else (2,)) * a.gain + a.bias
        queries, keys, values = normal.chunk(3, dim=1)
        found.append(normal)
        matched.append(torch.tanh(keys[:, :, None] * queries[:, None]))
        valued.append(values)
        new = seen
        if a.transfer is not None:
            image = times(values.mT, times(matched[-1].flatten(2), a.transfer.mT))
            moved = image + a.moved if form == RELEASED else moved + image
            new = seen + moved
        ended = None if a.lengths is None else (a.lengths <= t)[:, None, None]
        items = new if ended is None else torch.where(ended, items, new)
    return torch.stack(found, dim=1), items


def _written(a: Arguments, form: int, items: Tensor, t: int, times: Any) -> Tensor:
    written = a.row[:, t, :, None] * a.column[:, t, None]
    if a.gates is None:
        return items + written
    heard = times(items.tanh(), a.gate_weight.mT) + a.gates[:, t, None]
    take, keep = heard.sigmoid().chunk(2, dim=2)
    return take * (written.tanh() if form == RELEASED else written) + keep * items


def _read(
    a: Arguments, form: int, t: int, matched: list[Tensor], valued: list[Tensor], times: Any
) -> Tensor:
    """What the read of step `t` adds to the scores."""
    read = a.first_reads[:, t]
    address, right = a.address[:, t], a.right[:, t]
    for earlier, (matches, values) in enumerate(zip(matched, valued, strict=True)):
        if form == RELEASED:
            spread = (address[:, :, None] * right[:, None]).flatten(1)[:, :, None]
            met = a.kept[t - 1 - earlier] * times(matches.flatten(2), spread)[..., 0]
            read = read + times(met[:, None], values)[:, 0]
        else:
            met = times(values, right[..., None])[..., 0]
            spread = (met[:, :, None] * address[:, None]).flatten(1)[:, None]
            read = read + times(spread, matches.flatten(1, 2))[:, 0]
    if form == RELEASED:
        return read[:, :, None] * a.cue[:, t, None]
    return a.cue[:, t, :, None] * times(read[:, None], a.project.mT)


def _normalised(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    x = x - x.mean(axes, keepdim=True)
    return x * (x.square().mean(axes, keepdim=True) + 1e-5).rsqrt()


def draw(
    form: int,
    *,
    width: int,
    queries: int,
    time: int,
    batch: int = 2,
    seed: int = 0,
    lengths: list[int] | None = None,
    gated: bool = True,
    read: bool = True,
    transfer: bool = True,
    own: bool = False,
    alpha: float = 0.3,
) -> Arguments:
    """Random arguments in float64, at about the size that they have in a model."""
    generator = torch.Generator().manual_seed(seed)

    def some(*shape: int, size: float = 1.0) -> Tensor:
        return size * torch.randn(shape, generator=generator, dtype=torch.float64)

    d, n, rows = width, queries, batch if own else 1
    project = some(3 * n, d, size=d**-0.5)
    right = some(batch, time, d)
    moved = some(d, size=0.1) if form == RELEASED else some(rows, d, d, size=0.1)
    powers = alpha ** torch.arange(time + 1, dtype=torch.float64)
    cue = alpha * right
    return Arguments(
        row=some(batch, time, d, size=0.7),
        column=some(batch, time, d, size=0.7),
        project=project,
        project_bias=some(3 * n, size=0.1) if form == RELEASED else torch.zeros_like(project[:, 0]),
        gain=1 + some(3 * n, d, size=0.3),
        bias=some(3 * n, d, size=0.3),
        items=some(rows, d, d, size=0.3),
        gates=some(batch, time, 2 * d, size=0.5) if gated else None,
        gate_weight=some(2 * d, d, size=d**-0.5) if gated else None,
        right=right if read else None,
        cue=(cue @ project.mT if form == RELEASED else cue) if read else None,
        address=some(batch, time, n).softmax(2) if read else None,
        first_reads=some(batch, time, d, size=0.3) if read else None,
        kept=(powers if form == RELEASED else torch.ones_like(powers)) if read else None,
        moved=moved if transfer else None,
        transfer=some(d, n * d, size=alpha * (n * d) ** -0.5) if transfer else None,
        lengths=None if lengths is None else torch.tensor(lengths),
    )


def to(given: Arguments, dtype: torch.dtype, device: str = "cpu") -> Arguments:
    """The same arguments at another precision, waiting for gradients."""

    def moved(x: Tensor | None) -> Tensor | None:
        if x is None or not x.is_floating_point():
            return None if x is None else x.to(device)
        return x.detach().to(device, dtype).requires_grad_()

    return Arguments(*map(moved, given))


def learned(form: int, run: Any, given: Arguments) -> dict[str, Any]:
    """What `run` gives, and the gradients of all that can have one, for one fixed cotangent."""
    normal, items = run(form, given)
    if given.lengths is not None:
        inside = torch.arange(normal.shape[1], device=normal.device) < given.lengths[:, None]
        normal = torch.where(inside[..., None, None], normal, 0)
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=normal.dtype, device=normal.device)
    for part in (normal, items):
        weights = torch.randn(part.shape, generator=generator, dtype=torch.float64)
        total = total + (part * weights.to(part)).sum()
    wanted = {
        name: x
        for name, x in given._asdict().items()
        # shifting all scores changes nothing where each row is normalised; kept is fixed there
        if x is not None
        and x.is_floating_point()
        and not (form == PAPER and name in ("project_bias", "kept"))
    }
    grads = torch.autograd.grad(total, list(wanted.values()), materialize_grads=True)
    return {
        "normal": normal.detach().cpu(),
        "items": items.detach().cpu(),
        "gradients": [grad.cpu() for grad in grads],
    }
