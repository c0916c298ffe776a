"""The released STM: the literal form against NumPy, and the restructured form against the literal."""

from itertools import product
from math import log

import numpy as np
import pytest
import torch
from accuracy import assert_as_accurate, assert_exact
from hypothesis import given
from hypothesis import strategies as st
from models.two_forms import BLENDS, Case, Forms, cases, check_forms, largest, learning, moved

from twomem import STMReleased
from twomem.ops.attention import laid_out_attention
from twomem.ops.stm_released import literal
from twomem.ops.stm_released_sequence import sequence

FORMS = Forms(literal, sequence)
small_widths = st.integers(1, 4)
some_cases = cases(
    STMReleased, hidden=st.sampled_from([0, 2]), bottleneck=small_widths, head=small_widths
)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def blend(model, which):
    fixed = model.config.alphas[which - 1]
    return getattr(model, f"alpha{which}0").item() if fixed is None else fixed


def layer(p, name, x):
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def projected(p, name, x):
    """One linear layer, or three with nothing between them."""
    x = layer(p, f"{name}.fc1", x)
    if f"{name}.fc3.weight" in p:
        x = layer(p, f"{name}.fc3", layer(p, f"{name}.fc2h.0", x))
    return x


def written(model, p, f1, m):
    """The item memory once the input is written."""
    if not model.config.gates:
        return m + np.outer(f1, f1)
    d = len(m)
    rows = np.stack([layer(p, "memory_gate_projector", np.tanh(row)) for row in m])
    pre = rows + layer(p, "input_gate_projector", f1)
    take = sigmoid(pre[:, :d] + p["input_bias"])
    forget = sigmoid(pre[:, d:] + p["forget_bias"])
    return take * np.tanh(np.outer(f1, f1)) + forget * m


def related(p, seen, n):
    """What the operator makes of the item memory: query by key side by value side."""
    d = len(seen)
    z = np.stack([layer(p, "qkv_projector.0", row) for row in seen])
    z = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
    z = z * p["qkv_layernorm.0.weight"] + p["qkv_layernorm.0.bias"]
    queries, keys, values = z[:, :n].T, z[:, n : 2 * n].T, z[:, 2 * n :].T
    new = np.zeros((n, d, d))
    for s, j, a, b in product(range(n), range(n), range(d), range(d)):
        new[s, a, b] += np.tanh(queries[s, a] * keys[j, a]) * values[j, b]
    return new


def step_in_numpy(model, p, x, m, r):
    """One step of one row, equation by equation, with the letters of its description."""
    n, d, _ = r.shape
    f1, f2 = projected(p, "input_projector", x), projected(p, "input_projector2", x)
    m = seen = written(model, p, f1, m)
    if blend(model, 2) or "input_projector3.fc1.weight" in p:
        weights = np.exp(projected(p, "input_projector3", x))
        weights = weights / weights.sum()
        v = np.zeros(d)
        for s, key, value in product(range(n), range(d), range(d)):
            v[value] += weights[s] * r[s, key, value] * f2[key]
        seen = m + blend(model, 2) * np.outer(v, f2)
    new = related(p, seen, n)
    if blend(model, 3) or "rel_projector2.weight" in p:
        flat = new.reshape(n * d, d)  # query and key side flattened
        m = m + blend(model, 3) * np.stack(
            [layer(p, "rel_projector2", column) for column in flat.T]
        )
    r = blend(model, 1) * r + new
    slices = np.concatenate([layer(p, "rel_projector", part.reshape(-1)) for part in r])
    o = layer(p, "rel_projector3", slices)
    hidden = np.maximum(layer(p, "mlp.2", np.maximum(layer(p, "mlp.0", o), 0)), 0)
    return layer(p, "out", hidden), m, r


def in_numpy(model, xs, state):
    """Answers and both memories after every step."""
    p = {name: value.numpy() for name, value in model.state_dict().items()}
    rows = []
    for row in range(xs.shape[1]):
        m, r = (part[row].detach().numpy() for part in state)
        seen = []
        for x in xs[:, row].numpy():
            y, m, r = step_in_numpy(model, p, x, m, r)
            seen.append((y, m, r))
        rows.append([np.stack(each) for each in zip(*seen, strict=True)])
    return tuple(torch.from_numpy(np.stack(each, 1)) for each in zip(*rows, strict=True))


@given(case=some_cases)
def test_the_literal_form_is_the_description_in_numpy(case):
    model, xs, state = case
    with torch.no_grad():
        assert_exact(literal(model.weights(), xs, *state), in_numpy(*case), within=1e-12)


@given(case=some_cases)
def test_the_restructured_form_is_the_literal_form(case):
    check_forms(FORMS, case)


@pytest.mark.parametrize("gates", [True, False])
def test_the_forms_agree_for_every_combination_of_blends(gates):
    sizes = {"queries": 2, "width": 3, "distilled": 2, "bottleneck": 3, "head": 2}
    for alphas in product(BLENDS, repeat=3):
        model = STMReleased(2, 2, **sizes, gates=gates, alphas=alphas).double()
        xs = torch.randn(3, 2, 2, dtype=torch.float64)
        check_forms(FORMS, Case(moved(model, first=0.0), xs, model.initial_state(2)))


def test_attention_by_hand():
    # tanh(ln 2) is 0.6 and tanh(ln 3) is 0.8; one query, two keys, two values
    queries = torch.tensor([[[1.0, 2.0]]], dtype=torch.float64)
    keys = torch.tensor([[[log(2), 0.0], [log(3), log(2) / 2]]], dtype=torch.float64)
    values = torch.tensor([[[10.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    right = torch.tensor([[[[6.0, 0.8], [0.0, 0.6]]]], dtype=torch.float64)
    assert_exact(laid_out_attention(queries, keys, values), right)


def test_in_float32_the_restructured_form_is_as_accurate_as_the_literal_form():
    ours, own = learning(FORMS.fast, STMReleased), learning(FORMS.plain, STMReleased)
    assert_as_accurate(ours, own, range(6))


def test_only_the_literal_form_lays_out_every_product_of_queries_and_keys():
    batch, queries, width, time = 2, 8, 24, 3
    sizes = {"queries": queries, "width": width, "distilled": 2, "bottleneck": 3, "head": 4}
    model = moved(STMReleased(5, 4, **sizes), first=0.2)
    case = Case(model, torch.randn(time, batch, 5), model.initial_state(batch))
    memory = batch * queries * width**2
    assert largest(FORMS.fast, case) <= 2 * memory
    assert largest(FORMS.plain, case) >= queries * memory
