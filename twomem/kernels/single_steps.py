"""What single steps are distilled to, by kernels that make each memory in registers alone."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from twomem.kernels import fragments
from twomem.kernels.matches import NUMBERS
from twomem.kernels.runtime import at_once, launch
from twomem.kernels.stm_shared import WIDEST

_PAIRS = 16
"""Steps of sequences that a block has."""
_MOST = 8
"""Queries that these kernels know."""
_ROWS = 4
"""Rows of the memory that a block has when it sums the gradient of the map."""


class SingleSteps:
    """Single steps in a row, from `first`, of a stretch of sequences."""

    def __init__(
        self, normal: Tensor, fades: Tensor, weight: Tensor, first: int, kind: torch.dtype
    ) -> None:
        """Keeps what both directions share; `fades` has a number for each step of each sequence."""
        self.normal, self.fades = normal.detach().contiguous(), fades.detach().contiguous()
        self.weight, self.first, self.kind = weight.detach(), first, kind
        self.batch, self.time, scores, self.width = normal.shape
        self.queries, self.distilled = scores // 3, weight.shape[0]
        self.defines = {
            "D": _whole(self.width),
            "REAL_D": self.width,
            "REAL_N": self.queries,
            "R": _whole(self.distilled),
            "REAL_R": self.distilled,
            "PRECISION": NUMBERS[kind],
        }

    def _rows(self) -> Tensor:
        """The map, padded: distilled, width, depth."""
        rows = self.weight.unflatten(1, (self.width, self.width))
        d, r = self.defines["D"] - self.width, self.defines["R"] - self.distilled
        return pad(rows, [0, d, 0, 0, 0, r]).to(self.kind)

    def _launch(self, name: str, blocks: int, threads: int, *arguments: Tensor | int) -> None:
        launch(name, self.defines, blocks, threads, [self.normal, self.fades, *arguments])

    def _where(self, count: int) -> tuple[int, int, int, int]:
        return self.batch, self.time, self.first, count

    def forward(self, count: int) -> Tensor:
        """Step, batch, query, distilled."""
        packed = fragments.packed(self._rows(), fragments.rows_of_distilled)
        found = self.normal.new_empty(count, self.batch, self.queries, self.distilled)
        blocks = -(-self.batch * count // _PAIRS)
        self._launch("distil", blocks, 256, packed, found, *self._where(count))
        return found

    def backward(self, back: Tensor, d_normal: Tensor, d_fades: Tensor) -> Tensor:
        """Writes gradients of these steps into both; returns that of the map."""
        count = len(back)
        back = pad(back, [0, self.defines["R"] - self.distilled]).to(self.kind).contiguous()
        packed = fragments.packed(self._rows(), fragments.rows_of_depth)
        blocks = -(-self.batch * count // _PAIRS)
        where = self._where(count)
        self._launch("distil_back", blocks, 256, packed, back, d_normal, d_fades, *where)
        return self._map_gradient(back)

    def _map_gradient(self, back: Tensor) -> Tensor:
        """The sum over all steps and sequences, in parts that run side by side."""
        count = len(back)
        # pairs in the order of the kernels: sequence, then step
        turned = back.transpose(0, 1).flatten(0, 1)
        turned = pad(turned, [0, 0, 0, _MOST - self.queries, 0, len(turned) % 2])
        turned = turned.unflatten(0, (-1, 2)).flatten(1, 2)  # two_pairs pair_query distilled
        packed = _left(turned.mT)
        groups = -(-self.width // _ROWS)
        parts = max(1, at_once(self.normal.device) // groups)
        shape = (parts, self.distilled, self.width * self.width)
        found = self.normal.new_empty(shape)
        threads = 4 * self.defines["D"]
        self._launch(
            "distil_weight", groups * parts, threads, packed, found, *self._where(count), parts
        )
        return found.sum(0)


def _left(rows: Tensor) -> Tensor:
    """Left operands (two_pairs, distilled, 16) in the order of `fragments.left`."""
    parts = rows.unflatten(2, (2, 4, 2)).unflatten(1, (-1, 2, 8))  # two r h g p tq e
    return parts.permute(0, 1, 3, 5, 4, 2, 6).contiguous()


def _whole(width: int) -> int:
    return -(-width // 16) * 16


def known(queries: int, width: int) -> bool:
    """Whether these kernels can be used."""
    return queries <= _MOST and width <= WIDEST
