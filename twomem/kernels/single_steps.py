"""What single steps are distilled to, by kernels that make each memory in registers alone."""

import torch
from torch import Tensor

from twomem.kernels import single_sizes as sizes
from twomem.kernels.runtime import at_once, launch, room
from twomem.kernels.sums import batch_sums

_THREADS = 256
_LANES = 32


class SingleSteps:
    """Single steps in a row, from `first`, of a stretch of sequences."""

    def __init__(
        self, normal: Tensor, fades: Tensor, weight: Tensor, first: int, kind: torch.dtype
    ) -> None:
        """Keeps what both directions share; `fades` has a number for each step of each sequence."""
        self.normal, self.fades = _aligned(normal.detach()), fades.detach().contiguous()
        self.weight, self.first, self.kind = weight.detach(), first, kind
        self.batch, self.time, scores, self.width = normal.shape
        self.queries = scores // 3

    def forward(self, count: int) -> Tensor:
        """Step, batch, query, distilled."""
        found = [self._forward(part, count) for part in self.weight.split(sizes.MOST_DISTILLED)]
        return found[0] if len(found) == 1 else torch.cat(found, -1)

    def backward(
        self,
        back: Tensor,
        scale: Tensor | None,
        d_normal: Tensor,
        d_fades: Tensor,
        more: Tensor | None = None,
    ) -> Tensor:
        """Writes gradients of these steps into both, which are contiguous; returns that of the map.

        Operands are `back` times `scale`, a power of two; of what is found, it is taken out again,
        and of what has `more` of the gradient of the map.
        """
        most, found = sizes.MOST_DISTILLED, []
        to = (d_normal, d_fades)
        rest = [None] * -(-len(self.weight) // most) if more is None else more.split(most)
        parts = self.weight.split(most), back.split(most, -1), rest
        for part, each, early in zip(*parts, strict=True):
            if found:
                to = (torch.zeros_like(d_normal), torch.zeros_like(d_fades))
            found.append(self._backward(part, each.contiguous(), scale, *to, early))
            if len(found) > 1:
                d_normal += to[0]
                d_fades += to[1]
        return found[0] if len(found) == 1 else torch.cat(found)

    def _sizes(self, part: Tensor) -> dict[str, int]:
        return sizes.common(self.queries, self.width, len(part), self.kind)

    def _where(self, count: int) -> tuple[int, int, int, int]:
        return self.batch, self.time, self.first, count

    def _loop(self, known: dict[str, int], count: int) -> dict[str, int]:
        """The sizes of a kernel that goes through all rows of the memory."""
        device, pairs = self.normal.device, self.batch * count
        return known | sizes.loop(known, pairs, at_once(device), room(device))

    def _forward(self, part: Tensor, count: int) -> Tensor:
        known = self._sizes(part)
        (packed, *_), found = self._pack(part, known, count), self._found(count, part)
        known, where = self._loop(known, count), self._where(count)
        blocks, threads = sizes.grid(known, self.batch * count)
        launch("distil", known, blocks, threads, [self.normal, self.fades, packed, found, *where])
        return found

    def _found(self, count: int, part: Tensor) -> Tensor:
        return self.normal.new_empty(count, self.batch, self.queries, len(part))

    def _pack(
        self,
        part: Tensor,
        known: dict[str, int],
        count: int,
        back: Tensor | None = None,
        scale: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The map, and on the way back the gradient and the values, as operands; by one launch."""
        summed = known | sizes.summed(known)
        packed = self._operands(sizes.map_size(known))
        maps = -(-packed.numel() // (8 * _THREADS))
        y = v = None
        twos = tiles = 0
        if back is not None:
            twos = sizes.stages(summed, self.batch * count) * summed["TWOS"]
            y_tiles, v_tiles = sizes.tiles_of_two(summed)
            y, v = self._operands(256 * twos * y_tiles), self._operands(256 * twos * v_tiles)
            tiles = twos * (y_tiles + v_tiles)
        blocks = maps + -(-tiles * _LANES // _THREADS)
        given = [part.contiguous(), packed, int(back is not None), maps, self.normal, self.fades]
        given += [back, scale, y, v, *self._where(count), twos]
        launch("distil_pack", summed, blocks, _THREADS, given)
        return packed, y, v

    def _operands(self, count: int) -> Tensor:
        return self.normal.new_empty(count, dtype=self.kind)

    def _backward(
        self,
        part: Tensor,
        back: Tensor,
        scale: Tensor | None,
        d_normal: Tensor,
        d_fades: Tensor,
        more: Tensor | None,
    ) -> Tensor:
        count, known = len(back), self._sizes(part)
        packed, y, v = self._pack(part, known, count, back, scale)
        loop, where = self._loop(known, count), self._where(count)
        blocks, threads = sizes.grid(loop, self.batch * count)
        given = [self.normal, self.fades, packed, back, scale, d_normal, d_fades, *where]
        launch("distil_back", loop, blocks, threads, given)
        found = self._map_gradient(known | sizes.summed(known), [y, v, None], count, more)
        (total,) = batch_sums([found], scale)
        assert total is not None
        return total

    def _map_gradient(
        self,
        known: dict[str, int],
        operands: list[Tensor | None],
        count: int,
        more: Tensor | None,
    ) -> Tensor:
        """What adds up to the sum over all steps and sequences: parts that run side by side, and `more`."""
        groups = sizes.summing_blocks(known)
        stages = sizes.stages(known, self.batch * count)
        parts = max(1, min(at_once(self.normal.device) // groups, stages))
        rows = parts + int(more is not None)
        found = self.normal.new_empty(rows, known["REAL_R"], self.width * self.width)
        given = [self.normal, *operands, found, *self._where(count), parts]
        launch("distil_weight", known, groups * parts, _THREADS, given)
        if more is not None:
            found[parts] = more
        return found


def _aligned(x: Tensor) -> Tensor:
    """Contiguous, and at a place from which 16 bytes can be read at once."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def known(queries: int, width: int) -> bool:
    """Whether these kernels can be used."""
    return sizes.fits(queries, width)
