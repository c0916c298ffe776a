"""The two attentions and SAM against their formulas, in plain Python with one number at a time."""

from math import exp, prod, sqrt, tanh

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from twomem.ops import dot_product_attention, outer_product_attention, sam

SMALL = st.integers(1, 4)
SEED = st.integers(0, 2**32 - 1)


def draw(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def number_by_number(operation, *inputs):
    """Applies a function of nested lists to every row of the batch, or to the one there is."""
    rows = zip(*(x.tolist() for x in inputs), strict=True)
    return torch.tensor([operation(*row) for row in rows], dtype=torch.float64)


def dpa(queries, keys, values):
    answers = []
    for q in queries:
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]
        total = sum(exp(s) for s in scores)
        weights = [exp(s) / total for s in scores]
        columns = zip(*values, strict=True)
        answers.append([sum(w * v for w, v in zip(weights, c, strict=True)) for c in columns])
    return answers


def opa(queries, keys, values, match=tanh):
    def entry(q, i, t):
        return sum(match(q[i] * k[i]) * v[t] for k, v in zip(keys, values, strict=True))

    width, depth = range(len(keys[0])), range(len(values[0]))
    return [[[entry(q, i, t) for t in depth] for i in width] for q in queries]


def normalised(row):
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    return [(x - mean) / sqrt(variance + 1e-5) for x in row]


def sam_by_loops(memory, *weights):
    def extracted(weight):
        columns = list(zip(*memory, strict=True))
        product = [[sum(map(prod, zip(w, c, strict=True))) for c in columns] for w in weight]
        return [normalised(row) for row in product]

    return opa(*map(extracted, weights))


@given(SMALL, SMALL, SMALL, SMALL, SMALL, SEED)
def test_dot_product_attention_is_its_formula(batch, queries, keys, width, depth, seed):
    inputs = draw(seed, (batch, queries, width), (batch, keys, width), (batch, keys, depth))
    expected = number_by_number(dpa, *inputs)
    torch.testing.assert_close(dot_product_attention(*inputs), expected)


@given(SMALL, SMALL, SMALL, SMALL, SMALL, SEED)
def test_outer_product_attention_is_its_formula(batch, queries, keys, width, depth, seed):
    inputs = draw(seed, (batch, queries, width), (batch, keys, width), (batch, keys, depth))
    expected = number_by_number(opa, *inputs)
    torch.testing.assert_close(outer_product_attention(*inputs), expected)


@given(SMALL, SMALL, SMALL, SMALL, st.integers(2, 5), SEED)
def test_sam_is_its_formula(batch, queries, keys, slots, width, seed):
    shapes = (batch, slots, width), (queries, slots), (keys, slots), (keys, slots)
    memory, *weights = draw(seed, *shapes)
    lists = [w.tolist() for w in weights]
    expected = number_by_number(lambda rows: sam_by_loops(rows, *lists), memory)
    torch.testing.assert_close(sam(memory, *weights), expected)


def test_both_attentions_of_a_case_worked_out_by_hand():
    queries = torch.tensor([[1.0, 2.0]])
    keys = torch.tensor([[1.0, 1.0], [3.0, 0.0]])
    values = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 4.0]])
    # both scores are 3, so the weights are equal
    torch.testing.assert_close(
        dot_product_attention(queries, keys, values), torch.tensor([[0.5, 0.5, 3.0]])
    )
    # the products q * k are (1, 2) and (3, 0)
    relations = outer_product_attention(queries, keys, values, match=lambda x: x)
    torch.testing.assert_close(relations, torch.tensor([[[1.0, 3.0, 14.0], [2.0, 0.0, 4.0]]]))


def test_sam_takes_the_three_weights_in_the_printed_order():
    memory = torch.tensor([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])
    rows = torch.eye(3)
    got = sam(memory, rows[:1], rows[1:2], rows[2:], normalise=lambda x: x, match=lambda x: x)
    # query (1, 2), key (3, 5), value (7, 11): rows follow the query and the key
    torch.testing.assert_close(got, torch.tensor([[[21.0, 33.0], [70.0, 110.0]]]))


@pytest.mark.parametrize("operation", [dot_product_attention, outer_product_attention])
def test_the_order_of_the_pairs_does_not_matter(operation):
    queries, keys, values = draw(3, (2, 5), (4, 5), (4, 3))
    order = [2, 0, 3, 1]
    torch.testing.assert_close(
        operation(queries, keys[order], values[order]), operation(queries, keys, values)
    )


@pytest.mark.parametrize("operation", [dot_product_attention, outer_product_attention])
def test_gradients_of_both_attentions_are_right(operation):
    inputs = draw(4, (2, 2, 3), (2, 4, 3), (2, 4, 2))
    assert gradcheck(operation, [x.requires_grad_() for x in inputs])


def test_gradients_of_sam_are_right():
    inputs = draw(5, (2, 4, 3), (2, 4), (3, 4), (3, 4))
    assert gradcheck(sam, [x.requires_grad_() for x in inputs])


@pytest.mark.parametrize("wrong", [(2, 3, 1), (3, 2, 1)])
def test_a_formula_with_two_of_its_parts_swapped_is_noticed(wrong):
    # shows that the comparisons above can fail: all shapes are equal, so only values can differ
    inputs = draw(6, *[(1, 3, 3)] * 3)
    swapped = [inputs[i - 1] for i in wrong]
    for formula, operation in ((dpa, dot_product_attention), (opa, outer_product_attention)):
        expected = number_by_number(formula, *swapped)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(operation(*inputs), expected)
