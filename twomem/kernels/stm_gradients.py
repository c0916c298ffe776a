"""Gradients of the weights and inputs of the recurrence, as products of what its reverse loop wrote."""

import torch
from torch import Tensor

from twomem.kernels.matches import make_matches
from twomem.kernels.products import product
from twomem.kernels.stm_arguments import PAPER, RELEASED, Arguments, Saved, Streams


def gradients(
    form: int, given: Arguments, normal: Tensor, saved: Saved, d: Streams, kind: torch.dtype
) -> Arguments:
    """A gradient for each argument, none where there is no argument or no gradient."""
    values = normal.chunk(3, dim=2)[2]
    d_scores = d.scores.flatten(0, 2)
    project = product(d_scores.mT.to(kind), d.seen.flatten(0, 2))
    right = cue = address = kept = first = transfer = gate_weight = moved = None
    matches = None
    if given.transfer is not None or given.address is not None:
        matches = make_matches(normal, kind)  # batch time key query width
    if given.address is not None:
        assert matches is not None
        find = _released_reads if form == RELEASED else _paper_reads
        right, address, kept = find(given, matches, values, saved, d)
        first, cue = d.reads, _cue(form, given, saved, d)
    if given.transfer is not None:
        assert matches is not None
        transfer = product(d.image.flatten(0, 2).mT.to(kind), matches.flatten(3).flatten(0, 2))
        moved = _like(given.moved, d.moved)
    if given.gate_weight is not None:
        heard = torch.tanh(saved.items[:, :-1]).to(d.gate.dtype)
        gate_weight = product(d.gate.flatten(0, 2).mT, heard.flatten(0, 2))
    return Arguments(
        row=d.row,
        column=d.column,
        project=project,
        project_bias=d_scores.sum(0),
        gain=d.gain.sum(0),
        bias=d.bias.sum(0),
        items=_like(given.items, d.items),
        gates=None if given.gates is None else d.gates,
        gate_weight=gate_weight,
        right=right,
        cue=cue,
        address=address,
        first_reads=first,
        kept=kept,
        moved=moved,
        transfer=transfer,
        lengths=None,
    )


def _like(given: Tensor | None, grad: Tensor) -> Tensor:
    """Sums over the batch what all rows share."""
    assert given is not None
    if given.ndim < grad.ndim:
        return grad.sum(0)
    return grad.sum(0, keepdim=True) if given.shape[0] == 1 else grad


def _cue(form: int, given: Arguments, saved: Saved, d: Streams) -> Tensor:
    """Of what is multiplied with a read: the released form meets the scores, the paper's the rows."""
    if form == PAPER:
        images = saved.reads @ given.project.mT
        return (d.scores @ images[..., None])[..., 0]
    return (saved.reads[:, :, None] @ d.scores)[:, :, 0]


def _released_reads(
    given: Arguments, matches: Tensor, values: Tensor, saved: Saved, d: Streams
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the cue, the address, and the powers of what is kept; a later step's read meets the matches."""
    assert given.right is not None
    assert given.address is not None
    assert given.kept is not None
    del values
    time = given.right.shape[1]
    met, d_met = saved.met[:, :, :time], d.met[:, :, :time]
    steps = torch.arange(time, device=met.device)
    after = steps - steps[:, None] - 1
    later = after >= 0
    fades = torch.where(later, given.kept[after.clamp(min=0)], 0)
    right, address = _through_matches(
        given.address, given.right, d_met * fades[None, :, :, None], matches
    )
    by_distance = torch.where(later, (met * d_met).sum((0, 3)), 0)
    kept = torch.zeros_like(given.kept)
    kept.index_add_(0, after.clamp(min=0).flatten(), by_distance.flatten())
    return right, address, kept


def _paper_reads(
    given: Arguments, matches: Tensor, values: Tensor, saved: Saved, d: Streams
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the cue and the address; a later step's read meets the values, and what is kept is fixed."""
    assert given.right is not None
    assert given.address is not None
    assert given.kept is not None
    time = given.right.shape[1]
    met, d_met = saved.met[:, :, :time], d.met[:, :, :time]
    right = d_met.transpose(1, 2).flatten(2) @ values.flatten(1, 2)
    _, address = _through_matches(given.address, d.reads, met, matches)
    return right, address, torch.zeros_like(given.kept)


def _through_matches(
    address: Tensor, cue: Tensor, coefficient: Tensor, matches: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of sum over t, j, s, i of address[t', s] cue[t', i] coefficient[t, t', j] K[t, j, s, i].

    Returns those of `cue` and `address`.
    """
    times = coefficient.transpose(1, 2)  # batch t' t key
    flat = matches.flatten(1, 3)  # batch (t key query) width
    seen = product(cue.to(flat.dtype), flat.mT).unflatten(2, (*times.shape[2:], -1))
    to_address = (times[..., None] * seen).sum((2, 3))
    spread = times[..., None] * address[:, :, None, None]
    return product(spread.flatten(2).to(flat.dtype), flat), to_address
