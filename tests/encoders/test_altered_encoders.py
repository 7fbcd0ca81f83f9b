"""Encoders that somebody altered in a saved model are refused before they encode anything."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spherepair.cli import main
from spherepair.encoders import TableEncoder, TextEncoder, pack_encoder, unpack_encoder
from spherepair.errors import ModelFileError
from spherepair.estimators.spherepair import SpherePair
from spherepair.persistence import _json_digest

TEXTS = [f"my card {n} was stolen" if n % 2 else f"a loan for house {n % 9}" for n in range(24)]


def packed() -> tuple[dict[str, Any], dict[str, Any]]:
    table = pd.DataFrame({"note": TEXTS, "city": list("abc") * 8, "age": np.arange(24.0)})
    encoder = TableEncoder({"note": "text"}, text_model="tfidf", progress=False).fit(table)
    return pack_encoder(encoder)


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, Any], dict[str, Any]]:
    return packed()


def states(value: Any, name: str) -> list[list[Any]]:
    """All saved states of objects of a class, each a list of attributes and values."""
    if isinstance(value, list):
        return [state for item in value for state in states(item, name)]
    if not isinstance(value, dict):
        return []
    inside = [state for item in value.values() for state in states(item, name)]
    return ([value["state"]["dict"]] if value.get("class") == name else []) + inside


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        ("TfidfVectorizer", "token_pattern", "(a+)+$"),  # would keep a regular expression busy for ever
        ("TfidfVectorizer", "tokenizer", "eval"),
        ("TfidfVectorizer", "transform", 1),  # in the place of a method
        ("TfidfVectorizer", "vocabulary_", {"vocabulary": ["card"]}),
        ("TfidfVectorizer", "ngram_range", {"tuple": [1, 10**9]}),
        ("TfidfTransformer", "idf_", [1.0]),
        ("TruncatedSVD", "components_", None),
        ("TextEncoder", "model_", "a/model/from/elsewhere"),
        ("TextEncoder", "_n_features_out", 2**40),
        ("ColumnPlan", "kind", "image"),
        ("ColumnPlan", "outputs", ["one"] * 99),
        ("ColumnPlan", "steps", []),
        ("ColumnPlan", "factor", {"objects": ["x"]}),
        ("TableEncoder", "plans_", {"tuple": []}),
        ("TableEncoder", "as_", {"dict": [["note", "code"]]}),
        ("OneHotEncoder", "categories_", [{"objects": ["a", "a"]}]),
        ("OneHotEncoder", "dtype", {"dtype": "datetime64[us]"}),
        ("SquashingScaler", "max_absolute_value", float("nan")),
    ],
)
def test_an_attribute_that_cannot_be_is_refused(whole: Any, kind: str, attribute: str, value: Any) -> None:
    manifest, arrays = copy.deepcopy(whole)
    state = states(manifest, kind)[0]
    state[:] = [pair for pair in state if pair[0] != attribute] + [[attribute, value]]
    with pytest.raises(ValueError, match=r"^[^\n]{1,300}$"):
        unpack_encoder(manifest, arrays)


def test_an_attribute_that_is_missing_is_named(whole: Any) -> None:
    manifest, arrays = copy.deepcopy(whole)
    state = states(manifest, "ColumnPlan")[0]
    state[:] = [pair for pair in state if pair[0] != "steps"]
    with pytest.raises(ValueError, match="ColumnPlan has no steps"):
        unpack_encoder(manifest, arrays)


@pytest.mark.parametrize("value", [{"a": 1, "b": 2}, {"os": []}, {"tuple": 5}, {"class": ["x"], "state": {}}])
def test_what_no_encoder_was_saved_as_is_refused(whole: Any, value: Any) -> None:
    manifest, arrays = copy.deepcopy(whole)
    manifest["row_encoder"]["encoder"] = value
    with pytest.raises((ValueError, ModelFileError)):
        unpack_encoder(manifest, arrays)


def test_an_encoder_as_it_was_saved_is_taken_up(whole: Any) -> None:
    manifest, arrays = whole
    assert pack_encoder(unpack_encoder(json.loads(json.dumps(manifest)), arrays))[0] == manifest


@pytest.mark.filterwarnings("ignore::spherepair.errors.SpherePairWarning")
def test_the_command_line_says_one_sentence(tmp_path: Any, capsys: Any) -> None:
    brief = {"hidden_dims": (4,), "pretraining": None, "max_epochs": 1, "random_state": 0, "progress": False}
    SpherePair(2, encoder=TextEncoder("tfidf"), **brief).fit(TEXTS).save(tmp_path / "model", rows=False)
    description = tmp_path / "model" / "model.json"
    manifest = json.loads(description.read_text())
    manifest.pop("sha256")
    states(manifest, "TfidfVectorizer")[0].append(["transform", 1])
    description.write_text(json.dumps(manifest | {"sha256": _json_digest(manifest)}))
    (tmp_path / "rows.csv").write_text("text\n" + "\n".join(TEXTS))
    code = main(
        ["predict", str(tmp_path / "model"), str(tmp_path / "rows.csv"), "-o", str(tmp_path / "l.csv")]
    )
    said = capsys.readouterr().err
    assert code == 2
    assert "TfidfVectorizer" in said
    assert "Traceback" not in said
