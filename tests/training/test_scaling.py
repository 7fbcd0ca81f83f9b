"""Scaling: columns in one unit keep their relative sizes, others are standardised."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from spherepair.training import scaling
from spherepair.training.scaling import learn_scaling


def scaled(X, kind):
    return learn_scaling(X, kind).on(torch.device("cpu"))(torch.from_numpy(np.asarray(X))).numpy()


@pytest.fixture
def mixed_units():
    rng = np.random.default_rng(0)
    return rng.normal([0, 50_000, 1e-3], [1, 20_000, 1e-4], size=(200, 3))


def test_standard_gives_zero_mean_and_unit_variance(mixed_units):
    out = scaled(mixed_units, "standard")
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(out.std(axis=0), 1, rtol=1e-3)


def test_auto_standardises_columns_in_different_units(mixed_units):
    np.testing.assert_allclose(scaled(mixed_units, "auto"), scaled(mixed_units, "standard"), atol=1e-6)


def test_auto_keeps_the_relative_sizes_of_pixels():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(100, 20)).astype(np.uint8)
    X[:, 0] = 0
    X[:50, 1] = 0
    out = scaled(X, "auto")
    np.testing.assert_allclose(out / out.max(), X / X.max(), atol=1e-6)
    assert np.sqrt(np.mean(out**2)) == pytest.approx(1.0, rel=1e-5)


def test_auto_takes_away_a_large_common_offset():
    rng = np.random.default_rng(0)
    X = 2000 + rng.normal(size=(100, 4))
    assert np.abs(scaled(X, "auto").mean()) < 1e-3


def test_constant_columns_become_zero():
    X = np.column_stack([np.full(50, 7.5), np.arange(50) * 1000.0, np.full(50, 1e9)])
    out = scaled(X, "standard")
    assert np.isfinite(out).all()
    assert (out[:, [0, 2]] == 0).all()


def test_a_table_of_constants_is_no_division_by_zero():
    assert np.isfinite(scaled(np.full((10, 3), 4.0), "auto")).all()
    assert np.isfinite(scaled(np.zeros((10, 3)), "auto")).all()


def test_none_leaves_values_alone():
    X = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.testing.assert_array_equal(scaled(X, "none"), X)


def test_sparse_and_dense_agree():
    X = sparse.random(60, 9, density=0.3, random_state=0, format="csr")
    dense, thin = learn_scaling(X.toarray(), "standard"), learn_scaling(X, "standard")
    np.testing.assert_allclose(dense.shift, thin.shift, rtol=1e-6)
    np.testing.assert_allclose(dense.factor, thin.factor, rtol=1e-6)


def test_blocks_give_the_statistics_of_the_whole(monkeypatch):
    X = np.random.default_rng(0).normal(1e6, 1.0, size=(500, 3))
    whole = learn_scaling(X, "standard")
    monkeypatch.setattr("spherepair.training.scaling._BLOCK_ELEMENTS", 30)
    np.testing.assert_allclose(learn_scaling(X, "standard").factor, whole.factor, rtol=1e-6)


def test_the_number_of_threads_does_not_matter(monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, 3))
    monkeypatch.setattr("spherepair.training.scaling._BLOCK_ELEMENTS", 30)
    found = []
    for n_threads in (1, 5):
        monkeypatch.setattr("torch.get_num_threads", lambda n_threads=n_threads: n_threads)
        found.append(learn_scaling(X, "standard"))
    np.testing.assert_array_equal(found[0].shift, found[1].shift)
    np.testing.assert_array_equal(found[0].factor, found[1].factor)


def test_the_largest_magnitude_may_be_negative():
    X = np.array([[-50.0, 1.0, 2.0], [0.0, -2.0, 1.0], [3.0, 0.0, -1.0]])
    assert scaling._column_statistics(X).largest.tolist() == [50.0, 2.0, 2.0]
