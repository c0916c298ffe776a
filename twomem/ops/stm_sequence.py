"""STM over a sequence, restructured: the numbers of `twomem.ops.stm.literal` at a tenth of the cost.

What depends on the inputs alone is computed for all steps at once. In the loop stay the gates,
the queries, keys and values, and products of low rank; the relational memory stays outside of it
(`twomem.ops.relations`). The item memory is held transposed, so that a weight meets all rows of
all memories in one product. G1 is linear, so its image of the relational memory is a running sum.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import layer_norm

from twomem.kernels.stm_arguments import PAPER, Arguments
from twomem.ops import relations as rel
from twomem.ops.decay import Decay
from twomem.ops.hearing import Cue, Heard, heard
from twomem.ops.prepared import blended, first_reads
from twomem.ops.stm import Weights, answered
from twomem.ops.unroll import Form, unless_ended, unroll
from twomem.ops.weights import Affine


def hear(w: Weights, xs: Float[Tensor, "time batch input"], *, by_kernels: bool = False) -> Heard:
    """Computes what does not depend on the memories, for all steps at once."""
    cue = Cue(None, w.blends[1])
    return heard(xs, w.left, w.right, w.address, w.gates, cue, by_kernels=by_kernels)


def loop(
    w: Weights, heard: Heard, items: Tensor, relations: Tensor, lengths: Tensor | None
) -> tuple[rel.Factors, Tensor]:
    """Runs the recurrence: what each step adds to the relational memory, and the item memory."""
    turned, added, precise = items.mT, [], items.dtype
    moved, reads = _moved(w, relations), _first_reads(heard, relations)
    cue = w.blends[1] * heard.right
    for t in range(heard.left.shape[1]):
        written = _write(w, heard, t, turned)
        scores = (written @ w.project.mT).to(precise)
        if reads is not None:
            image = reads[:, 0].to(precise) @ w.project.mT
            scores = scores + cue[:, t, :, None] * image[:, None]
        normal = layer_norm(scores.mT, scores.shape[1:2])
        new = rel.factors(torch.addcmul(w.norm_bias, normal, w.norm_gain), w.blends[0])
        added.append(new)
        if moved is not None and w.transfer is not None:
            image = rel.low_rank(new.matches, w.transfer.weight)
            moved = moved + (w.blends[2] * new.values).mT @ image
            written = written + moved
        if reads is not None and heard.address is not None:
            later = heard.address[:, t + 1 :], heard.right[:, t + 1 :]
            reads = reads[:, 1:] + rel.push_keys(new, *later)
        turned = unless_ended(lengths, t, written, turned)
    return rel.stacked(added), turned.mT


def _moved(w: Weights, relations: Tensor) -> Tensor | None:
    """What the transfer adds of the memory as it is before the first step; none if it is off."""
    return None if w.transfer is None else w.blends[2] * _image(w.transfer, relations)


def _image(transfer: Affine, relations: Tensor) -> Tensor:
    """What the transfer makes of a memory, transposed."""
    image = (relations.flatten(1, 2).mT @ transfer.weight.mT).to(relations.dtype)
    return image + transfer.bias


def _first_reads(heard: Heard, relations: Tensor) -> Tensor | None:
    """What every step reads of the memory as it is before the first; none if reads are off."""
    if heard.address is None:
        return None
    return rel.read_keys(relations, heard.address, heard.right)


def _write(w: Weights, heard: Heard, t: int, turned: Tensor) -> Tensor:
    """The item memory, transposed, once the input is written."""
    written = heard.right[:, t, :, None] * heard.left[:, t, None]
    if w.gates is None or heard.gates is None:
        return turned + written
    gates = (turned.tanh() @ w.gates.memory.mT + heard.gates[:, t, None]).sigmoid()
    take, keep = gates.chunk(2, dim=2)
    return take * written + keep * turned


def arguments(
    w: Weights, heard: Heard, items: Tensor, relations: Tensor, decay: Decay, precision: str
) -> Arguments:
    """The same loop as its kernels take it; alpha 1 is in the gain of the values."""
    gain, bias = _with_values_blended(w)
    cue = moved = transfer = None
    if w.transfer is not None:
        moved, transfer = blended(w.blends[2], _image(w.transfer, relations), w.transfer.weight)
    read, first = heard.address is not None, None
    if relations.shape[0] == 1:
        first = first_reads(heard.uses.address, heard.uses.right, relations.mT, None, precision)
    else:
        first = _first_reads(heard, relations)
    if read and (cue := heard.cue) is None:
        (cue,) = blended(w.blends[1], heard.uses.third_right)
    return Arguments(
        row=heard.right,
        column=heard.left,
        project=w.project,
        project_bias=w.project.new_zeros(w.project.shape[0]),
        gain=gain,
        bias=bias,
        items=items.mT,
        gates=heard.gates,
        gate_weight=None if w.gates is None else w.gates.memory,
        right=heard.right if read else None,
        cue=cue,
        address=heard.address,
        first_reads=first,
        kept=decay.kept if read else None,
        moved=moved,
        transfer=transfer,
        lengths=decay.lengths,
    )


def _with_values_blended(w: Weights) -> list[Tensor]:
    """Gain and bias of queries, keys and values, those of values times alpha 1."""
    values = w.project.shape[0] // 3
    parts = [x.split([2 * values, values]) for x in (w.norm_gain, w.norm_bias)]
    blends = blended(w.blends[0], *(of_values for _, of_values in parts))
    return [torch.cat([first, last]) for (first, _), last in zip(parts, blends, strict=True)]


FORM = Form(hear, loop, answered, lambda w: [(w.output, False)], lambda _w: 1.0, PAPER, arguments)


def sequence(
    w: Weights,
    xs: Float[Tensor, "time batch input"],
    items: Float[Tensor, "batch slot width"],
    relations: Float[Tensor, "batch query slot width"],
    steps: Sequence[int],
    lengths: Int[Tensor, " batch"] | None,
    precision: str = "fp32",
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs at `steps`, and both memories after each row's last step."""
    return unroll(FORM, w, xs, items, relations, steps, lengths, precision)
