"""Counts of both attentions: exact, and beside the orders that the paper's table gives."""

from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twomem.ops import dot_product_attention, outer_product_attention, sam
from twomem.ops.attention import laid_out_attention
from twomem.ops.counting import Count, Sizes, count, count_attention, inputs, published, table

SIZES = st.builds(Sizes, *[st.integers(1, 6)] * 4)
GRID = [Sizes(*each) for each in product((1, 4, 32), repeat=4)]


def ones(*shape):
    return torch.ones(shape)


@pytest.mark.parametrize(
    ("operation", "shapes", "expected"),
    [
        (torch.mul, [(2, 1), (1, 3)], Count(multiplications=6)),
        (torch.sub, [(2, 3), (3,)], Count(additions=6)),
        (torch.div, [(2, 3), (3,)], Count(multiplications=6)),
        (torch.tanh, [(2, 3)], Count(functions=6)),
        (torch.mm, [(2, 5), (5, 3)], Count(30, 24)),
        (torch.matmul, [(4, 2, 5), (5, 3)], Count(120, 96)),
        (torch.bmm, [(4, 2, 5), (4, 5, 3)], Count(120, 96)),
        (lambda x: x.sum(1), [(2, 5)], Count(additions=8)),
        (lambda x: x.mT[0] * 2, [(2, 5)], Count(multiplications=2)),
        # off comes the largest (10), e^x (10), two sums of five (8), divided (10)
        (lambda x: x.softmax(1), [(2, 5)], Count(10, 18, 10)),
        (lambda x: torch.einsum("ij,jk->ik", x, x), [(3, 3)], Count(27, 18)),
    ],
)
def test_an_operation_is_counted_as_by_hand(operation, shapes, expected):
    assert count(operation, *(ones(*shape) for shape in shapes)) == expected


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        (torch.cos, "aten::cos is"),
        (lambda x: torch.add(x, x, alpha=2), "aten::add with alpha"),
        (lambda x: x.add_(1), "aten::add_ is"),
    ],
)
def test_what_nobody_counts_is_an_error_and_not_a_zero(operation, named):
    with pytest.raises(NotImplementedError, match=named):
        count(operation, ones(2))


def test_sam_is_refused_by_the_name_of_its_normalisation():
    with pytest.raises(NotImplementedError, match="layer_norm"):
        count(sam, ones(4, 3), ones(2, 4), ones(2, 4), ones(2, 4))


@given(SIZES)
def test_dpa_computes_exactly_this(sizes):
    queries, pairs, width, depth = sizes
    matched = queries * pairs
    counted, held = count_attention("DPA", sizes)
    assert counted.multiplications == matched * (width + depth + 1)
    assert counted.additions == matched * (width + depth + 1) - queries * (depth + 1)
    assert counted.functions == matched
    assert held == matched


@given(SIZES)
def test_opa_computes_exactly_this(sizes):
    queries, pairs, width, depth = sizes
    counted, held = count_attention("OPA", sizes)
    assert counted.multiplications == queries * pairs * width * (depth + 1)
    assert counted.additions == queries * (pairs - 1) * width * depth
    assert counted.functions == queries * pairs * width
    assert held == queries * width * depth


@pytest.mark.parametrize("operation", [dot_product_attention, outer_product_attention])
def test_every_row_of_a_batch_costs_the_same(operation):
    alone = inputs(Sizes(2, 3, 4, 5))
    batch = [x.expand(7, *x.shape) for x in alone]
    assert count(operation, *batch) == tuple(7 * each for each in count(operation, *alone))


def test_laying_out_every_product_computes_no_more_and_a_slower_formula_does():
    given = inputs(Sizes(2, 3, 4, 5))
    own = count(outer_product_attention, *given)
    assert count(laid_out_attention, *(x[None] for x in given)) == own

    def twice(queries, keys, values):
        once = laid_out_attention(queries, keys, values)
        return once + laid_out_attention(queries, keys, values)

    assert count(twice, *(x[None] for x in given)).functions == 2 * own.functions


@pytest.mark.parametrize(
    ("which", "what", "factors"),
    [
        # factors of growth when queries, pairs, width and depth double, one at a time
        ("DPA", "multiplications", (2, 2, 129 / 97, 161 / 97)),
        ("OPA", "multiplications", (2, 2, 2, 129 / 65)),
        ("OPA", "additions", (2, 15 / 7, 2, 2)),
        ("OPA", "functions", (2, 2, 2, 1)),
    ],
)
def test_counts_grow_by_these_factors_when_a_size_doubles(which, what, factors):
    start = Sizes(4, 8, 32, 64)
    before = getattr(count_attention(which, start)[0], what)
    for name, factor in zip(Sizes._fields, factors, strict=True):
        doubled = start._replace(**{name: 2 * getattr(start, name)})
        assert getattr(count_attention(which, doubled)[0], what) == pytest.approx(factor * before)


def ratios(which, sizes):
    counted, held = count_attention(which, sizes)
    found = counted.additions, counted.multiplications, held
    return [own / order for own, order in zip(found, published(which, sizes), strict=True)]


def test_four_of_the_six_published_orders_are_those_of_the_counts():
    for sizes in GRID:
        _, dpa_multiplications, dpa_held = ratios("DPA", sizes)
        opa_additions, _, opa_held = ratios("OPA", sizes)
        assert 1 < dpa_multiplications <= 1.5
        assert opa_additions == 1 - 1 / sizes.pairs
        assert dpa_held == opa_held == 1


def test_the_published_multiplications_of_opa_lack_the_number_of_pairs():
    for sizes in GRID:
        _, multiplications, _ = ratios("OPA", sizes)
        assert multiplications == pytest.approx(sizes.pairs * (1 + 1 / sizes.depth))


def test_the_published_additions_of_dpa_lack_the_queries_where_values_are_summed():
    few, many = (ratios("DPA", Sizes(queries, 64, 1, 4096))[0] for queries in (8, 64))
    assert few == pytest.approx(8, rel=0.02)
    assert many == pytest.approx(64, rel=0.04)


def test_the_docs_show_the_table_as_it_is_made():
    page = Path(__file__).parents[2] / "docs" / "complexity.md"
    assert table(queries=8, pairs=8, width=96, depth=96) in page.read_text("utf-8")
