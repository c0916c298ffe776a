"""Is every loss and gradient finite? Noted on the device, so that training need not wait to ask."""

from collections.abc import Sequence

import torch
from torch import Tensor

from twomem.core.errors import Diverged


class Watch:
    """Notes the first update whose loss or gradients are not finite, and which of them are not."""

    def __init__(self, names: Sequence[str], step: int, device: torch.device) -> None:
        """Watches the loss and the gradients of parameters of these names, after `step` updates."""
        self.names = names
        self.count = torch.tensor(step, device=device)
        self.first = torch.zeros_like(self.count)
        self.bad = torch.zeros(1 + len(names), dtype=torch.bool, device=device)

    def note(self, loss: Tensor, gradients: Sequence[Tensor]) -> None:
        """Looks at one more update; changes its own tensors in place, as a captured graph needs it."""
        # a NaN is larger than all, and an infinity than all else
        bad = ~torch.stack([loss.detach().float(), *_largest(gradients)]).isfinite()
        self.count += 1
        new = bad.any() & (self.first == 0)
        self.first.copy_(torch.where(new, self.count, self.first))
        self.bad.copy_(torch.where(new, bad, self.bad))

    def ask(self) -> None:
        """Waits for the device.

        Raises:
            Diverged: an update met something that is not finite; the message names both.
        """
        first = int(self.first)
        if first == 0:
            return
        loss, *gradients = self.bad.tolist()
        if loss:
            raise Diverged(f"the loss is not finite at update {first}")
        name = next(name for name, bad in zip(self.names, gradients, strict=True) if bad)
        raise Diverged(f"the gradient of {name} is not finite at update {first}")


def _largest(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The largest absolute value of each, in one launch."""
    found = torch._foreach_norm(list(gradients), float("inf"))  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
    return [each.float() for each in found]
