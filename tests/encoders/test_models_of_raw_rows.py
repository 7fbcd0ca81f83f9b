"""A model with an encoder takes texts, pictures and mixed tables wherever it takes rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from spherepair import Constraints, SpherePair, load
from spherepair.encoders import ImageEncoder, TableEncoder, TextEncoder
from spherepair.errors import InvalidDataError, InvalidParameterError

SMALL: dict[str, Any] = {
    "hidden_dims": (16,),
    "pretraining": None,
    "max_epochs": 15,
    "batch_size": 64,
    "random_state": 0,
    "progress": False,
}


@pytest.fixture
def topics(texts: list[str]) -> Any:
    return (np.arange(len(texts)) % 8 >= 4).astype(int)


def pairs_of(y: Any, n: int = 200) -> Constraints:
    return Constraints.from_labels(y, n_pairs=n, random_state=0)


def accuracy(labels: Any, y: Any) -> float:
    return max(accuracy_score(y, labels), accuracy_score(y, 1 - labels))


def test_texts_from_fit_to_a_loaded_model(texts: list[str], topics: Any, tmp_path: Path) -> None:
    model = SpherePair(2, encoder=TextEncoder("tfidf"), **SMALL).fit(texts, constraints=pairs_of(topics))
    assert accuracy(model.labels_, topics) > 0.95
    new = ["where is my card", "I want a loan"]
    labels = model.predict(new)
    assert labels[0] != labels[1]
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict(texts), model.labels_)
    assert np.array_equal(loaded.predict_proba(new), model.predict_proba(new))
    assert np.array_equal(loaded.transform(new), model.transform(new))
    assert loaded.encoder.get_params() == model.encoder.get_params()
    pairs = pairs_of(topics, 220)
    assert loaded.score_pairs(pairs, texts) == model.score_pairs(pairs, texts)
    assert len(loaded.refine(pairs, texts).labels_) == len(texts)


def test_an_encoder_is_copied_and_left_as_it_was(texts: list[str], topics: Any) -> None:
    encoder = TextEncoder("tfidf")
    model = SpherePair(2, encoder=encoder, **SMALL).fit(texts, constraints=pairs_of(topics))
    assert not hasattr(encoder, "model_")
    assert clone(model).encoder.get_params() == encoder.get_params()
    with pytest.raises(InvalidDataError, match="texts are empty"):
        model.predict(["", "a card"])


def test_mixed_tables(table: pd.DataFrame, tmp_path: Path) -> None:
    y = (table["city"] == "Rome").to_numpy().astype(int)
    encoder = TableEncoder(["category:zip"], drop=["note"])
    model = SpherePair(2, encoder=encoder, **SMALL).fit(table, constraints=pairs_of(y, 400))
    assert accuracy(model.labels_, y) > 0.9
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict(table), model.labels_)
    reordered = table[sorted(table.columns)].assign(further=1)
    assert np.array_equal(loaded.predict(reordered), model.labels_)
    assert loaded.encoder_.describe() == model.encoder_.describe()


def test_weights_of_columns_are_not_undone_by_scaling(table: pd.DataFrame) -> None:
    encoder = TableEncoder(text_model="tfidf")
    y = table["vip"].to_numpy().astype(int)
    model = SpherePair(2, encoder=encoder, **SMALL).fit(table, constraints=pairs_of(y))
    assert np.ptp(model._scaling.factor) == 0.0


def test_pictures(photos: Path, tmp_path: Path) -> None:
    y = np.repeat([0, 1], 6)
    small = {**SMALL, "batch_size": 16}
    model = SpherePair(2, encoder=ImageEncoder("pixels"), **small).fit(photos, constraints=pairs_of(y, 40))
    assert accuracy(model.labels_, y) == 1.0
    model.save(tmp_path / "model")
    files = sorted(str(file) for file in (photos / "red").iterdir())
    assert np.array_equal(load(tmp_path / "model").predict(files), model.labels_[6:])


def test_a_checkpoint_of_a_fit_with_an_encoder(texts: list[str], topics: Any, tmp_path: Path) -> None:
    def fit() -> SpherePair:
        model = SpherePair(2, encoder=TextEncoder("tfidf"), **SMALL)
        return model.fit(texts, constraints=pairs_of(topics), checkpoint=tmp_path / "checkpoint")

    assert np.array_equal(fit().labels_, fit().labels_)


def test_the_model_folder_says_what_encodes(texts: list[str], topics: Any, tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    model = SpherePair(2, encoder=TextEncoder("wordllama"), **SMALL).fit(texts, constraints=pairs_of(topics))
    model.save(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    state = dict(content["row_encoder"]["encoder"]["state"]["dict"])
    identity = dict(state["identity_"]["dict"])
    assert identity["name"] == identity["package"] == "wordllama"
    assert len(identity["sha256"]) == 64


def test_what_is_no_encoder_is_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidParameterError, match="'encoder' parameter"):
        SpherePair(2, encoder="tfidf", **SMALL).fit(texts)
