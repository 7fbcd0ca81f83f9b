from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.model_selection import train_test_split

from spherepair.datasets.catalog import find_spec
from spherepair.datasets.dataset_files import Quantization, RawData
from spherepair.datasets.preprocessing import check_raw, keep_classes, prepare, split_rows
from spherepair.errors import InvalidDataError, InvalidParameterError

FEATURES, PIXELS, TEXT = find_spec("stl10"), find_spec("mnist"), find_spec("reuters_r8")


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    X = rng.normal(3, [1, 5, 0.1], (50, 3)).astype(np.float32)
    return RawData(X, np.arange(50) % 5, 30)


def test_pixels_are_scaled_and_keep_the_official_split(images):
    X = np.concatenate([images["X_train"], images["X_test"]]).reshape(18, 6)
    raw = RawData(X, np.arange(18) % 3, 12)
    parts = prepare(raw, PIXELS, preprocessing="paper")
    assert parts.X_train.dtype == np.float32
    assert_allclose(parts.X_train, X[:12] * 0.02, rtol=1e-6)
    assert_allclose(parts.X_test, X[12:] * 0.02, rtol=1e-6)
    assert prepare(raw, PIXELS, preprocessing="raw").X_train.dtype == np.uint8


def test_features_are_pooled_split_with_seed_0_and_standardized_on_train(features):
    parts = prepare(features, FEATURES, preprocessing="paper")
    train, test, y_train, y_test = train_test_split(
        features.X, features.y, test_size=0.2, random_state=0, stratify=features.y
    )
    assert np.array_equal(parts.y_train, y_train)
    assert np.array_equal(parts.y_test, y_test)
    assert np.bincount(parts.y_test).tolist() == [2] * 5
    assert_allclose(parts.X_train.mean(axis=0), 0, atol=1e-5)
    assert_allclose(parts.X_train.std(axis=0), 1, rtol=1e-5)
    assert_allclose(parts.X_test, (test - train.mean(axis=0)) / train.std(axis=0), rtol=1e-3)
    assert parts.X_train.dtype == np.float32


def test_raw_features_keep_split_and_values_and_nothing_is_changed_in_place(features):
    before = features.X.copy()
    prepare(features, FEATURES, preprocessing="paper")
    parts = prepare(features, FEATURES, preprocessing="raw")
    assert np.array_equal(features.X, before)
    assert np.array_equal(parts.X_train, before[:30])
    assert np.array_equal(parts.y_test, features.y[30:])


def test_rows_without_split_get_one(features):
    parts = split_rows(replace(features, n_train=None), pooled=False)
    assert (len(parts.X_train), len(parts.X_test)) == (40, 10)


def test_constant_feature_stays_finite(features):
    features.X[:, 1] = 7
    parts = prepare(features, FEATURES, preprocessing="paper")
    assert_allclose(parts.X_train[:, 1], 0)


def test_byte_features_are_read_by_their_scales():
    X = np.array([[0, 255], [255, 0], [51, 51]] * 10, dtype=np.uint8)
    scale = Quantization(np.float32([0, -1]), np.float32([1, 4]))
    raw = RawData(X, np.arange(30) % 3, 27, quantization=scale)
    parts = prepare(raw, FEATURES, preprocessing="raw")
    assert parts.X_train.dtype == np.float32
    assert_allclose(parts.X_train[:3], [[0, 4], [1, -1], [0.2, 0]], atol=1e-6)
    assert_allclose(prepare(raw, FEATURES, preprocessing="paper").X_train.std(axis=0), 1, rtol=1e-5)


def test_sparse_rows_are_standardized_like_dense_ones(features):
    dense = prepare(features, FEATURES, preprocessing="paper")
    loose = replace(features, X=sparse.csr_matrix(features.X))
    assert_allclose(prepare(loose, FEATURES, preprocessing="paper").X_test, dense.X_test, rtol=1e-5)
    assert sparse.issparse(prepare(loose, FEATURES, preprocessing="raw").X_test)


def test_documents_become_rows_of_mean_square_one_over_words_of_the_training_part():
    texts = np.array(["wheat the corn", "ship oil", "wheat ship", "wheat unseen"], dtype=object)
    raw = RawData(texts, np.array([0, 1, 0, 1]), 3)
    parts = prepare(raw, TEXT, preprocessing="paper")
    assert sparse.issparse(parts.X_train)
    assert parts.X_train.format == "csr"
    assert parts.X_train.dtype == np.float32
    assert parts.X_train.shape == (3, 4)  # wheat, corn, ship, oil; "the" is a stop word
    for part in (parts.X_train, parts.X_test):
        assert_allclose(part.power(2).mean(axis=1), 1, rtol=1e-6)
    assert parts.X_test.nnz == 1
    assert prepare(raw, TEXT, preprocessing="raw").X_train.tolist() == texts[:3].tolist()


def test_questions_keep_their_stop_words():
    raw = RawData(np.array(["why not", "how", "how"], dtype=object), np.array([0, 1, 1]), 2)
    found = prepare(raw, find_spec("banking77"), preprocessing="paper")
    assert found.X_train.shape == (2, 3)


def test_documents_without_words_are_refused():
    raw = RawData(np.array(["the", "!", "a"], dtype=object), np.array([0, 1, 1]), 2)
    with pytest.raises(InvalidDataError, match="hold no words"):
        prepare(raw, TEXT, preprocessing="paper")


@pytest.mark.parametrize(("n_train", "counts"), [(0, "0 for training"), (3, "0 for testing")])
def test_part_without_rows_is_refused(n_train, counts):
    raw = RawData(np.eye(3), np.arange(3), n_train)
    with pytest.raises(InvalidDataError, match=f"both parts must have rows, got .*{counts}"):
        prepare(raw, PIXELS, preprocessing="paper")


def test_class_too_small_to_split_is_refused():
    raw = RawData(np.eye(10), np.array([0] * 9 + [1]), None)
    with pytest.raises(InvalidDataError, match="10 rows cannot be split 80/20"):
        prepare(raw, FEATURES, preprocessing="paper")


def test_kept_classes_keep_labels_order_and_split(features):
    kept = keep_classes(features, [3, 1])
    assert kept.n_train == 12
    assert kept.y.tolist() == [1, 3] * 10
    assert np.array_equal(kept.X, features.X[np.isin(features.y, [1, 3])])


@pytest.mark.parametrize("classes", [[], [7], [0, 9]])
def test_unknown_classes_are_refused(features, classes):
    with pytest.raises(InvalidParameterError, match=r"classes must be taken from \[0, 1, 2, 3, 4\]"):
        keep_classes(features, classes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, "one whole number for each of the 3 rows of X, got float64"),
        ({"y": np.zeros(2, int)}, r"got int64 \(2,\)"),
        ({"X": np.array([["a"], ["b"], ["c"]])}, "X must be a table of numbers"),
        ({"X": np.zeros((3, 0))}, "at least one column"),
        ({"X": np.full((3, 2), np.nan)}, "X has 6 NaN or infinite values"),
        ({"X": sparse.csr_matrix(np.diag([1, np.inf, 1]))}, "X has 1 NaN or infinite values"),
        ({"quantization": Quantization(np.zeros(3), np.ones(3))}, "go with uint8 features"),
        (
            {"X": np.ones((3, 2), np.uint8), "quantization": Quantization(np.ones(2), np.ones(3))},
            r"with \(2,\) and \(3,\)",
        ),
    ],
)
def test_unusable_rows_are_named(change, message):
    raw = replace(RawData(np.eye(3), np.arange(3), 2), **change)
    with pytest.raises(InvalidDataError, match=f"file.npz: .*{message}"):
        check_raw(raw, source="file.npz")
