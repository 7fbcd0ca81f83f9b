"""The judge of answers: neighbors, error rates of people, and how likely each answer is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from spherepair.clustering.answer_errors import (
    Judge,
    Witnesses,
    agreement_table,
    judge_answers,
)
from spherepair.clustering.error_rates import ErrorRates, WrongAnswers
from spherepair.constraints import Constraints

N_ROWS = 400


@pytest.fixture
def truth() -> Any:
    return np.random.default_rng(0).integers(5, size=N_ROWS)


def answered(
    truth: Any, *, seed: int, alpha: float, beta: float, by: str = "", n_pairs: int = 800
) -> tuple[Constraints, Any]:
    """Random pairs of somebody who calls `alpha` of the same different, `beta` of the others the same."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(N_ROWS, size=(2, n_pairs))
    left, right = left[left != right], right[left != right]
    same = truth[left] == truth[right]
    wrong = rng.random(len(left)) < np.where(same, alpha, beta)
    pairs = Constraints.from_arrays(left, right, same ^ wrong, by=by or None)
    flipped = (truth[pairs.left] == truth[pairs.right]) != pairs.is_must_link
    return pairs, flipped


def believed(truth: Any, pairs: Constraints) -> Any:
    """What good neighbors say."""
    return np.where(truth[pairs.left] == truth[pairs.right], 0.93, 0.01)


def test_neighbors_say_how_probable_it_is_that_rows_belong_together() -> None:
    memberships = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    witnesses = Witnesses(np.array([[0, 1], [2, 2], [3, 1]]), np.array([0, 0, 0]), np.array([0, 1, 2]))
    said = witnesses.same(memberships, np.array([True, False, True]))
    assert said == pytest.approx([1.0, 0.0, 0.75], abs=0.05)


def said_of(left: Any, right: Any, is_must_link: Any) -> Any:
    """What the neighbors say of pairs between three clusters, given by their numbers."""
    witnesses = Witnesses(np.arange(3)[:, None], np.asarray(left), np.asarray(right))
    return witnesses.same(np.eye(3), np.asarray(is_must_link))


def test_what_neighbors_say_is_a_probability_however_memberships_are_rounded() -> None:
    """A model or a checkpoint whose judgment holds more than one cannot be loaded."""
    witnesses = Witnesses(np.arange(2)[:, None], np.array([0, 0]), np.array([0, 1]))
    memberships = np.array([[1.0 + 1e-7, 0.0], [-1e-9, 1.0]])
    assert witnesses.same(memberships, np.array([True, False])).tolist() == [1.0, 0.0]


def test_answers_that_deny_a_cluster_are_not_suspected() -> None:
    # The third cluster has two classes: most answers inside say that its rows differ.
    clusters, is_must_link = np.repeat([0, 1, 2], 20), np.arange(60) < 45
    said = said_of(clusters, clusters, is_must_link)
    assert said[:40] == pytest.approx(1.0, abs=0.05)
    assert said[40:] == pytest.approx(0.5, abs=0.05)


def test_cannot_links_between_halves_of_a_class_are_suspected() -> None:
    # A large class is in the first two clusters. One in five answers is wrong.
    left, right = np.repeat([0, 1, 2, 0, 0, 1], 30), np.repeat([0, 1, 2, 1, 2, 2], 30)
    are_same = np.repeat([True, True, True, True, False, False], 30)
    said = said_of(left, right, are_same ^ (np.arange(180) % 5 == 0))
    assert said[are_same] == pytest.approx(1.0, abs=0.05)
    assert said[~are_same] == pytest.approx(0.0, abs=0.05)


def test_many_answers_of_which_a_third_is_wrong_leave_clusters_apart() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.integers(10, size=(2, 10_000))
    is_must_link = (left == right) ^ (rng.random(10_000) < 0.33)
    memberships = 0.9 * np.eye(10) + 0.01
    table = agreement_table(memberships[left], memberships[right], is_must_link)
    np.testing.assert_array_equal(table, np.eye(10))


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.1), (0.3, 0.3), (0.05, 0.25)])
def test_error_rates_are_found(truth: Any, alpha: float, beta: float) -> None:
    pairs, wrong = answered(truth, seed=1, alpha=alpha, beta=beta)
    found = judge_answers(pairs, believed(truth, pairs))
    assert found.wrong.share == pytest.approx(wrong.mean(), abs=0.03)
    assert found.wrong.must_link == pytest.approx(wrong[pairs.is_must_link].mean(), abs=0.07)
    assert np.mean(found.right[wrong] < 0.5) > 0.85
    assert np.mean(found.right[~wrong] < 0.5) < 0.01
    assert found.wrong.n_suspects == np.count_nonzero(found.right < 0.5)


def test_without_wrong_answers_none_is_suspected(truth: Any) -> None:
    pairs, _ = answered(truth, seed=2, alpha=0.0, beta=0.0)
    found = judge_answers(pairs, believed(truth, pairs))
    assert found.wrong.share < 0.005
    assert str(found.wrong) == "no answer seems wrong"
    assert (found.worth > 0.5).all()


def test_people_have_rates_of_their_own_and_a_random_one_counts_nothing(truth: Any) -> None:
    people = {"ann": (0.02, 0.02), "bob": (0.2, 0.2), "cem": (0.5, 0.5), "dee": (0.0, 1.0)}
    parts = [
        answered(truth, seed=k, alpha=alpha, beta=beta, by=name)[0]
        for k, (name, (alpha, beta)) in enumerate(people.items())
    ]
    pairs = parts[0] | parts[1] | parts[2] | parts[3]
    found = judge_answers(pairs, believed(truth, pairs))
    rates = found.wrong.people
    assert rates["ann"].cannot_link < 0.05 < rates["bob"].must_link
    assert [name for name in people if not rates[name].is_informative] == ["cem", "dee"]
    assert (found.worth[np.isin(pairs.by, ["cem", "dee"])] == 0).all()
    assert str(found.wrong).endswith("those of cem, dee say nothing")


def test_an_answer_that_says_nothing_is_no_evidence_and_cannot_be_wrong() -> None:
    pairs = Constraints.from_arrays([0, 1], [2, 3], [True, True], value=[0.5, 1.0])
    found = judge_answers(pairs, np.array([0.3, 0.3]), share=0.1)
    assert found.right[0] == 1.0
    assert found.right[1] == pytest.approx(0.3 * 0.9 / (0.3 * 0.9 + 0.7 * 0.1))


def test_clusters_that_cut_across_the_classes_say_nothing() -> None:
    # Half of the answers deny every cluster, and none is wrong: no rate explains that, only the clusters do.
    left, right = np.repeat([0, 1, 0], 100), np.repeat([0, 1, 1], 100)
    table = agreement_table(np.eye(2)[left], np.eye(2)[right], np.arange(300) % 2 == 0)
    assert table.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_answers_that_say_nothing_do_not_say_which_clusters_are_one_class() -> None:
    witnesses = Witnesses(np.arange(2)[:, None], np.zeros(60, np.int64), np.zeros(60, np.int64))
    is_must_link = np.arange(60) < 20
    told = witnesses.same(np.eye(2), is_must_link, is_must_link)
    assert told == pytest.approx(np.ones(60))
    assert witnesses.same(np.eye(2), is_must_link)[0] == 0.5


def test_shares_survive_json() -> None:
    pairs = Constraints.from_arrays([0, 1], [2, 3], [True, False], by=["ann", "bob"])
    wrong = judge_answers(pairs, np.array([0.1, 0.2])).wrong
    assert WrongAnswers.from_dict(wrong.to_dict()) == wrong


def judge_of(pairs: Constraints) -> Judge:
    nobody = np.zeros(0, np.int64)
    return Judge(
        pairs, Witnesses(np.zeros((N_ROWS, 1), np.int64), nobody, nobody), nobody, torch.zeros(0), None
    )


@pytest.mark.parametrize("n_rows", [N_ROWS, 10 * N_ROWS])
def test_few_must_links_that_are_unsure_count_later(truth: Any, n_rows: int) -> None:
    pairs, wrong = answered(truth, seed=1, alpha=0.3, beta=0.3)
    same = np.clip(believed(truth, pairs) + np.random.default_rng(0).normal(scale=0.3, size=len(pairs)), 0, 1)
    judge = judge_of(pairs).starting_from(same, n_rows=n_rows, n_clusters=1000)
    first, last = judge.worth(same, 0.0), judge.worth(same, 1.0)
    must = pairs.is_must_link
    assert np.count_nonzero(first[must]) < np.count_nonzero(last[must])
    assert (first[~must] == last[~must]).all()
    assert wrong[must & (first > 0)].mean() < wrong[must & (last > 0)].mean()


def test_what_neighbors_said_at_first_counts_where_must_links_are_few(truth: Any) -> None:
    pairs, wrong = answered(truth, seed=1, alpha=0.2, beta=0.2)
    at_first = believed(truth, pairs)
    confirmed = np.where(pairs.is_must_link, 0.8, 0.05)  # a training that has learned answers by heart
    many = judge_of(pairs).starting_from(at_first, n_rows=10 * N_ROWS, n_clusters=1)
    few = judge_of(pairs).starting_from(at_first, n_rows=10 * N_ROWS, n_clusters=1000)
    assert many.first is judge_of(pairs).starting_from(at_first, n_rows=N_ROWS, n_clusters=1000).first is None
    assert many(confirmed).right[wrong].mean() > 0.9
    assert few(confirmed).right[wrong].mean() < 0.7
    assert few(confirmed).right[~wrong].min() > 0.9


def four_people(truth: Any, seed: int, *, share: float, n_pairs: int = 300) -> Constraints:
    """Three people with so many wrong answers and one who tosses a coin."""
    people = dict.fromkeys(("ann", "bob", "cem"), share) | {"dee": 0.5}
    parts = [
        answered(truth, seed=10 * seed + k, alpha=rate, beta=rate, by=name, n_pairs=n_pairs)[0]
        for k, (name, rate) in enumerate(people.items())
    ]
    return parts[0] | parts[1] | parts[2] | parts[3]


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_who_tosses_a_coin_weighs_nothing_and_the_others_count(truth: Any, share: float) -> None:
    n_found, n_seeds = 0, 20
    for seed in range(n_seeds):
        pairs = four_people(truth, seed, share=share)
        found = judge_answers(pairs, believed(truth, pairs))
        rates = found.wrong.people
        assert all(rates[name].is_informative for name in ("ann", "bob", "cem"))
        n_found += not rates["dee"].is_informative
        assert rates["dee"].is_informative or (found.worth[pairs.by == "dee"] == 0).all()
    assert n_found >= 0.9 * n_seeds


def test_who_answers_at_random_does_not_change_what_others_answers_are_worth(truth: Any) -> None:
    """The same pairs again, answered by a coin: the neighbors and the others decide alone."""
    pairs, _ = answered(truth, seed=5, alpha=0.1, beta=0.1, by="ann")
    coin = np.random.default_rng(0).random(400) < 0.5
    again = Constraints.from_arrays(pairs.left[:400], pairs.right[:400], coin, by="dee")
    both = pairs | again
    found, alone = (judge_answers(one, believed(truth, one)) for one in (both, pairs))
    is_ann = both.by == "ann"
    assert (found.worth[~is_ann] == 0).all()
    np.testing.assert_allclose(found.right[is_ann], alone.right, atol=0.05)


def test_nobody_answers_at_random_where_the_neighbors_say_nothing(truth: Any) -> None:
    pairs = four_people(truth, 0, share=0.1)
    shuffled = np.random.default_rng(0).permutation(believed(truth, pairs))
    assert judge_answers(pairs, shuffled).informative.all()


@pytest.mark.parametrize("is_same", [True, False])
def test_who_was_asked_about_one_kind_of_pairs_and_is_right_counts(truth: Any, is_same: bool) -> None:
    pairs, _ = answered(truth, seed=1, alpha=0.1, beta=0.1, by="ann")
    known = Constraints.from_labels(truth, 4_000, random_state=2)
    known = known[known.is_must_link == is_same][:300]
    of_one_kind = Constraints.from_arrays(known.left, known.right, known.is_must_link, by=["tool"] * 300)
    both = pairs | of_one_kind
    found = judge_answers(both, believed(truth, both))
    assert found.wrong.people["tool"].is_informative
    assert found.worth[both.by == "tool"].mean() > 0.9


def test_who_says_nothing_is_named_even_where_no_answer_seems_wrong() -> None:
    people = {"ann": ErrorRates(100, 0.0, 0.0), "dee": ErrorRates(100, 0.5, 0.5, is_informative=False)}
    assert str(WrongAnswers(0.0, 0.0, 0.0, 0, people)) == "no answer seems wrong; those of dee say nothing"
