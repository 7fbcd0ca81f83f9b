from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.constraints import Constraints
from spherepair.constraints.sampling import nested_sample, unordered_pair
from spherepair.errors import ConstraintWarning, InvalidConstraintsError, InvalidParameterError

LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0])


def unordered(pairs):
    return list(
        zip(
            np.minimum(pairs.left, pairs.right).tolist(),
            np.maximum(pairs.left, pairs.right).tolist(),
            strict=True,
        )
    )


@given(st.integers(2, 40))
def test_pair_numbers_are_one_to_one_with_pairs(n_rows):
    left, right = unordered_pair(np.arange(n_rows * (n_rows - 1) // 2), n_rows)
    expected = {(i, j) for i in range(n_rows) for j in range(i + 1, n_rows)}
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == expected


def test_pair_numbers_are_exact_for_very_many_rows():
    n_rows = 2_000_000_001
    total = n_rows * (n_rows - 1) // 2
    left, right = unordered_pair(np.array([0, total - 1]), n_rows)
    assert (left >= 0).all()
    assert (left < right).all()
    assert (right < n_rows).all()


@given(st.integers(1, 300), st.data(), st.integers(0, 5))
def test_smaller_sample_begins_larger_one_and_nothing_repeats(total, data, seed):
    size = data.draw(st.integers(0, total))
    everything = nested_sample(total, total, np.random.default_rng(seed))
    some = nested_sample(total, size, np.random.default_rng(seed))
    assert sorted(everything) == list(range(total))
    assert np.array_equal(some, everything[:size])


def test_smaller_sample_begins_larger_one_across_blocks():
    few = nested_sample(10**9, 5_000, np.random.default_rng(3))
    many = nested_sample(10**9, 50_000, np.random.default_rng(3))
    assert np.array_equal(few, many[:5_000])
    assert len(np.unique(many)) == 50_000


def test_random_pairs_are_uniform_over_all_pairs():
    n_rows, n_draws, n_pairs = 7, 3000, 5
    y = np.zeros(n_rows, int)
    counts = np.zeros((n_rows, n_rows))
    rng = np.random.default_rng(0)
    for _ in range(n_draws):
        pairs = Constraints.from_labels(y, n_pairs, random_state=rng)
        np.add.at(counts, (pairs.left, pairs.right), 1)
    observed = (counts + counts.T)[np.triu_indices(n_rows, 1)]
    expected = n_draws * n_pairs / 21
    # Chi-squared with 20 degrees of freedom exceeds 45 once in a thousand; the seed is fixed.
    assert ((observed - expected) ** 2 / expected).sum() < 45


@given(st.integers(0, 66), st.integers(0, 66), st.integers(0, 10))
def test_from_labels_is_nested_unique_and_right(n_first, n_second, seed):
    small, large = sorted([n_first, n_second])
    pairs = Constraints.from_labels(LABELS, large, random_state=seed)
    fewer = Constraints.from_labels(LABELS, small, random_state=seed)
    assert list(pairs)[:small] == list(fewer)
    assert len(set(unordered(pairs))) == large
    assert (pairs.left != pairs.right).all()
    assert np.array_equal(pairs.is_must_link, LABELS[pairs.left] == LABELS[pairs.right])


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b", "c"] * 5,
        np.array(["a", "b", "c"] * 5),
        [True, False, True] * 5,
        np.array([0.5, 1.5, -1] * 5),
        np.array([3, -1, 7] * 5, dtype=object),
        np.array(["2020-01-01", "2021-01-01", "2022-01-01"] * 5, dtype="datetime64[D]"),
    ],
)
def test_labels_may_be_of_any_kind(y):
    pairs = Constraints.from_labels(y, 60, random_state=0)
    expected = [y[i] == y[j] for i, j in zip(pairs.left, pairs.right, strict=True)]
    assert pairs.is_must_link.tolist() == expected


def test_pandas_labels_are_fine_and_pandas_missing_is_missing():
    pd = pytest.importorskip("pandas")
    assert len(Constraints.from_labels(pd.Series(["x", "y", "x"]), 2, random_state=0)) == 2
    with pytest.raises(InvalidConstraintsError, match=r"y\[1\] is missing"):
        Constraints.from_labels(pd.Series([1, None], dtype="Int64"), 1)


@pytest.mark.parametrize(
    "y", [[0, 1, None], [0.0, 1.0, np.nan], ["a", "b", np.nan], np.array([0, 1, np.nan])]
)
def test_missing_label_is_named(y):
    message = r"y\[2\] is missing \(1 of 3\); from_labels needs the label of every row"
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.from_labels(y, 1)


def test_labels_of_mixed_kinds_are_refused():
    with pytest.raises(InvalidConstraintsError, match=r"y mixes text with other labels \(int, str"):
        Constraints.from_labels([1, "1"], 1)


def test_labels_in_two_dimensions_are_refused():
    with pytest.raises(InvalidConstraintsError, match=r"one-dimensional; got shape \(2, 2\)"):
        Constraints.from_labels(np.zeros((2, 2)), 1)


def test_more_pairs_than_exist_gives_all_with_both_counts():
    message = "10 pairs were asked for, but only 6 different pairs of 4 rows exist; all 6 are given"
    with pytest.warns(ConstraintWarning, match=message) as caught:
        pairs = Constraints.from_labels([0, 0, 1, 1], 10, random_state=0)
    assert len(set(unordered(pairs))) == 6
    assert caught[0].filename == __file__


@pytest.mark.parametrize("y", [[], [1]])
def test_too_few_rows_for_any_pair_gives_none(y):
    assert len(Constraints.from_labels(y, 0)) == 0
    with pytest.warns(ConstraintWarning, match="only 0 different pairs"):
        assert len(Constraints.from_labels(y, 3)) == 0


@pytest.mark.parametrize("n_pairs", [-1, 2.5, "3", True, None])
def test_number_of_pairs_must_be_a_count(n_pairs):
    with pytest.raises(InvalidParameterError, match="n_pairs must be a whole number"):
        Constraints.from_labels(LABELS, n_pairs)


@pytest.mark.parametrize("random_state", [-1, "seed", 1.5])
def test_bad_random_state_is_refused(random_state):
    with pytest.raises(InvalidParameterError, match="random_state must be None, a seed"):
        Constraints.from_labels(LABELS, 3, random_state=random_state)


def test_random_state_may_be_generator_or_legacy_and_never_touches_the_global_one():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for make in (np.random.default_rng, np.random.RandomState):
        first = Constraints.from_labels(LABELS, 20, random_state=make(5))
        assert list(first) == list(Constraints.from_labels(LABELS, 20, random_state=make(5)))
        assert first != Constraints.from_labels(LABELS, 20, random_state=make(6))
    Constraints.from_labels(LABELS, 20)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@given(st.lists(st.sampled_from([-1, 0, 1, 2, 3]), max_size=25), st.integers(0, 3))
def test_compact_group_pairs_entail_exactly_the_groups(groups, seed):
    pairs = Constraints.from_groups(groups, random_state=seed)
    labelled = [row for row, group in enumerate(groups) if group != -1]
    expected = {(i, j, groups[i] == groups[j]) for i in labelled for j in labelled if i < j}
    closed = pairs.closure()
    found = {(*ends, bool(link)) for ends, link in zip(unordered(closed), closed.is_must_link, strict=True)}
    assert found == expected
    assert len(pairs) <= 2 * len(labelled) + 6
    assert pairs.n_duplicates == 0


def test_each_labelled_row_is_pulled_and_pushed():
    groups = np.repeat([0, 1, 2, -1], 50)
    pairs = Constraints.from_groups(groups, random_state=0)
    must = np.bincount(np.concatenate([pairs.must_links.left, pairs.must_links.right]))
    cannot = np.concatenate([pairs.cannot_links.left, pairs.cannot_links.right])
    assert (must == 2).all()
    assert np.array_equal(np.unique(cannot), np.arange(150))


@pytest.mark.parametrize(
    "groups",
    [
        ["a", None, "b", "a"],
        ["a", np.nan, "b", "a"],
        [0, -1, 1, 0],
        [0, None, 1, 0],
        [0.0, np.nan, 1.0, 0.0],
        np.array([5, -1, 7, 5]),
    ],
)
def test_unknown_groups_are_left_out(groups):
    pairs = Constraints.from_groups(groups, random_state=0)
    assert 1 not in np.concatenate([pairs.left, pairs.right])
    assert unordered(pairs.must_links) == [(0, 3)]


@pytest.mark.parametrize("groups", [[], [-1, -1], [None], [-1, 4]])
def test_groups_without_pairs_give_none(groups):
    assert len(Constraints.from_groups(groups)) == 0


def test_from_groups_draws_random_pairs_of_labelled_rows():
    groups = np.where(np.arange(40) % 2, -1, np.arange(40) % 3)
    pairs = Constraints.from_groups(groups, n_pairs=50, random_state=0)
    assert len(set(unordered(pairs))) == 50
    assert (groups[pairs.left] >= 0).all()
    assert (groups[pairs.right] >= 0).all()
    assert np.array_equal(pairs.is_must_link, groups[pairs.left] == groups[pairs.right])


def test_very_many_groups_stay_linear_with_a_warning():
    with pytest.warns(ConstraintWarning, match="500 groups make 124750 pairs of groups; only 5000"):
        pairs = Constraints.from_groups(np.arange(500), random_state=0)
    assert 5000 <= len(pairs) <= 5500


def test_imbalanced_sets_are_nested_and_sized_one_five_ten():
    y = np.arange(400) % 4
    sets = Constraints.imbalanced(y, 30, random_state=0)
    assert [len(pairs) for pairs in sets] == [30, 150, 300]
    assert list(sets[0]) == list(Constraints.from_labels(y, 30, random_state=0))
    assert list(sets[0]) == list(sets[1])[:30]
    assert list(sets[1]) == list(sets[2])[:150]
    assert len(set(unordered(sets[2]))) == 300


def test_imbalanced_extras_are_cannot_links_of_one_cluster():
    y = np.array(list("abcd") * 100)
    for cluster, name in [(None, "a"), ("c", "c")]:
        extra = Constraints.imbalanced(y, 30, cluster=cluster, random_state=0)[2][30:]
        assert not extra.is_must_link.any()
        assert ((y[extra.left] == name) ^ (y[extra.right] == name)).all()
        others = np.where(y[extra.left] == name, y[extra.right], y[extra.left])
        assert len(set(others.tolist())) == 3


def test_imbalanced_gives_every_further_cannot_link_when_too_few_exist():
    y = np.array([0] * 3 + [1] * 9)
    with pytest.warns(ConstraintWarning, match="180 pairs were asked for, but only .* further"):
        sets = Constraints.imbalanced(y, 20, random_state=0)
    crossing = sets[2].cannot_links
    assert len(crossing) == 27
    assert len(set(unordered(crossing))) == 27


def test_imbalanced_with_one_cluster_has_nothing_to_add():
    with pytest.warns(ConstraintWarning, match="only 0 further"):
        sets = Constraints.imbalanced(np.zeros(10), 5, random_state=0)
    assert [len(pairs) for pairs in sets] == [5, 5, 5]


def test_unknown_cluster_is_refused():
    with pytest.raises(InvalidParameterError, match=r"one of the labels \[0, 1, 2\]; got 9"):
        Constraints.imbalanced(LABELS, 3, cluster=9)
