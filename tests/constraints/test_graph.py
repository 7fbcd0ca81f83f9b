from __future__ import annotations

import json
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.constraints import Conflict, Constraints
from spherepair.errors import ConflictError, InvalidConstraintsError

N_ROWS = 9
row_pairs = st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_ROWS - 1)).filter(
    lambda pair: pair[0] != pair[1]
)
pair_lists = st.lists(row_pairs, max_size=14)


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


def test_closure_of_contradictory_pairs_is_refused_with_the_chain():
    pairs = Constraints.from_pairs([(0, 1), (1, 2)], [(0, 2)])
    message = r"1 contradiction; the first: cannot-link \(0, 2\) .* must-links 0 - 1 - 2"
    with pytest.raises(ConflictError, match=message) as caught:
        pairs.closure()
    assert caught.value.conflicts[0].chain == (0, 1, 2)
    with pytest.raises(ConflictError, match=message):
        pairs.require_consistent()
    pairs.drop_conflicts().require_consistent()


@given(pair_lists, pair_lists)
def test_conflicts_are_cannot_links_inside_chains_and_chains_are_shortest(must, cannot):
    pairs = Constraints.from_pairs(must, cannot)
    report = pairs.conflicts()
    expected = [
        (p.left, p.right, distances(must, p.left)[p.right])
        for p in pairs.cannot_links
        if p.right in distances(must, p.left)
    ]
    assert [(c.left, c.right, len(c.chain) - 1) for c in report] == expected
    assert len(report) == len(expected)
    links = {frozenset(pair) for pair in must}
    for conflict in report:
        assert (conflict.chain[0], conflict.chain[-1]) == (conflict.left, conflict.right)
        steps = list(zip(conflict.chain, conflict.chain[1:], strict=False))
        assert [frozenset(must[row]) for row in conflict.chain_rows] == [frozenset(s) for s in steps]
        assert all(frozenset(step) in links for step in steps)
        assert set([*must, *cannot][conflict.source_row]) == {conflict.left, conflict.right}


@given(pair_lists, pair_lists)
def test_dropping_conflicts_leaves_none_and_keeps_every_must_link(must, cannot):
    pairs = Constraints.from_pairs(must, cannot)
    kept = pairs.drop_conflicts()
    assert not kept.conflicts()
    assert kept.must_links == pairs.must_links
    assert len(kept) == len(pairs) - len(pairs.conflicts())


def test_same_pair_both_ways_is_a_chain_of_one_link():
    report = Constraints.from_pairs([(4, 2)], [(2, 4)]).conflicts()
    assert list(report) == [Conflict(2, 4, chain=(2, 4), source_row=1, chain_rows=(0,))]
    assert report[0].explain() == (
        "cannot-link (2, 4) at row 1 of the pairs contradicts must-link 2 - 4 (row 0)"
    )


def test_conflict_can_speak_in_ids_and_without_rows():
    conflict = Conflict(0, 2, chain=(0, 1, 2), source_row=-1, chain_rows=(-1, -1))
    assert conflict.explain() == "cannot-link (0, 2) contradicts must-links 0 - 1 - 2"
    assert conflict.explain(["x", "y", "z"]) == "cannot-link (x, z) contradicts must-links x - y - z"


def test_report_counts_iterates_slices_and_turns_into_json():
    pairs = Constraints.from_pairs([(0, 1), (1, 2)], [(0, 1), (0, 2), (5, 6), (2, 1)])
    report = pairs.conflicts()
    assert bool(report)
    assert len(report) == 3
    assert report.pair_index.tolist() == [2, 3, 5]
    assert report[-1] == list(report)[2] == report[1:][1]
    with pytest.raises(IndexError):
        report[3]
    assert repr(report) == "ConflictReport(3 conflicts)"
    assert str(report) == report.summary()
    lines = report.summary(limit=2).splitlines()
    assert lines[0] == "3 contradictions:"
    assert lines[-1] == "  and 1 more"
    decoded = json.loads(json.dumps(report.to_dict(limit=1)))
    assert decoded["n_conflicts"] == 3
    assert decoded["conflicts"][0]["chain"] == [0, 1]
    assert not Constraints.from_pairs([(0, 1)]).conflicts()
    assert Constraints.from_pairs([(0, 1)]).conflicts().summary() == "no contradictions"


def test_long_chain_is_found_in_a_component_among_others():
    rows = np.arange(20_000)
    must = np.stack([rows[:-1], rows[1:]], axis=1)[rows[:-1] % 5_000 != 4_999]
    report = Constraints.from_pairs(must, [(5_000, 9_999), (0, 5_000), (15_003, 15_001)]).conflicts()
    assert [conflict.chain[1] for conflict in report] == [5_001, 15_002]
    assert len(report[0].chain) == 5_000


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
