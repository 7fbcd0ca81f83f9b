"""What is given to the decision: checks of the input, pairs that are left out, limits of the candidates."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair.clustering import infer_n_clusters
from spherepair.clustering.number_evidence import prepare_problem
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError


def test_rows_are_scaled_to_length_one(embedding):
    problem = prepare_problem(7.0 * embedding(3, n_rows=50).rows, None)
    np.testing.assert_allclose(np.linalg.norm(problem.rows, axis=1), 1.0)


def test_candidates_end_below_the_rows_in_cannot_links(embedding, only):
    drawn = embedding(4, n_rows=50)
    few = np.flatnonzero(~drawn.pairs.is_must_link)[:3]
    assert prepare_problem(drawn.rows, only(drawn.pairs, few)).max_clusters == 5


def test_rows_of_zeros_are_left_out(embedding):
    drawn = embedding(5)
    drawn.rows[::50] = 0.0
    assert infer_n_clusters(drawn.rows, drawn.pairs, random_state=0).value == 5


def test_pairs_of_weight_zero_are_left_out(embedding, only):
    drawn = embedding(5, n_rows=500, n_pairs=500)
    drawn.pairs.weight[::3] = 0.0
    present = only(drawn.pairs, drawn.pairs.weight > 0)
    given, dropped = (infer_n_clusters(drawn.rows, p, random_state=0) for p in (drawn.pairs, present))
    assert given.to_dict() == dropped.to_dict()


def test_max_clusters_bounds_the_candidates(embedding):
    drawn = embedding(4, n_rows=400, n_pairs=400)
    found = infer_n_clusters(drawn.rows, drawn.pairs, max_clusters=6, random_state=0)
    assert {candidate.value for candidate in found.candidates} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("method", ["silhouette", "lifetime"])
def test_n_rows_bounds_what_is_looked_at(embedding, method):
    drawn = embedding(4, n_components=8, n_rows=2000, noise=0.4)
    few, every = (
        infer_n_clusters(drawn.rows, drawn.pairs, method=method, n_rows=n, random_state=0)
        for n in (200, None)
    )
    assert few.value == every.value == 4
    assert not np.allclose(few.curve, every.curve, rtol=1e-6)


def test_bad_embeddings_and_pairs_are_named(embedding):
    drawn = embedding(3, n_rows=50, n_pairs=50)
    with pytest.raises(InvalidConstraintsError, match="outside the embedding of 10 rows"):
        infer_n_clusters(drawn.rows[:10], drawn.pairs)
    with pytest.raises(InvalidDataError, match="must be a table"):
        infer_n_clusters(drawn.rows[0], drawn.pairs)
    drawn.rows[7, 1] = np.nan
    with pytest.raises(InvalidDataError, match="in 1 rows, first row 7"):
        infer_n_clusters(drawn.rows, drawn.pairs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tail_ratio": 0.0}, r"tail_ratio must be in \(0, 0.5\], got 0.0 instead"),
        ({"max_clusters": 1}, "max_clusters must be 2 or more, got 1 instead"),
        ({"n_resamples": -1}, "n_resamples must be 0 or more, got -1 instead"),
        ({"n_rows": 4, "max_clusters": 4}, "n_rows must be above max_clusters, got 4 instead"),
    ],
)
def test_bad_parameters_are_named(embedding, changes, message):
    drawn = embedding(3, n_rows=50, n_pairs=50)
    with pytest.raises(InvalidParameterError, match=message):
        infer_n_clusters(drawn.rows, drawn.pairs, **changes)
