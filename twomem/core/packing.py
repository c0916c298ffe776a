"""Packed sequences in and out, in the order of `torch.nn.LSTM`."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class Packing(NamedTuple):
    """How the rows of a packed sequence were sorted, and how long each is."""

    lengths: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def unpack(xs: PackedSequence, lengths: object) -> tuple[Tensor, Tensor, Packing]:
    """The padded form, its lengths, and what packs the answers again."""
    if lengths is not None:
        raise ValueError("a packed sequence has its lengths in it: leave out lengths")
    padded, own = pad_packed_sequence(xs)
    return padded, own, Packing(own, xs.sorted_indices, xs.unsorted_indices)


def pack_answers(ys: Tensor, steps: list[int], packing: Packing) -> PackedSequence:
    """Packs the answers that lie inside each row, rows in the order of the inputs."""
    answered = (torch.tensor(steps)[:, None] < packing.lengths).sum(0)
    if not bool(answered.all()):
        row = int((answered == 0).nonzero()[0])
        raise ValueError(
            f"asked marks no step of row {row}, which has {int(packing.lengths[row])}: "
            "a packed answer needs at least one per row"
        )
    if packing.sorted_indices is not None:
        order = packing.sorted_indices
        ys, answered = ys.index_select(1, order), answered[order.to(answered.device)]
    packed = pack_padded_sequence(ys, answered)
    return PackedSequence(
        packed.data, packed.batch_sizes, packing.sorted_indices, packing.unsorted_indices
    )
