"""What holds for every model on a GPU: the numbers are those of the CPU, and nothing leaves it."""

import copy

import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from gpu import needs_gpu, on
from models.contract import by_steps, draw, small, some_state
from models.refused import check_refused
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._pytree import tree_leaves

from twomem import Memory, models

pytestmark = needs_gpu
every = pytest.mark.parametrize("name", models.names())
TIME, BATCH = 6, 3


def marks():
    """Rows that restart, one of them twice."""
    found = torch.zeros(TIME, BATCH, dtype=torch.bool)
    found[2, 0], found[1, 1], found[4, 1] = True, True, True
    return found


CALLS = {
    "a whole sequence": {},
    "rows that end": {"lengths": torch.tensor([6, 2, 4])},
    "rows that restart": {"restarts": marks()},
    "few answers": {"asked": torch.tensor([False, True, False, False, False, True])},
    "all of it": {
        "lengths": torch.tensor([3, 5, 6]),
        "restarts": marks(),
        "asked": torch.tensor([True, False, True, False, False, False]),
    },
}


def learned(memory, xs, state, how):
    """Answers, last state, and the gradients of inputs and parameters."""
    xs = xs.detach().requires_grad_()
    ys, last = memory(xs, state, **how)
    total = ys.square().sum() + sum(part.square().sum() for part in tree_leaves(last))
    inputs = [xs, *memory.parameters()]
    return ys, last, torch.autograd.grad(total, inputs, materialize_grads=True)


@every
@pytest.mark.parametrize("call", CALLS)
def test_a_gpu_gives_the_numbers_of_the_cpu(name, call):
    memory, xs, how = small(name), draw(TIME, BATCH), CALLS[call]
    state = some_state(memory, BATCH)
    here = learned(memory, xs, state, how)
    there = learned(copy.deepcopy(memory).cuda(), *on("cuda", (xs, state, how)))
    assert all(part.is_cuda for part in tree_leaves(there))
    assert_exact(on("cpu", there), here)


@every
def test_lengths_and_marks_may_stay_on_the_cpu(name):
    memory, xs, how = small(name).cuda(), draw(TIME, BATCH).cuda(), CALLS["all of it"]
    assert_exact(memory(xs, **how), memory(xs, **on("cuda", how)), within=0)


@every
def test_a_packed_sequence_goes_in_and_comes_out(name):
    memory, lengths = small(name), torch.tensor([2, 6, 4])
    packed = pack_padded_sequence(draw(TIME, BATCH), lengths, enforce_sorted=False)
    right, right_last = memory(packed)
    found, last = memory.cuda()(packed.to("cuda"))
    assert found.data.is_cuda
    assert_exact((found.data.cpu(), on("cpu", last)), (right.data, right_last))


@every
def test_an_input_or_state_on_the_cpu_is_refused(name):
    memory, xs = small(name), draw(TIME)
    state = some_state(memory)
    memory.cuda()
    check_refused(lambda: memory(xs), ValueError, "input", "cpu", "cuda")
    check_refused(lambda: memory(xs.cuda(), state), ValueError, "state.", "cpu", "cuda")


def learning(form, name):
    """Answers and gradients on a GPU; through float32, so that all start from the same numbers."""

    def run(seed, dtype):
        memory = small(name, seed).float().to("cuda", dtype)
        xs = draw(4).float().to("cuda", dtype).requires_grad_()
        ys, last = form(memory, xs)
        inputs, *parameters = torch.autograd.grad(ys.square().sum(), [xs, *memory.parameters()])
        return {"answers": ys, "state": last, "inputs": inputs, "parameters": parameters}

    return run


@every
def test_a_sequence_is_as_accurate_as_its_steps(name):
    fast, reference = learning(Memory.__call__, name), learning(by_steps, name)
    assert_as_accurate(fast, reference, range(8), torch.float32)


@every
def test_under_autocast_states_stay_in_float32(name):
    memory, xs = small(name).float().cuda(), draw(5).float().cuda()
    with torch.autocast("cuda", torch.bfloat16):
        ys, last = memory(xs, lengths=[5, 4])
        y, after = memory.step(xs[0], last)
    (ys.float().sum() + y.float().sum()).backward()
    for part in (*tree_leaves(last), *tree_leaves(after)):
        assert part.dtype == torch.float32
        assert part.isfinite().all()
    for which, parameter in memory.named_parameters():
        assert parameter.grad.isfinite().all(), which
