"""Is every loss and gradient finite? Noted on the device, so that training need not wait to ask."""

from collections.abc import Sequence

import torch
from torch import Tensor

from twomem.core.errors import Diverged


class Watch:
    """Counts updates up to the first whose loss or gradients are not finite, and notes which are not."""

    def __init__(self, names: Sequence[str], step: int, device: torch.device) -> None:
        """Watches the loss and the gradients of parameters of these names, after `step` updates."""
        self.names = names
        self.fine = torch.tensor(step, device=device)
        """Updates before the first bad one."""
        self.good = torch.tensor(True, device=device)
        """Whether there was none yet."""
        self.bad = torch.zeros(1 + len(names), device=device)
        """NaN for what was not finite in the first bad update, 0 for all else."""

    def note(self, loss: Tensor, gradients: Sequence[Tensor]) -> None:
        """Looks at one more update; changes its own tensors in place, as a captured graph needs it."""
        # few launches, since each of them is in every update: 0 times what is not finite is NaN
        bad = torch.stack([loss.detach().float(), *_largest(gradients)]) * 0
        torch.where(self.good, bad, self.bad, out=self.bad)
        torch.eq(self.bad.sum(), 0, out=self.good)
        self.fine += self.good

    def ask(self) -> None:
        """Waits for the device.

        Raises:
            Diverged: an update met something that is not finite; the message names both.
        """
        if self.good:
            return
        first = int(self.fine) + 1
        loss, *gradients = self.bad.isnan().tolist()
        if loss:
            raise Diverged(f"the loss is not finite at update {first}")
        name = next(name for name, bad in zip(self.names, gradients, strict=True) if bad)
        raise Diverged(f"the gradient of {name} is not finite at update {first}")


def _largest(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The largest absolute value of each, in one launch."""
    found = torch._foreach_norm(list(gradients), float("inf"))  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
    return [each.float() for each in found]
