"""What a model cannot use is refused, by the sequence form and by a step alike."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from models.contract import draw, small, some_state
from models.refused import as_users_have_it, check_refused  # noqa: F401 the fixture is autouse
from torch.nn.utils.rnn import pack_padded_sequence

from twomem import models

every = pytest.mark.parametrize("name", models.names())
TIME, BATCH = 4, 2


def refused(name, xs, kind, *words, state=None, forms=("sequence", "step"), **how):
    """Both forms refuse the input; `xs` has a time axis, of which a step is given the first."""
    memory = small(name)
    if "sequence" in forms:
        check_refused(lambda: memory(xs, state, **how), kind, *words, memory=memory)
    if "step" in forms:
        check_refused(lambda: memory.step(xs[0], state), kind, *words, memory=memory)


@every
@given(width=st.integers(0, 9))
def test_an_input_of_another_width(name, width):
    assume(width != 3)
    xs = torch.zeros(TIME, BATCH, width, dtype=torch.float64)
    refused(name, xs, ValueError, "input", f", {width})", "batch, 3)")


@every
@given(shape=st.lists(st.integers(1, 3), max_size=5))
def test_an_input_with_another_number_of_axes(name, shape):
    memory, xs = small(name), torch.zeros(*shape, 3, dtype=torch.float64)
    if len(shape) != 2:
        check_refused(lambda: memory(xs), ValueError, "(time, batch, 3)", str(tuple(xs.shape)))
    if len(shape) != 1:
        check_refused(lambda: memory.step(xs), ValueError, "(batch, 3)", str(tuple(xs.shape)))


@every
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.float16, torch.float32, torch.bool, torch.complex128], ids=str
)
def test_an_input_of_another_dtype(name, dtype):
    refused(name, draw(TIME).to(dtype), TypeError, "input", str(dtype), "float64")


@every
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64], ids=str)
def test_an_input_that_autocast_does_not_convert(name, dtype):
    memory, xs = small(name).float(), draw(TIME).to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        check_refused(lambda: memory(xs), TypeError, "input", str(dtype), memory=memory)


@every
@pytest.mark.parametrize("xs", [None, 3.0, "words", [[1.0, 2.0, 3.0]]], ids=str)
def test_an_input_that_is_no_tensor(name, xs):
    memory = small(name)
    kind = type(xs).__name__
    check_refused(lambda: memory(xs), TypeError, "input", kind, "tensor", memory=memory)
    check_refused(lambda: memory.step(xs), TypeError, "input", kind, "tensor", memory=memory)


@every
def test_an_array_of_numpy(name):
    memory, xs = small(name), draw(TIME).numpy()
    check_refused(lambda: memory(xs), TypeError, "input", "ndarray", "tensor", memory=memory)
    check_refused(lambda: memory.step(xs[0]), TypeError, "input", "ndarray", memory=memory)


@every
def test_an_input_without_steps_or_rows(name):
    refused(name, draw(TIME)[:0], ValueError, "time axis is empty", forms=("sequence",))
    refused(name, draw(TIME)[:, :0], ValueError, "batch axis is empty")


@every
def test_an_input_on_another_device(name):
    refused(name, draw(TIME).to("meta"), ValueError, "input", "meta", "cpu")


@every
@pytest.mark.parametrize("other", models.names())
def test_the_state_of_another_model(name, other):
    memory, theirs = small(name), some_state(small(other))
    if other == name:
        memory(draw(TIME), theirs)
        return
    own = type(some_state(memory)).__name__
    refused(name, draw(TIME), TypeError, "state", type(theirs).__name__, own, state=theirs)


@every
@given(batch=st.integers(1, 5))
def test_a_state_of_another_batch_size(name, batch):
    assume(batch != BATCH)
    state = some_state(small(name), batch)
    refused(name, draw(TIME), ValueError, "state.", f"({batch}, ", f"({BATCH}, ", state=state)


@every
def test_a_state_of_another_dtype_or_device(name):
    state = some_state(small(name))
    narrow = type(state)(*(part.float() for part in state))
    refused(name, draw(TIME), TypeError, "state.", "float32", "float64", state=narrow)
    elsewhere = type(state)(*(part.to("meta") for part in state))
    refused(name, draw(TIME), ValueError, "state.", "meta", "cpu", state=elsewhere)


@every
def test_a_state_of_another_size(name):
    state = some_state(small(name))
    for which, part in enumerate(state):
        parts = list(state)
        parts[which] = torch.cat([part, part], dim=-1)
        wrong = type(state)(*parts)
        field = f"state.{state._fields[which]}"
        refused(name, draw(TIME), ValueError, field, str(tuple(part.shape)), state=wrong)


@every
def test_a_state_without_its_type_or_parts(name):
    state = some_state(small(name))
    for as_what in (tuple, list, lambda parts: parts[0], dict.fromkeys):
        wrong = as_what(state)
        refused(name, draw(TIME), TypeError, "state", type(wrong).__name__, state=wrong)
    for hole in (None, 1.0, (state[0],), state[0].numpy()):
        refused(name, draw(TIME), TypeError, "state", state=type(state)(hole, *state[1:]))


@every
@given(wrong=st.integers(-3, 9), row=st.integers(0, BATCH - 1))
def test_a_length_that_is_not_inside(name, wrong, row):
    assume(not 1 <= wrong <= TIME)
    lengths = [TIME] * BATCH
    lengths[row] = wrong
    words = f"row {row}", f"length {wrong}", f"1 to {TIME}"
    refused(name, draw(TIME), ValueError, *words, lengths=lengths, forms=("sequence",))


@every
@pytest.mark.parametrize(
    ("lengths", "kind", "says"),
    [
        ([4], ValueError, "(1,)"),
        ([4, 2, 1], ValueError, "(3,)"),
        ([[4, 2]], ValueError, "(1, 2)"),
        (4, ValueError, "()"),
        ([4.0, 2.0], TypeError, "float"),
        ([True, True], TypeError, "bool"),
        ([2j, 1], TypeError, "complex"),
        ([None, 2], TypeError, "whole numbers"),
        ("42", TypeError, "whole numbers"),
    ],
    ids=str,
)
def test_lengths_that_are_not_a_number_for_each_row(name, lengths, kind, says):
    refused(name, draw(TIME), kind, "lengths", says, lengths=lengths, forms=("sequence",))


@every
def test_lengths_beside_a_packed_sequence(name):
    memory, packed = small(name), pack_padded_sequence(draw(TIME), torch.tensor([4, 2]))
    call = lambda: memory(packed, lengths=[4, 2])  # noqa: E731
    check_refused(call, ValueError, "packed", "leave out lengths", memory=memory)


@every
def test_a_packed_sequence_of_another_width_or_dtype(name):
    memory, lengths = small(name), torch.tensor([4, 2])
    narrow = pack_padded_sequence(draw(TIME)[..., :2], lengths)
    check_refused(lambda: memory(narrow), ValueError, "input", "2)", "3)", memory=memory)
    single = pack_padded_sequence(draw(TIME).float(), lengths)
    check_refused(lambda: memory(single), TypeError, "float32", "float64", memory=memory)
