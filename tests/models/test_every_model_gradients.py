"""What holds for the gradients of every model, and for its numbers at lower precision."""

import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from models.contract import by_steps, draw, small, some_state
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from twomem import Memory, models

every = pytest.mark.parametrize("name", models.names())


@every
def test_every_parameter_gets_a_gradient(name):
    memory = small(name)
    ys, _ = memory(draw(4))
    ys.square().sum().backward()
    idle = [n for n, p in memory.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []


@every
def test_gradients_of_the_inputs_are_right(name):
    memory = small(name)
    gradcheck(lambda xs: memory(xs)[0], draw(3, requires_grad=True))


@every
def test_gradients_are_right_when_rows_end_restart_and_are_asked_little(name):
    memory = small(name)
    marks = torch.tensor([[False, False], [True, False], [False, False], [False, True]])
    how = {"restarts": marks, "lengths": [4, 2], "asked": torch.tensor([True, False, False, True])}
    gradcheck(lambda xs: memory(xs, **how)[0], draw(4, requires_grad=True))


@every
def test_gradients_of_a_given_state_are_right(name):
    memory = small(name)
    leaves, structure = tree_flatten(some_state(memory, 1))
    xs = draw(2, 1, requires_grad=True)

    def read(xs, *leaves):
        ys, last = memory(xs, tree_unflatten(leaves, structure))
        return ys, *tree_leaves(last)

    gradcheck(read, (xs, *(leaf.requires_grad_() for leaf in leaves)), fast_mode=True)
    gradcheck(lambda *given: read(*given)[0], (xs, *leaves))


@every
def test_gradients_of_the_parameters_are_right(name):
    # the learned first state is among them
    memory, xs = small(name), draw(3)
    names = [each for each, _ in memory.named_parameters()]

    def read(*values):
        ys, last = functional_call(memory, dict(zip(names, values, strict=True)), (xs,))
        return ys, *tree_leaves(last)

    gradcheck(read, tuple(memory.parameters()), fast_mode=True)


@every
def test_the_first_state_is_learned(name):
    memory = small(name)
    parts = [part.sum() for part in tree_leaves(memory.initial_state(2))]
    own = dict(memory.named_parameters())
    first = torch.autograd.grad(sum(parts), list(own.values()), allow_unused=True)
    learned = [which for which, grad in zip(own, first, strict=True) if grad is not None]
    assert learned, "the first state is no parameter"
    ys, _ = memory(draw(3))
    for which in learned:
        (heard,) = torch.autograd.grad(ys.sum(), own[which], retain_graph=True)
        assert heard.any(), f"no answer hears {which}"


@every
def test_a_restart_gives_the_first_state_its_gradient(name):
    # a row that restarts at its second step learns from its first state twice
    memory, xs = small(name), draw(2, 1)
    marks = torch.tensor([[False], [True]])
    grads = []
    for pieces in ([memory(xs, restarts=marks)[0]], [memory(x[None])[0] for x in xs]):
        total = torch.cat(pieces).square().sum()
        grads.append(torch.autograd.grad(total, tuple(memory.parameters()), materialize_grads=True))
    assert_exact(*grads, "gradients")


@every
def test_no_gradient_passes_a_restart(name):
    memory, xs = small(name), draw(4, requires_grad=True)
    marks = torch.tensor([[False, False], [False, False], [True, False], [False, False]])
    ys, _ = memory(xs, restarts=marks)
    (heard,) = torch.autograd.grad(ys[3].sum(), xs)
    assert not heard[:2, 0].any()
    assert heard[:2, 1].any()


def learning(form, name):
    """Answers, last state and all gradients; bfloat16 stands for a float32 model under autocast."""

    def run(seed, dtype):
        mixed = dtype == torch.bfloat16
        kept = torch.float32 if mixed else dtype
        # through float32, so that every precision starts from the same numbers
        memory, xs = small(name, seed).float().to(kept), draw(4).float().to(kept).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            ys, last = form(memory, xs)
        total = ys.to(kept).square().sum()
        inputs, *parameters = torch.autograd.grad(total, [xs, *memory.parameters()])
        return {"answers": ys, "state": last, "inputs": inputs, "parameters": parameters}

    return run


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_sequence_is_as_accurate_as_its_steps(name, dtype):
    fast, reference = learning(Memory.__call__, name), learning(by_steps, name)
    assert_as_accurate(fast, reference, range(4), dtype)


@every
@pytest.mark.parametrize("inputs", [torch.float32, torch.bfloat16], ids=str)
def test_under_autocast_states_and_gradients_stay_in_float32(name, inputs):
    memory = small(name).float()
    xs, marks = draw(5).to(inputs), torch.zeros(5, 2, dtype=torch.bool)
    marks[2, 1] = True
    with torch.autocast("cpu", torch.bfloat16):
        ys, last = memory(xs, restarts=marks, lengths=[5, 4])
        y, after = memory.step(xs[0], last)
    (ys.float().sum() + y.float().sum()).backward()
    for part in (*tree_leaves(last), *tree_leaves(after)):
        assert part.dtype == torch.float32
        assert part.isfinite().all()
    for which, parameter in memory.named_parameters():
        assert parameter.grad.dtype == torch.float32, which
        assert parameter.grad.isfinite().all(), which
    assert ys.isfinite().all()
