from __future__ import annotations

import copy
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, AgglomerativeClustering
from sklearn.mixture import GaussianMixture

from spherepair import Constraints, SpherePair
from spherepair.errors import ConstraintWarning, InvalidParameterError
from spherepair.estimators import method_families


def test_kmeans_predicts_the_labels_of_training_rows(fitted: SpherePair, X: Any) -> None:
    assert np.array_equal(fitted.predict(X), fitted.labels_)


def test_predicted_centres_have_the_smallest_angle(fitted: SpherePair, X: Any) -> None:
    angles = np.arccos(np.clip(fitted.transform(X) @ fitted.cluster_centers_.T, -1, 1))
    assert np.array_equal(fitted.predict(X), angles.argmin(axis=1))


def test_labels_of_new_rows_do_not_look_at_those_of_the_fit(fitted: SpherePair, X: Any) -> None:
    without = copy.copy(fitted)
    without.embedding_ = None
    assert np.array_equal(without.predict(X[:1]), fitted.labels_[:1])


def test_clouds_are_as_wide_as_rows_are_far_from_their_centers(
    fitted: SpherePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = fitted.embedding_ - fitted.cluster_centers_[fitted.labels_]
    assert fitted._spread() == pytest.approx(np.square(offsets).mean(), rel=1e-5)
    monkeypatch.setattr(method_families, "VARIANCE_ROWS", 7)  # every 18th of 120 rows
    assert fitted._spread() == pytest.approx(np.square(offsets[::18]).mean(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:the answers prove at least 3 groups")
@pytest.mark.parametrize("n_clusters", [1, 2, 3, 5])
def test_ward_labels_are_the_cut_of_the_tree(n_clusters: int, make: Any, X: Any, pairs: Any) -> None:
    model = make(n_clusters, clustering="ward").fit(X, constraints=pairs)
    assert model.n_clusters_ == n_clusters
    assert set(model.labels_) == set(range(n_clusters))
    cut = AgglomerativeClustering(n_clusters).fit_predict(model.embedding_)
    assert _same_partition(model.labels_, cut)


def _same_partition(a: Any, b: Any) -> bool:
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


def test_a_clusterer_of_scikit_learn_cuts_the_embedding(make: Any, X: Any, pairs: Any) -> None:
    clusterer = AgglomerativeClustering(linkage="average", n_clusters=7)
    model = make(3, clustering=clusterer).fit(X, constraints=pairs)
    expected = AgglomerativeClustering(linkage="average", n_clusters=3).fit_predict(model.embedding_)
    assert _same_partition(model.labels_, expected)
    assert clusterer.n_clusters == 7
    assert not hasattr(clusterer, "labels_")


def test_a_mixture_gets_its_components_and_a_seed(make: Any, X: Any, pairs: Any) -> None:
    mixture = GaussianMixture(covariance_type="spherical")
    models = [make(3, clustering=mixture).fit(X, constraints=pairs) for _ in range(2)]
    assert models[0].n_clusters_ == 3
    assert np.array_equal(models[0].labels_, models[1].labels_)


def test_noise_of_dbscan_is_kept_and_new_rows_get_a_cluster(make: Any, X: Any, pairs: Any) -> None:
    far = np.vstack([X, X.mean(axis=0) + 300 * np.eye(5)[:1]]).astype(np.float32)
    model = make(3, clustering=DBSCAN(eps=0.05, min_samples=3)).fit(far, constraints=pairs)
    assert -1 in model.labels_
    assert model.n_clusters_ == model.labels_.max() + 1 == len(model.cluster_centers_)
    assert model.predict(far).min() >= 0


def test_noise_alone_is_an_error(make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidParameterError, match="every row as noise"):
        make(3, clustering=DBSCAN(eps=1e-12, min_samples=50)).fit(X, constraints=pairs)


def test_score_pairs_counts_by_weight(fitted: SpherePair) -> None:
    labels = fitted.labels_
    same = np.flatnonzero(labels == labels[0])[1]
    other = np.flatnonzero(labels != labels[0])[0]
    pairs = Constraints.from_pairs(
        must_link=[(0, same), (0, other)], must_link_weight=[3.0, 1.0], cannot_link=[(same, other)]
    )
    assert fitted.score_pairs(pairs) == pytest.approx(4 / 5)
    assert fitted.score_pairs(pairs.cannot_links) == 1.0
    assert fitted.score_pairs(Constraints.from_pairs()) == 1.0


def test_score_pairs_of_other_rows(fitted: SpherePair, X: Any) -> None:
    backwards = X[::-1]
    labels = fitted.predict(backwards)
    other = int(np.flatnonzero(labels != labels[0])[0])
    assert fitted.score_pairs(Constraints.from_pairs(cannot_link=[(0, other)]), backwards) == 1.0
    assert fitted.score_pairs(Constraints.from_pairs(must_link=[(0, other)]), backwards) == 0.0


def test_score_pairs_takes_contradictions_as_they_are(fitted: SpherePair) -> None:
    both = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(0, 1)])
    assert fitted.score_pairs(both) == 0.5


@pytest.mark.filterwarnings("ignore:the answers prove at least 3 groups")
def test_one_cluster_is_allowed(make: Any, X: Any, pairs: Any) -> None:
    model = make(1).fit(X, constraints=pairs)
    assert set(model.labels_) == {0}


def test_as_many_clusters_as_rows_are_allowed(make: Any) -> None:
    X = np.random.default_rng(0).normal(size=(12, 3))
    pairs = Constraints.from_labels(np.arange(12), 60, random_state=0)
    with pytest.warns(match="cannot-links"):
        model = make(12).fit(X, constraints=pairs)
    assert model.predict(X).max() < 12


def a_large_class_and_two_small_ones() -> tuple[Any, Any]:
    """Unit vectors: a class along the equator, and two of few rows on either side of a pole."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [2000, 20, 20])
    longitude = np.where(y == 0, rng.uniform(-0.9, 0.9, len(y)), np.pi * (y - 1))
    latitude = np.where(y == 0, 0.0, 1.2) + 0.03 * rng.normal(size=len(y))
    east, north = np.cos(latitude) * [np.cos(longitude), np.sin(longitude)], np.sin(latitude)
    return np.column_stack([*east, north]).astype(np.float32), y


@pytest.mark.parametrize("is_known", [True, False])
def test_kmeans_starts_from_groups_that_the_pairs_prove(fitted: SpherePair, is_known: bool) -> None:
    """Without them k-means cuts the large class in two and merges the small ones."""
    embedding, y = a_large_class_and_two_small_ones()
    labeled = np.where(np.arange(len(y)) % 5 == 0, y, -1)
    pairs = Constraints.from_groups(
        labeled if is_known else np.where(labeled == 2, -1, labeled), random_state=0
    )
    model = copy.copy(fitted).set_params(n_clusters=3)
    found, number = model._cluster(SimpleNamespace(trusted=pairs, worth=None), embedding)  # type: ignore[arg-type]
    assert number is None
    assert _same_partition(found.labels, y) is is_known


def test_kmeans_starts_anew_where_few_rows_in_pairs_are_in_the_groups(fitted: SpherePair) -> None:
    embedding, _ = a_large_class_and_two_small_ones()
    groups = [(0, 2000), (0, 2020), (2000, 2020)]
    lone = [(row, 2000) for row in range(1, 20)]
    proof = [Constraints.from_pairs(cannot_link=pairs) for pairs in (groups, [*groups, *lone])]
    starts = [fitted._proved_centers(embedding, pairs.proved_groups(), 3) for pairs in proof]
    np.testing.assert_allclose(starts[0], embedding[[0, 2000, 2020]], atol=1e-6)
    assert starts[1] is None
    assert fitted._proved_centers(embedding, proof[0].proved_groups(), 4) is None


def test_fewer_clusters_than_the_pairs_prove_are_warned_about(make: Any, X: Any) -> None:
    pairs = Constraints.from_pairs(
        must_link=[(0, 1)], cannot_link=[(0, 2), (1, 3), (2, 3), (4, 0), (4, 2), (4, 3), (9, 8)]
    )
    with pytest.warns(ConstraintWarning, match=r"the answers prove at least 4 groups: rows 0, 2, 3, 4 all"):
        model = make(3, max_epochs=1, batch_size=8).fit(X, constraints=pairs)
    with pytest.warns(ConstraintWarning, match=r"at least 5 groups.*but n_clusters is 3"):
        model.refine(Constraints.from_pairs(cannot_link=[(7, row) for row in (0, 2, 3, 4)]))
    for n_clusters in (4, "auto"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make(n_clusters, max_epochs=1, batch_size=8).fit(X, constraints=pairs)
        assert not [w for w in caught if "prove" in str(w.message)]
