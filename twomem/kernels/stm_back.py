"""One sequence through the reverse loop, a part of the steps after the other.

What the loop writes entry by entry of the memory is so large that a launch is given a part of the steps,
and what it wrote becomes gradients of weights before the next.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from twomem.kernels import fragments
from twomem.kernels.products import product, range_of
from twomem.kernels.stm_arguments import RELEASED, Entries, Saved, Streams
from twomem.kernels.stm_call import Call, plain
from twomem.kernels.stm_shared import backward_flags, summed

_ROOM, _BESIDE = 200 * 2**20, 0.6
"""Bytes that the entries of a part may take, or this much of what is saved if that is more."""
_MOST_PARTS = 4
"""Sums over the steps of a part are kept for each."""


class Back:
    """The reverse loop of a call."""

    def __init__(self, call: Call, normal: Tensor, saved: Saved) -> None:
        """Takes what the loop forward was told, gave and saved."""
        self.call, self.normal, self.saved = call, normal, saved
        f = call.flags
        self.gated, self.read, self.transfer = (f[x] > 0 for x in ("GATED", "READ", "TRANSFER"))

    def run(self, d_normal: Tensor, d_last: Tensor) -> tuple[Streams, Tensor | None]:
        """What the reverse loop gives, and by what most of it is too large."""
        call, steps = self.call, self.call.sizes.time
        scale = range_of(call.kind, d_normal, d_last)
        span = self._span()
        starts = list(range(0, steps, span))
        streams, project = self._room(len(starts)), []
        before, after = self._fixed(d_normal, d_last, scale)
        defines = backward_flags(call.flags, call.space)
        entries = None
        for part, first in reversed(list(enumerate(starts))):
            behind = min(first + span, steps)
            # those of the last part make room first
            del entries
            entries = self._entries(behind - first)
            own = self._of_part(streams, entries, part)
            where = (steps, call.sizes.batch, first, behind)
            call.launch("stm_backward", defines, [*before, *after, *own, *where])
            streams = self._learned(streams, entries, project, first)
        return streams._replace(project=torch.cat(project) if project[1:] else project[0]), scale

    def _span(self) -> int:
        """Steps of a part."""
        n, wide = self.call.sizes, self.call.sizes.wide
        of_step = n.batch * wide**2 * (4 if self.gated else 1) * self.call.kind.itemsize
        saved = sum(x.numel() * x.element_size() for x in (self.normal, *self.saved))
        most = max(_ROOM, int(_BESIDE * saved))
        parts = min(-(-n.time * of_step // most), _MOST_PARTS, n.time)
        return -(-n.time // max(parts, 1))

    def _room(self, parts: int) -> Streams:
        """Room for all that the loop writes, but entries."""
        call, made = self.call, self.call.made
        n, f = call.sizes, call.flags
        b, t, d, q = n.batch, n.time, n.wide, n.many
        moved = (parts * b, d) if call.form == RELEASED else (b, d, d)
        return Streams(
            row=made(b, t, d),
            column=made(b, t, d),
            gates=made(b, t, 2 * d, wanted=self.gated),
            scores=made(b, t, d, 3 * q, kind=call.kind),
            image=made(b, t, q, d, wanted=self.transfer),
            reads=made(b, t, d, wanted=self.read),
            met=made(b, t, f["STEPS"], q, wanted=self.read),
            right=made(b, t, d, wanted=summed(f)),
            address=made(b, t, q, wanted=summed(f)),
            gain=made(parts * b, 3 * q, d),
            bias=made(parts * b, 3 * q, d),
            items=made(b, d, d),
            moved=made(*moved, wanted=self.transfer),
            gate_weight=None,
            project=made(0),
        )

    def _entries(self, span: int) -> Entries:
        n, made, kind = self.call.sizes, self.call.made, self.call.kind
        shape = (n.batch, span, n.wide)
        return Entries(
            gate=made(*shape, 2 * n.wide, wanted=self.gated, kind=kind),
            heard=made(*shape, n.wide, wanted=self.gated, kind=kind),
            seen=made(*shape, n.wide, kind=kind),
        )

    def _fixed(
        self, d_normal: Tensor, d_last: Tensor, scale: Tensor | None
    ) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """What every part is told: arguments and weights, and what comes from both directions."""
        call, g = self.call, self.call.given
        weights = fragments.gates, fragments.gates_back, fragments.scores_back
        *of_scores, of_image = call.operands(*weights, fragments.transfer_back)
        inputs = (g.row, g.column, g.right, g.cue, g.address, g.gates, g.kept)
        before = [*map(plain, inputs), *of_scores, plain(g.gain), of_image]
        by = d_normal.new_ones(()) if scale is None else scale
        grads = map(plain, (d_normal, d_last, by))
        return before, [call.lengths, self.normal, *self.saved, *grads]

    def _of_part(self, streams: Streams, entries: Entries, part: int) -> Iterator[Any]:
        """Where a part writes to, in the order of the kernel; sums over its steps are its own."""
        b = self.call.sizes.batch
        yield from streams[: Streams._fields.index("gain")]
        yield from entries
        own = slice(part * b, (part + 1) * b)
        yield from (streams.gain[own], streams.bias[own], streams.items)
        yield streams.moved[own] if self.call.form == RELEASED else streams.moved

    def _learned(
        self, streams: Streams, entries: Entries, project: list[Tensor], first: int
    ) -> Streams:
        """Adds what the entries make of the gradients of weights."""
        span = entries.seen.shape[1]
        scores = streams.scores[:, first : first + span].flatten(1, 2)
        project.append(product(scores.mT, entries.seen.flatten(1, 2)))
        if not self.gated:
            return streams
        weight = product(entries.gate.flatten(0, 2).mT, entries.heard.flatten(0, 2))
        so_far = streams.gate_weight
        return streams._replace(gate_weight=weight if so_far is None else so_far.add_(weight))
