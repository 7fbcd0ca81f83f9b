"""A saved model keeps who gave its pairs, when, and how sure."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from spherepair import Constraints, SpherePair, load
from spherepair.persistence import decode_details


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(60, n_features=4, centers=2, random_state=0)


def fitted(X, pairs):
    model = SpherePair(
        2, hidden_dims=(8,), batch_size=64, max_epochs=1, pretraining=None, random_state=0, progress=False
    )
    return model.fit(X, constraints=pairs)


def pairs_of(y, **details):
    drawn = Constraints.from_labels(y, 300, random_state=0)
    return Constraints.from_arrays(drawn.left, drawn.right, drawn.is_must_link, **details)


def test_persons_times_and_values_survive_saving(blobs, tmp_path):
    X, y = blobs
    by = np.array(["ann", "bob", "", "cem"])[np.arange(300) % 4]
    time = np.where(by == "ann", "2026-03-31T09:30:00+00:00", "")
    value = np.where(pairs_of(y).is_must_link, 0.875, 0.1)
    pairs = pairs_of(y, by=by, time=time, value=value)
    fitted(X, pairs).save(tmp_path / "model")
    kept = load(tmp_path / "model").constraints_
    assert kept == pairs
    assert kept.by.tolist() == by.tolist()
    assert kept.value.tolist() == value.tolist()
    manifest = json.loads((tmp_path / "model" / "model.json").read_text())
    assert manifest["pair_texts"]["by"] == ["", "ann", "bob", "cem"]


def test_pairs_without_them_are_saved_without_them(blobs, tmp_path):
    X, y = blobs
    fitted(X, pairs_of(y)).save(tmp_path / "model")
    assert tuple(load(tmp_path / "model").constraints_.details) == (None, None, None)
    assert json.loads((tmp_path / "model" / "model.json").read_text())["pair_texts"] == {}


def test_refining_keeps_those_of_earlier_and_new_pairs(blobs):
    X, y = blobs
    pairs = pairs_of(y, by="ann")
    model = fitted(X, pairs[:200]).refine(
        Constraints.from_arrays(pairs.left[200:], pairs.right[200:], pairs.is_must_link[200:], by="bob")
    )
    assert model.constraints_.by.tolist() == ["ann"] * 200 + ["bob"] * 100


def test_models_that_were_saved_before_there_were_any_load():
    assert decode_details({"estimator": "SpherePair"}, {"pairs.left": np.arange(3)}) == {"value": None}
