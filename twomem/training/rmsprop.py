"""RMSprop for a GPU: PyTorch's rule and state, with all parameters as one vector.

PyTorch takes parameter by parameter, or cuts all of them into pieces of 65,536 numbers, of which a model of
a million has too few to fill a GPU. A vector fills it, and each part of the rule is one launch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, optim
from torch.nn import Parameter

_KINDS = ("square_avg", "momentum_buffer")


class RMSprop(optim.RMSprop):
    """PyTorch's RMSprop over one group of parameters; its state is kept by the same names."""

    def __init__(self, parameters: Sequence[Parameter], **how: Any) -> None:
        """Takes what PyTorch's takes."""
        super().__init__(parameters, **how)
        self._vectors: dict[str, Tensor] = {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from the state of any RMSprop over these parameters."""
        super().load_state_dict(state_dict)
        self._lay_out()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Moves all parameters by their gradients."""
        assert closure is None  # a rule that asks for the loss again is another rule
        if not self._vectors:
            self._lay_out()
        how = self.param_groups[0]
        parameters, (squares, moving) = how["params"], (self._vectors[kind] for kind in _KINDS)
        gradient = laid_out([each.grad for each in parameters], parameters)
        squares.mul_(how["alpha"]).addcmul_(gradient, gradient, value=1 - how["alpha"])
        moving.mul_(how["momentum"]).addcdiv_(gradient, squares.sqrt().add_(how["eps"]))
        moves = pieces(moving, parameters)
        torch._foreach_add_(parameters, moves, alpha=-how["lr"])  # pyright: ignore[reportPrivateImportUsage]
        self._vectors["step"] += 1

    def _lay_out(self) -> None:
        """Brings what is kept of each parameter into vectors; the state becomes views of them."""
        parameters = self.param_groups[0]["params"]
        for kind in _KINDS:
            held = [self.state[each].get(kind) for each in parameters]
            self._vectors[kind] = vector = laid_out(held, parameters)
            for each, piece in zip(parameters, pieces(vector, parameters), strict=True):
                self.state[each][kind] = piece
        counted = [self.state[each].get("step", 0.0) for each in parameters]
        steps = torch.tensor([float(each) for each in counted], device=parameters[0].device)
        self._vectors["step"] = steps
        for each, step in zip(parameters, steps, strict=True):
            self.state[each]["step"] = step


def laid_out(held: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """What is held, one behind the other; zeros for what is not there."""
    there = [
        torch.zeros_like(each) if one is None else one for one, each in zip(held, like, strict=True)
    ]
    return torch.cat([each.flatten() for each in there])


def pieces(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a vector, in the shapes of `like`."""
    parts = vector.split([each.numel() for each in like])
    return [part.view(each.shape) for part, each in zip(parts, like, strict=True)]
