from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.constraints import Constraints
from spherepair.errors import InvalidConstraintsError

N_ROWS = 9
row_pairs = st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_ROWS - 1)).filter(
    lambda pair: pair[0] != pair[1]
)


@st.composite
def consistent(draw):
    """Pairs of rows 0 to 8 that some labels satisfy."""
    y = draw(st.lists(st.integers(0, 3), min_size=N_ROWS, max_size=N_ROWS))
    ends = draw(st.lists(row_pairs, max_size=14))
    weight = draw(st.lists(st.floats(0, 4, width=16), min_size=len(ends), max_size=len(ends)))
    left, right = np.array(ends, int).reshape(-1, 2).T
    return Constraints.from_arrays(left, right, [y[a] == y[b] for a, b in ends], weight=weight)


def distances(links, start):
    """Number of links from `start` to each row, by the plainest search there is."""
    found, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for a, b in [*links, *((b, a) for a, b in links)]:
            if a == here and b not in found:
                found[b] = found[here] + 1
                queue.append(b)
    return found


def naive_closure(pairs):
    must = [(p.left, p.right) for p in pairs if p.is_must_link]
    cannot = {(p.left, p.right) for p in pairs if not p.is_must_link}
    together = {row: set(distances(must, row)) for row in range(N_ROWS)}
    links = {(a, b, True) for a in range(N_ROWS) for b in together[a] if a < b}
    for a, b in cannot:
        links |= {(min(x, y), max(x, y), False) for x in together[a] for y in together[b]}
    return links


def as_set(pairs):
    return {(min(p.left, p.right), max(p.left, p.right), p.is_must_link) for p in pairs}


@given(consistent())
def test_closure_equals_the_plain_definition(pairs):
    assert as_set(pairs.closure()) == naive_closure(pairs)
    assert len(pairs.closure()) == len(naive_closure(pairs))


@given(consistent())
def test_closure_is_idempotent(pairs):
    closed = pairs.closure()
    assert closed.closure() == closed


@given(consistent(), st.randoms(use_true_random=False))
def test_closure_does_not_depend_on_order_or_side(pairs, random):
    order = random.sample(range(len(pairs)), len(pairs))
    swap = np.array([random.random() < 0.5 for _ in order], bool)
    shuffled = pairs[order]
    other = Constraints.from_arrays(
        np.where(swap, shuffled.right, shuffled.left),
        np.where(swap, shuffled.left, shuffled.right),
        shuffled.is_must_link,
        weight=shuffled.weight,
    )
    assert other.closure() == pairs.closure()


@given(consistent())
def test_closure_begins_with_the_pairs_given_and_adds_what_the_summary_counts(pairs):
    closed = pairs.closure()
    assert list(closed)[: len(pairs)] == list(pairs)
    added, summary = closed[len(pairs) :], pairs.summary()
    assert (added.source_row == -1).all()
    assert len(added.must_links) == summary.n_entailed_must_link
    assert len(added.cannot_links) == summary.n_entailed_cannot_link


def test_entailed_pair_weighs_as_much_as_the_lightest_it_may_rest_on():
    pairs = Constraints.from_pairs(
        must_link=[(0, 1), (1, 2), (5, 6)],
        cannot_link=[(2, 5), (7, 8), (7, 0)],
        must_link_weight=[0.5, 2, 3],
        cannot_link_weight=[0.25, 9, 9],
    )
    weight = {(p.left, p.right): p.weight for p in pairs.closure()[len(pairs) :]}
    assert weight[0, 2] == 0.5
    assert {weight[ends] for ends in [(0, 5), (1, 5), (0, 6), (1, 6), (2, 6)]} == {0.25}
    assert {weight[ends] for ends in [(1, 7), (2, 7)]} == {0.5}
    assert len(weight) == 8


def test_closure_that_would_be_too_large_is_refused_before_it_is_made():
    rows = np.arange(100_000)
    pairs = Constraints.from_pairs(np.stack([rows[:-1], rows[1:]], axis=1))
    message = "closure of 99999 pairs would hold 4999950000 pairs, more than max_pairs=10000000"
    with pytest.raises(InvalidConstraintsError, match=message):
        pairs.closure()
    assert len(pairs[:9].closure(max_pairs=45)) == 45
    with pytest.raises(InvalidConstraintsError, match="max_pairs=44"):
        pairs[:9].closure(max_pairs=44)


def test_components_cover_the_rows_mentioned():
    components = Constraints.from_pairs([(9, 4), (4, 7)], [(2, 9), (30, 31)]).components()
    assert components.rows.tolist() == [2, 4, 7, 9, 30, 31]
    assert components.labels.tolist() == [0, 1, 1, 1, 2, 3]
    assert components.n_components == 4
    assert components.sizes.tolist() == [1, 3, 1, 1]


def test_summary_counts_and_reads_well():
    pairs = Constraints.from_pairs([(0, 1), (1, 2), (1, 0)], [(0, 2), (2, 5)])
    summary = pairs.summary()
    assert (summary.n_pairs, summary.n_must_link, summary.n_cannot_link) == (4, 2, 2)
    assert (summary.n_duplicates, summary.n_conflicts, summary.n_rows_covered) == (1, 1, 4)
    assert (summary.n_components, summary.largest_component) == (2, 3)
    assert (summary.n_entailed_must_link, summary.n_entailed_cannot_link) == (1, 2)
    assert str(summary).splitlines() == [
        "pairs           4 (2 must-link, 2 cannot-link; 1 repeated, kept once)",
        "rows covered    4 in 2 must-link components, the largest of 3",
        "entailed        1 must-link, 2 cannot-link",
        "contradictions  1",
    ]
