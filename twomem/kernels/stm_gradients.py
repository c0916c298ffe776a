"""Gradients of the weights and inputs of the recurrence, as products of what its reverse loop wrote."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from twomem.kernels.later import later
from twomem.kernels.products import rescaled
from twomem.kernels.runtime import launch
from twomem.kernels.stm_arguments import PAPER, RELEASED, Arguments, Saved, Streams
from twomem.kernels.stm_call import Call
from twomem.kernels.sums import batch_sums
from twomem.kernels.transfer import transfer_gradient


class Gradients:
    """What the reverse loop wrote, and what it was told: from both follow all gradients."""

    def __init__(
        self,
        call: Call,
        normal: Tensor,
        saved: Saved,
        streams: Streams,
        scale: Tensor | None,
    ) -> None:
        """Takes what the reverse loop wrote too large by `scale`."""
        self.given = Arguments(*[_single(x) for x in call.given])
        self.call, self.normal, self.saved = call, normal, saved
        self.streams, self.scale = streams, scale
        self.read = self.given.address is not None
        # those that the reverse loop writes as they are
        self.exact = {"row", "column", "gates"}
        if streams.right.numel():
            self.exact |= {"right", "address"}

    def all(self, needed: Sequence[bool]) -> list[Tensor | None]:
        """A gradient for each argument that is there and needs one, in their order."""
        wanted = {
            name
            for (name, x), need in zip(self.given._asdict().items(), needed, strict=True)
            if need and x is not None
        }
        cue, of_sequences = self._sums(fades=self.read and "kept" in wanted)
        found = {**self._as_written(), **self._of_matches(), "cue": cue}
        there = {name: x for name, x in found.items() if x is not None and name in wanted}
        rescaled([x for name, x in there.items() if name not in self.exact], self.scale)
        shared = {name: x for name, x in of_sequences.items() if x is not None}
        summed = batch_sums(list(shared.values()), self.scale)
        all_of_them = {**there, **dict(zip(shared, summed, strict=True))}
        return [all_of_them.get(name) if name in wanted else None for name in Arguments._fields]

    def _as_written(self) -> dict[str, Tensor | None]:
        """Those that the reverse loop wrote, or one product makes of it."""
        d, given = self.streams, self.given
        return {
            "row": d.row,
            "column": d.column,
            "gates": d.gates,
            "gate_weight": d.gate_weight,
            "first_reads": d.reads,
            "items": d.items if len(given.items) > 1 else None,
            "moved": d.moved if _own(given.moved) else None,
        }

    def _sums(self, *, fades: bool) -> tuple[Tensor | None, dict[str, Tensor | None]]:
        """The gradient of what meets the reads, and for each sequence those that sequences share."""
        given, d, n, f = self.given, self.streams, self.call.sizes, self.call.flags
        released = self.call.form == RELEASED
        cue = None if given.cue is None else d.gain.new_empty(given.cue.shape)
        # where each row of the scores is normalised, a bias changes nothing
        bias = d.gain.new_empty(n.batch, 3 * n.many) if released else None
        kept = d.gain.new_empty(n.batch, n.time + 1) if fades and released else None
        meets = self.saved.reads
        if self.read and not released:
            meets = meets @ given.project.mT
        if released or self.read:
            of_sources = {name: f[name] for name in ("D", "N", "STEPS", "READ", "PRECISION")}
            switches = {"RELEASED": int(released), "KEPT": int(kept is not None), "THREADS": 512}
            tensors = [d.scores, meets, self.saved.met, d.met, bias, cue, kept]
            launch("row_sums", {**of_sources, **switches}, n.batch, 512, [*tensors, n.time])
        return cue, {
            "gain": d.gain,
            "bias": d.bias,
            "items": d.items if len(given.items) == 1 else None,
            "moved": None if given.moved is None or _own(given.moved) else d.moved,
            "project": d.project,
            "project_bias": bias,
            "kept": kept,
        }

    def _of_matches(self) -> dict[str, Tensor | None]:
        """Those of cues, addresses and the transfer, for which kernels make the matches again."""
        d, given = self.streams, self.given
        right, address, transfer = d.right, d.address, None
        if self.read and not right.numel():
            right, address = _later(
                self.call.form, given, self.normal, self.saved, d, self.call.kind
            )
        if given.transfer is not None:
            transfer = transfer_gradient(self.normal, d.image, self.call.kind)
        return {"right": right, "address": address, "transfer": transfer}


def _single(x: Any) -> Any:
    return x.float() if x is not None and x.is_floating_point() else x


def _own(moved: Tensor | None) -> bool:
    """Whether each sequence has its own; the released form has a vector for all."""
    return moved is not None and moved.ndim > 1 and len(moved) > 1


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
