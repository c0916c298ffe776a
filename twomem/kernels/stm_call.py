"""One sequence through the loop forward: packs, makes room, launches."""

from collections.abc import Callable

import torch
from torch import Tensor

from twomem.kernels import fragments
from twomem.kernels.packing import Ordered, packed
from twomem.kernels.products import OPERANDS
from twomem.kernels.runtime import Argument, at_once, launch, room
from twomem.kernels.stm_arguments import RELEASED, Arguments, Saved, Sizes
from twomem.kernels.stm_shared import flags, forward_flags


def plain(x: Tensor | None) -> Tensor | None:
    """Float32 without gaps or a gradient."""
    return None if x is None else x.detach().float().contiguous()


def _both(gain: Tensor, bias: Tensor) -> tuple[Tensor | None, ...]:
    """The same of two that stand alike, by one launch where they have to be turned."""
    if gain.is_contiguous() and bias.is_contiguous():
        return plain(gain), plain(bias)
    return torch.stack([gain.detach().float(), bias.detach().float()]).unbind()


class Call:
    """A stretch of sequences at one precision: what both directions share."""

    def __init__(self, form: int, given: Arguments, n: Sizes, precision: str) -> None:
        """Takes arguments that are padded already; `n` has the sizes before."""
        self.form, self.sizes, self.given = form, n, given
        self.kind = OPERANDS.get(precision, torch.float32)
        self.flags = flags(
            form,
            n,
            gated=given.gates is not None,
            read=given.address is not None,
            transfer=given.transfer is not None,
            precision=precision,
        )
        self.space = room(given.row.device)

    def operands(self, *orders: Callable[..., Tensor]) -> list[Tensor | None]:
        """Gate, score and transfer weights in orders of `fragments`, as the tensor cores read them."""
        g, q = self.given, self.sizes.many
        own = {"gates": (0, ()), "scores": (1, ()), "transfer": (2, (q,))}
        wanted = []
        for order in orders:
            which, sizes = own[order.__name__.removesuffix("_back")]
            wanted.append(Ordered(which, order, sizes))
        return packed([g.gate_weight, g.project, g.transfer], wanted, self.kind)

    def made(self, *shape: int, wanted: bool = True, kind: torch.dtype = torch.float32) -> Tensor:
        """Room for a result; zeros where rows may end early, since nothing is written behind an end."""
        new = torch.empty if self.given.lengths is None else torch.zeros
        return new(shape if wanted else (0,), dtype=kind, device=self.given.row.device)

    @property
    def lengths(self) -> Tensor | None:
        """How many steps each row has."""
        given = self.given.lengths
        return None if given is None else given.to(torch.int32)

    def room(self, *, save: bool) -> tuple[Tensor, Tensor, Saved]:
        """Room for all that the forward loop writes."""
        n, f = self.sizes, self.flags
        b, t, d, q = n.batch, n.time, n.wide, n.many
        saved = Saved(
            items=self.made(b, t, d, d, wanted=save, kind=self.kind),
            scores=self.made(b, t, 3 * q, d, wanted=save),
            rstd=self.made(b, t, 1 if self.form == RELEASED else 3 * q, wanted=save),
            image=self.made(b, t, q, d, wanted=save and f["TRANSFER"] > 0),
            met=self.made(b, t, f["STEPS"], q, wanted=save and f["READ"] > 0),
            reads=self.made(b, t, d, wanted=save and f["READ"] > 0),
        )
        return self.made(b, t, 3 * q, d), self.made(b, d, d), saved

    def forward(self, *, save: bool) -> tuple[Tensor, Tensor, Saved]:
        """Normal queries, keys and values of every step, the last item memory, and what is saved."""
        g, n = self.given, self.sizes
        b, t = n.batch, n.time
        normal, last, saved = self.room(save=save)
        gates, rows, image = self.operands(fragments.gates, fragments.scores, fragments.transfer)
        arguments = [
            *map(plain, (g.row, g.column, g.right, g.cue, g.address, g.gates)),
            *map(plain, (g.first_reads, g.kept, g.items, g.moved)),
            *(gates, rows),
            plain(g.project_bias),
            *_both(g.gain, g.bias),
            image,
            self.lengths,
            normal,
            last,
            *saved,
            *(t, b, int(g.items.shape[0] > 1), int(g.moved is not None and g.moved.shape[0] > 1)),
        ]
        defines = {**forward_flags(self.flags, self.space, t), "SAVE": int(save)}
        self.launch("stm_forward", defines, arguments)
        return normal, last, saved

    def launch(self, name: str, defines: dict[str, int], arguments: list[Argument]) -> None:
        """Runs a kernel: a block for each sequence, or as many as run side by side."""
        blocks = min(self.sizes.batch, at_once(self.given.row.device))
        launch(name, defines, blocks, 4 * self.sizes.wide, arguments)
