from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.constraints import Conflict, Constraints, conflicts
from spherepair.errors import ConflictError
from spherepair.metrics import pair_satisfaction

N_ROWS = 9
row_pairs = st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_ROWS - 1)).filter(
    lambda pair: pair[0] != pair[1]
)
pair_lists = st.lists(row_pairs, max_size=14)


def n_links_between(must):
    """Number of links on the shortest way between each two rows, by the algorithm of Floyd and Warshall."""
    length = np.where(np.eye(N_ROWS, dtype=bool), 0.0, np.inf)
    for left, right in must:
        length[left, right] = length[right, left] = 1
    for row in range(N_ROWS):
        length = np.minimum(length, length[:, [row]] + length[[row]])
    return length


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
    shortest = n_links_between(must)
    expected = [
        (p.left, p.right, shortest[p.left, p.right])
        for p in pairs.cannot_links
        if np.isfinite(shortest[p.left, p.right])
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


def test_consistent_pairs_are_returned_as_they_are_and_no_chain_is_searched(monkeypatch):
    pairs = Constraints.from_pairs([(0, 1), (1, 0)], [(1, 2)])
    monkeypatch.setattr("spherepair.constraints.ConflictReport", None)
    pairs.require_consistent()
    assert pairs.drop_conflicts() is pairs
    assert pairs.drop_conflicts().n_duplicates == 1


def test_an_answer_that_says_nothing_proves_nothing():
    pairs = Constraints.from_pairs([(0, 1), (1, 2), (2, 3)], [(0, 2), (5, 6)], value=[1, 1, 0.5, 0.5, 0])
    assert not pairs.conflicts()
    assert pairs.components().n_components == 4  # 0 1 2, 3, 5, 6
    assert [(p.left, p.right, p.is_must_link) for p in pairs.closure()[5:]] == [(0, 2, True)]
    assert pairs.summary().n_entailed_must_link == 1
    assert pairs.proved_groups().n_groups == 2
    assert pairs.informative_pairs(3) == 5
    assert pair_satisfaction([0, 0, 0, 0, 0, 1, 1], pairs).cannot_link == 0.0


def test_the_suspect_of_a_contradiction_is_one_that_is_to_be_taken_back(monkeypatch):
    # Both must-links are in both contradictions; the second weighs less.
    pairs = Constraints.from_pairs(
        [(0, 1), (1, 2)], [(0, 2), (0, 2)], must_link_weight=[1, 0.5], by=["cyd", "cyd", "ann", "bob"]
    )
    assert pairs.conflicts().take_back().tolist() == [1]
    assert [conflict.suspect for conflict in pairs.conflicts()] == [(1, 2), (1, 2)]
    assert "most likely wrong: must-link (1, 2)" in str(pairs.conflicts())
    monkeypatch.setattr(conflicts, "FEW_PAIRS", 3)
    assert [conflict.suspect for conflict in pairs.conflicts()] == [None, None]
