"""Holds the restructured form of a two-memory model to its literal one: values and gradients."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from accuracy import LargestTensor, assert_exact
from hypothesis import strategies as st
from torch import Tensor

BLENDS = (None, 0, 0.3, 1, -0.5)
"""What a blend may be: none is learned, and every other is fixed."""


class Forms(NamedTuple):
    """A formula as it is printed, and the fast way to the same numbers."""

    literal: Callable[..., tuple[Tensor, Tensor, Tensor]]
    sequence: Callable[..., tuple[Tensor, Tensor, Tensor]]

    def fast(self, model: Any, xs: Tensor, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        """All answers and both last memories, by the fast form."""
        return self.sequence(model.weights(), xs, *state, range(len(xs)), None)

    def plain(self, model: Any, xs: Tensor, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The same by the literal form."""
        ys, items, relations = self.literal(model.weights(), xs, *state)
        return ys, items[-1], relations[-1]


class Case(NamedTuple):
    """A model of random sizes, moved away from its start, and what it reads."""

    model: Any
    xs: Tensor
    state: Any


@st.composite
def cases(draw: Any, kind: Callable[..., Any], **more: Any) -> Case:
    """Draws sizes, switches and blends; `more` are strategies for settings of one model."""
    inputs, outputs, batch, time = (draw(st.integers(1, top)) for top in (4, 3, 3, 10))
    sizes = {"queries": (1, 5), "width": (1, 9), "distilled": (1, 4)}
    settings = {name: draw(st.integers(*span)) for name, span in sizes.items()}
    settings |= {name: draw(strategy) for name, strategy in more.items()}
    alphas = tuple(draw(st.sampled_from(BLENDS)) for _ in range(3))
    gates, seed = draw(st.booleans()), draw(st.integers(0, 2**16))
    torch.manual_seed(seed)
    model = kind(inputs, outputs, gates=gates, alphas=alphas, **settings).double()
    moved(model, first=draw(st.sampled_from([0.0, 0.2])))
    xs = torch.randn(time, batch, inputs, dtype=torch.float64)
    state = model.initial_state(batch)
    if draw(st.booleans()):  # rows apart, where the first state is one memory for all rows
        state = type(state)(*(part + 0.3 * torch.randn_like(part) for part in state))
    return Case(model, xs, state)


@torch.no_grad()
def moved(model: Any, first: float) -> Any:
    """Moves all parameters; learned blends start at `first`, zero included, and stay small."""
    for name, parameter in model.named_parameters():
        if name.startswith("alpha"):
            parameter.fill_(first)
        else:
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def gradients(
    form: Callable[..., Any], model: Any, xs: Tensor, state: Any
) -> dict[str, Tensor | None]:
    """Of one random sum of all answers and both last memories; by the parameter's name."""
    inputs = {"xs": xs.detach().requires_grad_(), **dict(model.named_parameters())}
    out = form(model, inputs["xs"], state)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in out]
    total = sum((part * weight.to(part)).sum() for part, weight in zip(out, drawn, strict=True))
    values = list(inputs.values())
    found = torch.autograd.grad(total, values, retain_graph=True, materialize_grads=True)
    return dict(zip(inputs, found, strict=True))


def check_forms(forms: Forms, case: Case) -> None:
    """Both forms agree in all answers, in both memories after every step, and in all gradients."""
    model, xs, state = case
    weights = model.weights()
    ys, items, relations = forms.literal(weights, xs, *state)
    assert_exact(forms.fast(*case), (ys, items[-1], relations[-1]), "sequence")
    for t in range(len(xs) - 1):
        answers, *memories = forms.sequence(weights, xs[: t + 1], *state, [], None)
        assert_exact(memories, [items[t], relations[t]], f"memories after step {t}")
        assert answers.shape == (0, *ys.shape[1:])
    assert_exact(gradients(forms.fast, *case), gradients(forms.plain, *case), "gradient")


def largest(form: Callable[..., Any], case: Case) -> int:
    """Numbers in the largest tensor that reading and learning make."""
    with LargestTensor() as seen:
        gradients(form, *case)
    return seen.numel


def learning(form: Callable[..., Any], kind: Callable[..., Any], time: int = 6) -> Any:
    """What `accuracy.assert_as_accurate` takes: results by seed and precision."""

    def run(seed: int, dtype: torch.dtype) -> dict[str, Any]:
        torch.manual_seed(seed)
        model = moved(kind(5, 4, queries=3, width=12, distilled=5), first=0.2).to(dtype)
        xs = torch.randn(time, 2, 5).to(dtype)
        case = Case(model, xs, model.initial_state(2))
        ys, items, relations = form(*case)
        learned = gradients(form, *case)
        return {
            "answers": ys,
            "items": items,
            "relations": relations,
            "gradients of inputs": learned.pop("xs"),
            "gradients of parameters": learned,
        }

    return run
