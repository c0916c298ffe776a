"""STM by the paper: the literal form against NumPy, and the restructured form against the literal."""

from itertools import product

import numpy as np
import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from hypothesis import given
from hypothesis import strategies as st
from models.two_forms import BLENDS, Case, Forms, cases, check_forms, largest, learning, moved

from twomem import STM
from twomem.ops.stm import literal
from twomem.ops.stm_sequence import sequence

FORMS = Forms(literal, sequence)
some_cases = cases(STM, transfer=st.booleans())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normalised(row):
    return (row - row.mean()) / np.sqrt(row.var() + 1e-5)


def blend(model, which):
    if which == 3 and not model.config.transfer:
        return 0.0
    fixed = model.config.alphas[which - 1]
    return getattr(model, f"alpha{which}").item() if fixed is None else fixed


def step_in_numpy(model, p, x, items, relations):
    """One step of one row, equation by equation, with the paper's letters."""
    n, d, _ = relations.shape
    f1, f2 = (p[f"{f}.weight"] @ x + p[f"{f}.bias"] for f in ("left", "right"))
    forget, take = np.ones((d, d)), np.ones((d, d))
    if model.config.gates:
        hear, remember, bias = p["gate_input.weight"], p["gate_memory.weight"], p["gate_bias"]
        old = np.tanh(items)
        take = sigmoid((hear[:d] @ f1)[:, None] + remember[:d] @ old + bias[0])
        forget = sigmoid((hear[d:] @ f1)[:, None] + remember[d:] @ old + bias[1])
    items = forget * items + take * np.outer(f1, f2)
    seen = items
    if blend(model, 2) or "address.weight" in p:
        f3 = np.exp(p["address.weight"] @ x + p["address.bias"])
        read = sum(f3[s] / f3.sum() * relations[s] @ f2 for s in range(n))
        seen = items + blend(model, 2) * np.outer(read, f2)
    rows = [
        normalised(w @ seen) * gain + bias
        for w, gain, bias in zip(p["project.weight"], p["norm_gain"], p["norm_bias"], strict=True)
    ]
    queries, keys, values = rows[:n], rows[n : 2 * n], rows[2 * n :]
    sam = np.zeros_like(relations)
    for s, i, j, key in product(range(n), range(d), range(d), range(n)):
        sam[s, i, j] += np.tanh(queries[s][i] * keys[key][i]) * values[key][j]
    relations = relations + blend(model, 1) * sam
    if blend(model, 3) or "transfer.weight" in p:
        flat = np.concatenate(list(relations))
        moved_back = p["transfer.weight"] @ flat + p["transfer.bias"][:, None]
        items = items + blend(model, 3) * moved_back
    slices = [p["distil.weight"] @ part.reshape(-1) + p["distil.bias"] for part in relations]
    return p["output.weight"] @ np.concatenate(slices) + p["output.bias"], items, relations


def in_numpy(model, xs, state):
    """Answers and both memories after every step."""
    p = {name: value.numpy() for name, value in model.state_dict().items()}
    rows = []
    for row in range(xs.shape[1]):
        items, relations = (part[row].detach().numpy() for part in state)
        seen = []
        for x in xs[:, row].numpy():
            y, items, relations = step_in_numpy(model, p, x, items, relations)
            seen.append((y, items, relations))
        rows.append([np.stack(each) for each in zip(*seen, strict=True)])
    return tuple(torch.from_numpy(np.stack(each, 1)) for each in zip(*rows, strict=True))


@given(case=some_cases)
def test_the_literal_form_is_the_paper_in_numpy(case):
    model, xs, state = case
    with torch.no_grad():
        assert_exact(literal(model.weights(), xs, *state), in_numpy(*case), within=1e-12)


@given(case=some_cases)
def test_the_restructured_form_is_the_literal_form(case):
    check_forms(FORMS, case)


@pytest.mark.parametrize("gates", [True, False])
def test_the_forms_agree_for_every_combination_of_blends(gates):
    # a transfer that is switched off does not look at its blend
    every = [(*alphas, True) for alphas in product(BLENDS, repeat=3)]
    every += [(*alphas, None, False) for alphas in product(BLENDS, repeat=2)]
    for *alphas, transfer in every:
        how = {"gates": gates, "transfer": transfer, "alphas": tuple(alphas)}
        model = moved(STM(2, 2, queries=2, width=3, distilled=2, **how).double(), first=0.0)
        xs = torch.randn(3, 2, 2, dtype=torch.float64)
        check_forms(FORMS, Case(model, xs, model.initial_state(2)))


def test_in_float32_the_restructured_form_is_as_accurate_as_the_literal_form():
    assert_as_accurate(learning(FORMS.fast, STM), learning(FORMS.plain, STM), range(6))


def test_neither_form_lays_out_every_product_of_queries_and_keys():
    batch, queries, width, time = 2, 8, 24, 3
    model = STM(5, 4, queries=queries, width=width, distilled=2, first_alphas=(0.2, 0.2, 0.2))
    case = Case(model, torch.randn(time, batch, 5), model.initial_state(batch))
    memory = batch * queries * width**2
    assert largest(FORMS.fast, case) <= 2 * memory
    # the literal form hands out the memory of every step
    assert largest(FORMS.plain, case) <= time * memory < queries * memory
