"""Gradients of the weights and inputs of the recurrence, as products of what its reverse loop wrote."""

import torch
from torch import Tensor

from twomem.kernels.later import later
from twomem.kernels.products import product
from twomem.kernels.stm_arguments import PAPER, Arguments, Saved, Streams
from twomem.kernels.transfer import transfer_gradient


def gradients(
    form: int, given: Arguments, normal: Tensor, saved: Saved, d: Streams, kind: torch.dtype
) -> Arguments:
    """A gradient for each argument, none where there is no argument or no gradient."""
    d_scores = d.scores.flatten(0, 2)
    read, transfers = given.address is not None, given.transfer is not None
    transfer = gate_weight = None
    right, address = d.right, d.address
    if read and not right.numel():
        right, address = _later(form, given, normal, saved, d, kind)
    if transfers:
        transfer = transfer_gradient(normal, d.image, kind)
    if given.gate_weight is not None:
        gate_weight = product(d.gate.flatten(0, 2).mT, d.heard.flatten(0, 2))
    return Arguments(
        row=d.row,
        column=d.column,
        project=product(d_scores.mT, d.seen.flatten(0, 2)),
        project_bias=d_scores.float().sum(0),
        gain=d.gain.sum(0),
        bias=d.bias.sum(0),
        items=_like(given.items, d.items),
        gates=None if given.gates is None else d.gates,
        gate_weight=gate_weight,
        right=right if read else None,
        cue=_cue(form, given, saved, d) if read else None,
        address=address if read else None,
        first_reads=d.reads if read else None,
        kept=_kept(form, given, saved, d) if read else None,
        moved=_like(given.moved, d.moved) if transfers else None,
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
    scores = d.scores.float()
    if form == PAPER:
        images = saved.reads @ given.project.mT
        return (scores @ images[..., None])[..., 0]
    return (saved.reads[:, :, None] @ scores)[:, :, 0]


def _kept(form: int, given: Arguments, saved: Saved, d: Streams) -> Tensor:
    """Of the powers of what is kept, by how far apart two steps are; the paper's are fixed."""
    assert given.kept is not None
    kept = torch.zeros_like(given.kept)
    if form == PAPER:
        return kept
    time = given.row.shape[1]
    steps = torch.arange(time, device=kept.device)
    after = steps - steps[:, None] - 1
    by_pair = (saved.met * d.met).sum((0, 3))[:, :time]
    by_pair = torch.where(after >= 0, by_pair, 0)
    return kept.index_add_(0, after.clamp(min=0).flatten(), by_pair.flatten())


def _later(
    form: int, given: Arguments, normal: Tensor, saved: Saved, d: Streams, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Of cues and addresses, where the reverse loop does not sum them: the matches meet later steps."""
    assert given.right is not None
    assert given.address is not None
    if form == PAPER:
        time, values = normal.shape[1], normal.chunk(3, dim=2)[2]
        right = d.met[:, :, :time].transpose(1, 2).flatten(2) @ values.flatten(1, 2)
        how = (given.address, d.reads, None, kind)
        return right, later(normal, saved.met, *how, of_cue=False)[1]
    right, address = later(normal, d.met, given.address, given.right, given.kept, kind)
    assert right is not None
    return right, address
