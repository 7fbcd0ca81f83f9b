"""Groups that pairs prove to differ, and how many pairs' worth of news they hold."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spherepair.constraints import Constraints, graph
from spherepair.constraints.graph import greedy_clique


def test_components_that_all_differ_are_groups():
    pairs = Constraints.from_pairs(
        must_link=[(0, 1), (1, 2), (5, 6)], cannot_link=[(0, 5), (2, 8), (6, 8), (8, 20), (20, 21)]
    )
    proved = pairs.proved_groups()
    assert proved.n_groups == 3
    assert dict(zip(proved.rows.tolist(), proved.labels.tolist(), strict=True)) == {
        0: 0, 1: 0, 2: 0, 5: 1, 6: 1, 8: 2,
    }  # fmt: skip
    assert proved.examples.tolist() == [0, 5, 8]
    assert (proved.n_linked_rows, proved.n_single_rows) == (8, 3)
    assert proved.share_grouped == 6 / 8


@pytest.mark.parametrize(
    ("pairs", "n_groups"),
    [
        (Constraints.from_pairs(), 0),
        (Constraints.from_pairs(must_link=[(0, 1)]), 1),
        (Constraints.from_pairs(cannot_link=[(0, 1)]), 2),
        (Constraints.from_pairs(cannot_link=[(0, 1), (1, 2)]), 2),
        (
            Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(0, 1)]),
            1,
        ),  # a contradiction proves nothing
    ],
)
def test_few_pairs_prove_little(pairs, n_groups):
    assert pairs.proved_groups().n_groups == n_groups


def test_a_clique_is_found_beside_a_hub_of_larger_degree():
    """The hub differs from most, but its neighbors do not differ from each other."""
    hub = [(0, row) for row in range(100, 120)]
    clique = list(combinations(range(1, 6), 2))
    assert Constraints.from_pairs(cannot_link=[*hub, *clique]).proved_groups().n_groups == 5


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 120))
def test_the_bound_is_never_above_the_number_of_classes_and_groups_are_pure(seed, n_classes, n_pairs):
    y = np.random.default_rng(seed).integers(n_classes, size=20)
    proved = Constraints.from_labels(y, n_pairs, random_state=seed).proved_groups()
    assert 1 <= proved.n_groups <= len(np.unique(y))
    for group in range(proved.n_groups):
        assert len(np.unique(y[proved.rows[proved.labels == group]])) == 1
    assert len(np.unique(y[proved.examples])) == proved.n_groups


def test_all_pairs_of_some_rows_prove_all_their_classes():
    y = np.arange(60) % 7
    proved = Constraints.from_labels(y, 60 * 59 // 2, random_state=0).proved_groups()
    assert (proved.n_groups, proved.share_grouped, proved.n_single_rows) == (7, 1.0, 0)


def test_ties_go_to_the_larger_component():
    differ = csr_array(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]))
    assert greedy_clique(differ, np.array([1, 2, 9])).tolist() == [0, 2]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.1, 0.9))
def test_starts_that_are_left_out_would_not_have_found_more(seed, density):
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((25, 25)) < density, k=1)
    differ, sizes = csr_array((upper | upper.T).astype(np.int64)), random.integers(1, 9, 25)
    found = greedy_clique(differ, sizes).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "_core", lambda differ, least: np.ones(differ.shape[0], dtype=bool))
        assert greedy_clique(differ, sizes).tolist() == found


@pytest.mark.parametrize("n_classes", [10, 447])
def test_a_hundred_thousand_pairs_take_a_second_at_most(n_classes):
    pairs = Constraints.from_labels(np.arange(447) % n_classes, 99_681, random_state=0)
    start = time.process_time()
    assert pairs.proved_groups().n_groups == n_classes
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("n_pairs", [0, 50, 400, 3000])
def test_random_pairs_are_all_news(n_pairs):
    y = np.random.default_rng(0).integers(10, size=5000)
    assert Constraints.from_labels(y, n_pairs, random_state=0).informative_pairs(10) == n_pairs


def test_what_follows_from_other_pairs_is_no_news():
    pairs = Constraints.from_pairs(must_link=[(0, 1), (1, 2), (0, 2)], cannot_link=[(0, 3), (1, 3), (2, 3)])
    assert pairs.informative_pairs(2) == 2 * 2 + 1
    assert pairs.informative_pairs(100) == len(pairs)


def test_all_pairs_of_labeled_rows_count_by_rows_and_groups():
    pairs = Constraints.from_labels(np.arange(300) % 10, 44_850, random_state=0)
    assert pairs.informative_pairs(10) == 10 * (300 - 10) + 45
    assert pairs.informative_pairs(10) == pairs.closure().informative_pairs(10)


@pytest.mark.parametrize("seed", range(5))
def test_groups_differ_in_doubt_by_two_cannot_links_that_share_no_row(seed):
    """Two groups of four rows, a few cannot-links between them; against a search of all two of these."""
    rng = np.random.default_rng(seed)
    together = [(4 * k + i, 4 * k + i + 1) for k in range(2) for i in range(3)]
    for n_links in range(1, 5):
        apart = np.stack([rng.integers(2, size=n_links), 4 + rng.integers(2, size=n_links)], axis=1)
        apart = np.array([link[:: rng.choice([1, -1])] for link in apart])
        pairs = Constraints.from_pairs(must_link=together, cannot_link=np.unique(apart, axis=0))
        is_proved = any(not set(one.tolist()) & set(two.tolist()) for one in apart for two in apart)
        assert pairs.proved_groups().n_groups == 2
        assert pairs.proved_groups(may_be_wrong=True).n_groups == 1 + is_proved


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30), st.integers(1, 31))
@settings(deadline=None)
def test_bridges_are_must_links_without_which_two_parts_of_several_rows_fall_apart(links, n_must):
    links = sorted({(min(link), max(link)) for link in links if link[0] != link[1]})
    pairs = Constraints.from_pairs(must_link=links[:n_must], cannot_link=links[n_must:])
    found = graph._is_bridge(pairs)
    for place, link in enumerate(links[:n_must]):
        labels = Constraints.from_pairs(
            must_link=[other for other in links[:n_must] if other != link], cannot_link=[link]
        ).components()
        sizes = labels.sizes[labels.labels[np.searchsorted(labels.rows, link)]]
        falls_apart = np.unique(labels.labels[np.searchsorted(labels.rows, link)]).size == 2
        assert found[place] == (falls_apart and sizes.min() > 1)
    assert not found[len(links[:n_must]) :].any()


def test_a_few_wrong_answers_prove_no_more_groups_than_there_are():
    """Three classes; one random answer of twenty is wrong."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=150)
        right = Constraints.from_labels(y, 300, random_state=seed)
        is_must_link = right.is_must_link ^ (rng.random(len(right)) < 0.05)
        pairs = Constraints.from_arrays(right.left, right.right, is_must_link)
        found.append([pairs.proved_groups(may_be_wrong=doubt).n_groups for doubt in (False, True)])
    sure, unsure = np.transpose(found)
    assert (sure > 3).mean() > 0.5
    assert (unsure <= 3).all()


def test_in_doubt_all_rows_in_pairs_are_counted():
    chain = [(0, 1), (1, 2), (2, 3), (3, 4)]
    pairs = Constraints.from_pairs(must_link=chain, cannot_link=[(0, 5)])
    for may_be_wrong in (False, True):
        found = pairs.proved_groups(may_be_wrong=may_be_wrong)
        assert (found.n_linked_rows, found.n_single_rows) == (6, 1)


def test_a_must_link_of_two_people_is_not_one_alone():
    left, right, people = [0, 2, 1, 1], [1, 3, 2, 2], ["ann", "ann", "ann", "bob"]
    for n_answers, n_alone in ((3, 1), (4, 0)):
        first = slice(n_answers)
        pairs = Constraints.from_arrays(left[first], right[first], np.ones(n_answers, bool), by=people[first])
        assert graph._is_bridge(pairs).sum() == n_alone
