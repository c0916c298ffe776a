"""The released STM over a sequence, restructured: the numbers of its literal form, much faster.

The ideas are those of `twomem.ops.stm_sequence`. Here the relational memory fades by alpha 1 at
each step, the transfer takes the step's own relations, and a read returns values.
"""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import layer_norm

from twomem.kernels.stm_arguments import RELEASED, Arguments
from twomem.ops import relations as rel
from twomem.ops.decay import Decay, powers
from twomem.ops.hearing import Cue, Heard, heard
from twomem.ops.prepared import blended, first_reads
from twomem.ops.stm_released import Weights, answered
from twomem.ops.unroll import Form, unless_ended, unroll
from twomem.ops.weights import Affine, composed


def hear(w: Weights, xs: Float[Tensor, "time batch input"], *, by_kernels: bool = False) -> Heard:
    """Computes what does not depend on the memories, for all steps at once."""
    address = composed(*w.address) if w.address else None
    maps, cue = (composed(*w.left), composed(*w.right)), Cue(w.project.weight, w.blends[1])
    return heard(xs, *maps, address, w.gates, cue, by_kernels=by_kernels)


def loop(
    w: Weights, heard: Heard, items: Tensor, relations: Tensor, lengths: Tensor | None
) -> tuple[rel.Factors, Tensor]:
    """Runs the recurrence: what each step adds to the relational memory, and the item memory."""
    added, precise = [], items.dtype
    time = heard.left.shape[1]
    kept = powers(w.blends[0] * relations.new_ones(()), time)[:, None]
    reads = _first_reads(heard, relations)
    if reads is not None:
        reads = kept[:time] * reads
    cue = heard.right @ (w.blends[1] * w.project.weight).mT
    for t in range(time):
        written = _write(w, heard, t, items)
        scores = (w.project(written)).to(precise)
        if reads is not None:
            scores = scores + reads[:, 0, :, None] * cue[:, t, None]
        normal = layer_norm(scores, scores.shape[1:], w.norm_gain, w.norm_bias)
        new = rel.factors(normal.mT.contiguous())
        added.append(new)
        if w.transfer is not None:
            image = rel.low_rank(new.matches, w.transfer.weight)
            moved = (w.blends[2] * new.values).mT @ image
            written = written + moved + w.blends[2] * w.transfer.bias
        if reads is not None and heard.address is not None:
            later = heard.address[:, t + 1 :], heard.right[:, t + 1 :]
            reads = reads[:, 1:] + kept[: time - t - 1] * rel.push_values(new, *later)
        items = unless_ended(lengths, t, written, items)
    return rel.stacked(added), items


def _first_reads(heard: Heard, relations: Tensor) -> Tensor | None:
    """What every step would read of the memory as it is before the first; none if reads are off."""
    if heard.address is None:
        return None
    return rel.read_values(relations, heard.address, heard.right)


def _write(w: Weights, heard: Heard, t: int, items: Tensor) -> Tensor:
    """The item memory once the input is written."""
    written = heard.left[:, t, :, None] * heard.left[:, t, None]
    if w.gates is None or heard.gates is None:
        return items + written
    gates = (items.tanh() @ w.gates.memory.mT + heard.gates[:, t, None]).sigmoid()
    take, keep = gates.chunk(2, dim=2)
    return take * written.tanh() + keep * items


def arguments(
    w: Weights, heard: Heard, items: Tensor, relations: Tensor, decay: Decay, precision: str
) -> Arguments:
    """The same loop as its kernels take it."""
    time = heard.left.shape[1]
    read = heard.address is not None
    kept = decay.kept[:time]
    if relations.shape[0] == 1:
        # the first step finds the memory as it is
        fades = kept if time > 1 else None
        first = first_reads(heard.uses.address, heard.uses.right, relations, fades, precision)
    else:
        first = _first_reads(heard, relations)
        first = None if first is None else kept[:, None] * first
    cue = moved = transfer = None
    if read and (cue := heard.cue) is None:
        cue = heard.uses.third_right @ blended(w.blends[1], w.project.weight)[0].mT
    if w.transfer is not None:
        moved, transfer = blended(w.blends[2], w.transfer.bias, w.transfer.weight)
    return Arguments(
        row=heard.left,
        column=heard.uses.left,
        project=w.project.weight,
        project_bias=w.project.bias,
        gain=w.norm_gain.mT,
        bias=w.norm_bias.mT,
        items=items,
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


def _layers(w: Weights) -> list[tuple[Affine, bool]]:
    """The layers of `answered`, and whether a rectifier follows."""
    return list(zip((w.bottleneck, *w.head), (False, True, True, False), strict=True))


FORM = Form(hear, loop, answered, _layers, lambda w: w.blends[0], RELEASED, arguments)


def sequence(
    w: Weights,
    xs: Float[Tensor, "time batch input"],
    items: Float[Tensor, "batch width depth"],
    relations: Float[Tensor, "batch query width depth"],
    steps: Sequence[int],
    lengths: Int[Tensor, " batch"] | None,
    precision: str = "fp32",
) -> tuple[Tensor, Tensor, Tensor]:
    """The answers at `steps`, and both memories after each row's last step."""
    return unroll(FORM, w, xs, items, relations, steps, lengths, precision)
