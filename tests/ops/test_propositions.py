"""The paper's five propositions, each in float64, and what each of them needs in order to hold."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twomem.ops import dot_product_attention, outer_product_attention, sam
from twomem.ops.sam import normalise_rows

SMALL = st.integers(1, 5)
SEED = st.integers(0, 2**32 - 1)
close = torch.testing.assert_close


def draw(seed, *shapes, kind=torch.randn):
    generator = torch.Generator().manual_seed(seed)
    return [kind(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def as_they_are(x):
    return x


# 1: dot-product attention with a linear S is a contraction of outer-product attention


@given(SMALL, SMALL, SMALL, SMALL, SEED)
def test_a_sum_over_the_width_turns_opa_into_linear_dpa(queries, keys, width, depth, seed):
    shapes = (queries, width), (keys, width), (keys, depth), (2,), (width,)
    q, k, v, (a, b), biases = draw(seed, *shapes)
    # every F will do whose factor is a and whose biases sum to b
    biases = biases + (b - biases.sum()) / width
    relations = outer_product_attention(q, k, v, match=lambda x: a * x + biases)
    attended = dot_product_attention(q, k, v, weigh=lambda scores: a * scores + b)
    close(torch.ones(width).double() @ relations, attended)


@given(SMALL, SMALL, SMALL, SMALL, SEED)
def test_biases_with_another_sum_add_the_values_that_many_times(queries, keys, width, depth, seed):
    q, k, v, biases = draw(seed, (queries, width), (keys, width), (keys, depth), (width,))
    relations = outer_product_attention(q, k, v, match=lambda x: x + biases)
    attended = dot_product_attention(q, k, v, weigh=as_they_are)
    close(relations.sum(1) - attended, (biases.sum() * v.sum(0)).expand_as(attended))


# 2: with one key-value pair, a linear map of outer-product attention is a bi-linear model


@given(SMALL, SMALL, SMALL, SEED)
def test_a_linear_map_of_one_pair_is_a_bilinear_form(outputs, width, depth, seed):
    q, k, v, w = draw(seed, (1, width), (1, width), (1, depth), (outputs, width * depth))
    mapped = w @ outer_product_attention(q, k, v).flatten()
    f = torch.tanh(q * k)[0]
    places = [(j, t) for j in range(width) for t in range(depth)]
    for s in range(outputs):
        close(mapped[s], sum(w[s, j * depth + t] * f[j] * v[0, t] for j, t in places))


def test_two_pairs_are_not_one_bilinear_form():
    q, k, v = draw(1, (1, 4), (2, 4), (2, 3))
    assert torch.linalg.matrix_rank(outer_product_attention(q, k[:1], v[:1])[0]) == 1
    assert torch.linalg.matrix_rank(outer_product_attention(q, k, v)[0]) == 2


# 3: with as many queries as the width and one pair, the transfer can be a Hebbian update


@given(SMALL, SMALL, SEED)
def test_a_rank_one_transfer_adds_the_stored_value_under_a_new_key(width, slots, seed):
    shapes = (slots, width), (width, slots), (1, slots), (1, slots), (width,)
    memory, *weights, scales = draw(seed, *shapes)
    transfer = torch.outer(scales, torch.eye(width).double().flatten())
    transferred = transfer @ sam(memory, *weights).flatten(0, 1)
    queries, key, value = (normalise_rows(w @ memory) for w in weights)
    strength = torch.tanh(queries.diagonal() * key[0]).sum()
    close(transferred, torch.outer(scales * strength, value[0]))


# 4: every stored value comes back if keys are independent, the query has no zero, and F is linear


def near_unit(seed, count, width, low=-0.5):
    """Independent vectors: their matrix is dominated by its diagonal; positive with a `low` of 0.2."""
    noise = draw(seed, (count, width), kind=torch.rand)[0]
    return torch.eye(width).double()[:count] + (low + noise) / (2 * width)


def stored(query, keys, values, factor):
    """One query's associative memory, and the addresses that its values are stored under."""
    memory = outer_product_attention(query[None], keys, values, match=lambda x: factor * x)[0]
    return memory, factor * query * keys


def best_retrieval(memory, values):
    """How far each value is from all that a contraction of the memory can give."""
    contractions = values @ torch.linalg.pinv(memory)
    return (contractions @ memory - values).norm(dim=1)


@given(st.integers(1, 6), SMALL, SEED)
def test_orthonormal_addresses_give_their_values_back(width, depth, seed):
    raw, v = draw(seed, (width, width), (width, depth))
    query, factor = draw(seed, (width,), (width,), kind=torch.rand)
    addresses = torch.linalg.qr(raw).Q
    keys = addresses / (1 + query) / (factor - 2)
    memory, under = stored(1 + query, keys, v, factor - 2)
    close(under, addresses)
    close(addresses @ memory, v)


@given(st.integers(1, 6), st.integers(0, 3), SMALL, SEED)
def test_independent_keys_give_their_values_back(count, spare, depth, seed):
    (v,) = draw(seed, (count, depth))
    query, factor = draw(seed, (count + spare,), (count + spare,), kind=torch.rand)
    memory, under = stored(1 + query, near_unit(seed, count, count + spare), v, factor - 2)
    # the dual basis: each of its vectors meets one address and no other
    dual = torch.linalg.pinv(under).mT
    close(dual @ under.mT, torch.eye(count).double())
    close(dual @ memory, v)


def test_orthogonal_addresses_are_divided_by_their_squared_norm():
    # the printed proof divides by the norm, which is right for a norm of one only
    keys, v = numbers([3, 4], [-4, 3]), numbers([1, 2, 3], [4, 5, 6])
    memory, under = stored(numbers(1, 1), keys, v, 1.0)
    close(under[0] / 5**2 @ memory, v[0])
    close(under[0] / 5 @ memory, 5 * v[0])


def test_widrow_hoff_reaches_perfect_retrieval_by_many_sweeps_and_not_by_one():
    (v,) = draw(2, (3, 2))
    _, under = stored(numbers(2, 2, 2, 2), near_unit(2, 3, 4), v, 1.0)
    memory, errors = torch.zeros(2, 4).double(), []
    for _ in range(100):
        for x, value in zip(under, v, strict=True):
            memory = memory + torch.outer(value - memory @ x, x) / x.dot(x)
        errors.append((under @ memory.mT - v).norm())
    assert errors[0] > 1e-3
    assert errors[-1] < 1e-12


def test_no_contraction_gives_the_values_of_dependent_keys_back():
    keys, v = numbers([1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]), torch.eye(3).double()
    memory, _ = stored(numbers(1, 1, 1, 1), keys, v, 1.0)
    # all that comes back lies in the plane at right angles to (1, 1, -1)
    close(best_retrieval(memory, v), numbers(1, 1, 1) / 3**0.5)


@pytest.mark.parametrize(("query", "factor"), [((1, 0, 1), (1, 1, 1)), ((1, 1, 1), (1, 0, 1))])
def test_a_zero_in_the_query_or_in_f_loses_a_value(query, factor):
    v = torch.eye(3).double()
    memory, _ = stored(numbers(*query), v, v, numbers(*factor))
    close(best_retrieval(memory, v), numbers(0, 1, 0))


# 5: two contractions give a stored pattern back; F is the square root, nothing is normalised


def relations_of(patterns, queries, pairs):
    """SAM with the weights of the proof: queries and keys are the last pattern, values all."""
    count = len(patterns)
    last, all_of_them = torch.eye(count).double()[-1:], torch.ones(1, count).double()
    inverse = torch.linalg.pinv(patterns.mT)
    weights = [(last @ inverse).expand(n, -1) for n in (queries, pairs)]
    weights.append((all_of_them @ inverse).expand(pairs, -1))
    return sam(patterns.mT @ patterns, *weights, normalise=as_they_are, match=torch.sqrt)


def two_steps(relations, address, cue):
    return torch.einsum("s,sij,j->i", address.softmax(0), relations, cue)


@given(SMALL, st.integers(0, 3), SMALL, SMALL, SEED)
def test_a_cue_gives_the_last_pattern_times_what_it_meets(count, spare, queries, pairs, seed):
    patterns = near_unit(seed, count, count + spare, low=0.2)
    relations = relations_of(patterns, queries, pairs)
    address, noisy = draw(seed, (queries,), (count + spare,))
    exact = torch.linalg.pinv(patterns)[:, -1]
    close(two_steps(relations, address, exact / pairs), patterns[-1])
    met = (patterns @ noisy).sum()
    close(two_steps(relations, address, noisy / pairs), met * patterns[-1])


def test_a_pattern_that_is_not_positive_comes_back_without_its_signs():
    patterns = numbers([0.6, 0.8, 0], [0.8, -0.6, 0])
    got = two_steps(relations_of(patterns, 1, 1), numbers(0), patterns[1])
    close(got, numbers(0.8, 0.6, 0))


def test_more_patterns_than_the_width_do_not_come_back():
    patterns = numbers([1, 0], [0, 1], [0.6, 0.8])
    cue = torch.linalg.pinv(patterns)[:, -1]
    got = two_steps(relations_of(patterns, 1, 1), numbers(0), cue)
    assert (got - patterns[-1]).norm() > 0.1
