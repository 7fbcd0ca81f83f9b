from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from spherepair import Constraints, SpherePair, load
from spherepair.encoders import TableEncoder, TextEncoder
from spherepair.errors import InvalidDataError, InvalidParameterError

CARD = ["my card was stolen", "the card is lost", "card declined in a shop", "a new card please"]
LOAN = ["how do I get a loan", "a loan for my house", "loan rates are high", "pay back the loan"]
MESSAGES = [f"{text} {k}" for k in range(10) for text in (*CARD, *LOAN)]
KIND = np.tile(np.repeat([0, 1], 4), 10)


@pytest.fixture(scope="module")
def texts(make: Any) -> SpherePair:
    pairs = Constraints.from_labels(KIND, 300, random_state=0)
    return make(2, encoder=TextEncoder("tfidf")).fit(MESSAGES, constraints=pairs)


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    return pd.DataFrame(
        {
            "noise": rng.normal(size=80),
            "age": np.where(y == 0, 20.0, 60.0) + rng.normal(size=80),
            "city": np.where(y == 0, "Rome", "Oslo"),
        }
    )


@pytest.fixture(scope="module")
def mixed(make: Any, table: Any) -> SpherePair:
    pairs = Constraints.from_labels(np.arange(80) % 2, 300, random_state=0)
    return make(2, encoder=TableEncoder()).fit(table, constraints=pairs)


def test_groups_of_texts_are_named_by_their_words(texts: SpherePair) -> None:
    names = texts.group_names_
    assert names[texts.labels_[0]].split(", ")[0] == "card"
    assert names[texts.labels_[4]].split(", ")[0] == "loan"


def test_groups_of_a_table_are_named_by_values(mixed: SpherePair) -> None:
    words = set(mixed.group_names_[mixed.labels_[0]].replace(",", "").split())
    assert words & {"age", "Rome"}
    assert "noise" not in words


def test_rows_that_name_groups_may_be_a_stream(mixed: SpherePair, table: Any) -> None:
    names = list(mixed.group_names_)
    rows = pa.Table.from_pandas(table, preserve_index=False)
    assert copy.deepcopy(mixed).name_groups(X=rows.to_reader(20)).group_names_ == names


def test_columns_without_names_name_no_group(fitted: SpherePair) -> None:
    assert fitted.group_names_ == ["group 0", "group 1", "group 2"]


def test_words_of_a_sparse_matrix_are_given(make: Any) -> None:
    vectorizer = TfidfVectorizer()
    X = sparse.csr_matrix(vectorizer.fit_transform(MESSAGES))
    pairs = Constraints.from_labels(KIND, 300, random_state=0)
    model = make(2).fit(X, constraints=pairs)
    words = vectorizer.get_feature_names_out().tolist()
    model.name_groups(X=X, feature_names=words)
    assert model.group_names_[model.labels_[0]].split(", ")[0] == "card"
    why = model.explain(X[0], feature_names=words)
    assert why.influences[0].name in {"card", "stolen", "was", "my"}


def test_given_names_stay_through_saving_and_refining(texts: SpherePair, tmp_path: Path) -> None:
    texts.save(tmp_path / "m")
    model = load(tmp_path / "m").name_groups({0: "first"})
    other = model.group_names_[1]
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.group_names_ == ["first", other]
    again.refine(Constraints.from_labels(KIND, 40, random_state=5), MESSAGES)
    assert again.group_names_ == ["first", other]
    with pytest.raises(InvalidParameterError, match="there is no cluster 2"):
        model.name_groups({2: "third"})


def test_a_text_is_explained_by_its_words(texts: SpherePair) -> None:
    why = texts.explain(["the card of my house is lost"])
    assert why.label == texts.predict(["the card of my house is lost"])[0] == texts.labels_[0]
    effects = {influence.name: influence.effect for influence in why.influences}
    assert effects["card"] > 0 > effects.get("house", -1.0)
    sizes = [abs(influence.effect) for influence in why.influences]
    assert sizes == sorted(sizes, reverse=True)
    assert {texts.labels_[row] for row in why.typical_rows} == {why.label}
    assert why.runner_up == 1 - why.label
    assert 0.5 < why.confidence <= 1.0
    assert texts.explain(["card"]).influences == ()


def test_a_row_of_a_table_is_explained_by_its_columns(mixed: SpherePair, table: Any) -> None:
    why = mixed.explain(table.iloc[:1])
    assert {influence.name for influence in why.influences} == {"noise", "age", "city"}
    assert why.influences[-1].name == "noise"


def test_the_answers_about_a_row_come_first(fitted: SpherePair, X: Any) -> None:
    own = fitted.constraints_[0]
    why = fitted.explain(X[own.left : own.left + 1])
    assert own.left in {end for answer in why.answers for end in (answer.left, answer.right)}
    assert len(why.answers) == len(why.typical_rows) == len(why.influences) == 5


def test_answers_that_are_likely_wrong_explain_nothing(fitted: SpherePair, X: Any) -> None:
    own, model = fitted.constraints_[0], copy.copy(fitted)
    model.pair_weights_ = np.where(np.arange(len(fitted.constraints_)) == 0, 0.1, 1.0)
    answers = model.explain(X[own.left : own.left + 1], n_examples=1000).answers
    assert len(answers) == len(fitted.constraints_) - 1
    assert (own.left, own.right) not in {(answer.left, answer.right) for answer in answers}


def test_one_row_at_a_time(fitted: SpherePair, X: Any) -> None:
    with pytest.raises(InvalidDataError, match="one row at a time, got 2"):
        fitted.explain(X[:2])
    with pytest.raises(InvalidDataError, match="the 120 rows of the fit"):
        fitted.name_groups(X=X[:5])
