"""Data sets of mixed columns, labeled by a model that saved its encoder."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from spherepair import Constraints, SpherePair, scale
from spherepair.encoders import TableEncoder, TextEncoder
from spherepair.errors import InvalidDataError, InvalidParameterError, SpherePairError
from spherepair.files.untrusted import SourceFile
from spherepair.metrics import clustering_accuracy
from spherepair.scale.labeling import model_needs


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    color = np.array(["red", "green", "blue"])[y]
    return pa.table({"id": range(120), "size": rng.normal(size=120) + 5 * y, "color": color})


@pytest.fixture(scope="module")
def model(table: pa.Table) -> SpherePair:
    pairs = Constraints.from_labels(np.arange(120) % 3, n_pairs=100, random_state=0)
    short = {"hidden_dims": (8,), "pretraining": None, "max_epochs": 2, "batch_size": 32, "random_state": 0}
    fresh = SpherePair(3, encoder=TableEncoder({"color": "category"}), **short)
    return fresh.fit(table.drop_columns(["id"]), constraints=pairs)


def test_mixed_columns_are_encoded_in_every_part(table: pa.Table, model: SpherePair, tmp_path: Path) -> None:
    model.save(tmp_path / "model", rows=False)
    (tmp_path / "rows").mkdir()
    pq.write_table(table.slice(0, 70), tmp_path / "rows" / "a.parquet")
    pa_csv.write_csv(table.slice(70), tmp_path / "rows" / "b.csv")
    done = scale.predict(tmp_path / "rows", model=tmp_path / "model", out=tmp_path / "out", workers=1)
    found = [pq.read_table(tmp_path / "out" / name)["label"] for name in ("a.parquet", "b.csv.parquet")]
    assert done.n_rows == 120
    np.testing.assert_array_equal(np.concatenate(found), model.labels_)


def test_a_fit_on_a_data_set_encodes_its_sample(table: pa.Table, model: SpherePair, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(table.slice(0, 70), tmp_path / "rows" / "a.parquet")
    pa_csv.write_csv(table.slice(70), tmp_path / "rows" / "b.csv")
    fitted = scale.fit(
        tmp_path / "rows", model.constraints_, model=tmp_path / "model", estimator=model, drop=["id"],
        keep="labels", out=tmp_path / "out", workers=1,
    )  # fmt: skip
    np.testing.assert_array_equal(fitted.labels_, model.labels_)
    assert pq.read_table(tmp_path / "out" / "a.parquet").num_rows == 70
    texts = SpherePair(3, encoder=TextEncoder())
    with pytest.raises(InvalidParameterError, match="takes a TableEncoder"):
        scale.fit(tmp_path / "rows", model.constraints_, model=tmp_path / "model", estimator=texts)


def png(color: tuple[int, int, int], noise: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(noise).integers(0, 60, (6, 8, 3), np.uint8) + np.uint8(color)).save(
        stream, "PNG"
    )
    return stream.getvalue()


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[Path, list[bytes], np.ndarray]:
    """Sixty pictures in a folder; a parquet and a csv file beside it that name them."""
    y = np.arange(60) % 2
    contents = [png((180, 0, 0) if one else (0, 0, 180), noise) for noise, one in enumerate(y)]
    (tmp_path / "rows" / "photos").mkdir(parents=True)
    names = [f"photos/{k}.png" for k in range(60)]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / "rows" / name).write_bytes(content)
    table = pa.table({"id": range(60), "photo": names})
    pq.write_table(table.slice(0, 40), tmp_path / "rows" / "a.parquet", row_group_size=10)
    pa_csv.write_csv(table.slice(40), tmp_path / "rows" / "b.csv")
    return tmp_path / "rows", contents, y


def fit_on_pictures(rows: Path, y: np.ndarray, model: Path) -> SpherePair:
    pairs = Constraints.from_labels(y, n_pairs=100, random_state=0)
    short = {"hidden_dims": (8,), "pretraining": None, "max_epochs": 4, "batch_size": 32, "random_state": 0}
    fresh = SpherePair(2, encoder=TableEncoder({"photo": "image"}), **short)
    return scale.fit(rows, pairs, model=model, estimator=fresh, drop=["id"])


def test_pictures_are_encoded_in_every_part(pictures: Any, tmp_path: Path) -> None:
    rows, contents, y = pictures
    fitted = fit_on_pictures(rows, y, tmp_path / "model")
    (tmp_path / "within").mkdir()
    inside = pa.table({"id": range(60), "photo": pa.array(contents, pa.binary())})
    pq.write_table(inside, tmp_path / "within" / "a.parquet")
    found = {}
    for name in ("rows", "within"):
        out = tmp_path / f"{name}-out"
        done = scale.predict(tmp_path / name, model=tmp_path / "model", out=out, workers=1)
        assert done.n_rows == 60
        found[name] = pq.read_table(out)["label"].to_numpy()
    np.testing.assert_array_equal(found["rows"], found["within"])
    np.testing.assert_array_equal(found["rows"], fitted.predict(inside.select(["photo"])))
    assert clustering_accuracy(y, found["rows"]) == 1.0


def test_pictures_that_are_not_there_are_named_with_their_part(pictures: Any, tmp_path: Path) -> None:
    rows, _, y = pictures
    fit_on_pictures(rows, y, tmp_path / "model")
    (rows / "photos").rename(tmp_path / "elsewhere")
    with pytest.raises(
        SpherePairError, match=r"part a.parquet .*none of the pictures in column 'photo' is th"
    ):
        scale.predict(rows, model=tmp_path / "model", out=tmp_path / "out", workers=1)
    (tmp_path / "elsewhere").rename(rows / "photos")
    (rows / "photos" / "7.png").write_bytes(b"no picture")
    with pytest.raises(SpherePairError, match=r"part a.parquet .*photo"):
        scale.predict(rows, model=tmp_path / "model", out=tmp_path / "out", workers=1)
    assert not (tmp_path / "out" / "a.parquet").exists()


def test_names_of_pictures_are_found_whatever_type_they_have(pictures: Any, tmp_path: Path) -> None:
    rows, _, y = pictures
    fit_on_pictures(rows, y, tmp_path / "model")
    table = pq.read_table(rows / "a.parquet")
    coded = table.set_column(1, "photo", table["photo"].combine_chunks().dictionary_encode())
    pq.write_table(coded, rows / "c.parquet")
    for name in ("a", "c"):
        given = {"model": tmp_path / "model", "out": tmp_path / name, "workers": 1}
        scale.predict(rows / f"{name}.parquet", **given)
    same = [pq.read_table(tmp_path / name)["label"].to_pylist() for name in ("a", "c")]
    assert same[0] == same[1]
    assert set(same[0]) == {0, 1}
    pq.write_table(table.set_column(1, "photo", pa.array(range(40))), rows / "d.parquet")
    with pytest.raises(SpherePairError, match=r"part d.parquet .*none of the pictures"):
        scale.predict(rows / "d.parquet", model=tmp_path / "model", out=tmp_path / "d", workers=1)


def test_a_few_pictures_may_lack_where_empty_ones_are_kept(pictures: Any, tmp_path: Path) -> None:
    rows, _, y = pictures
    pairs = Constraints.from_labels(y, n_pairs=100, random_state=0)
    encoder = TableEncoder({"photo": "image"}, keep_empty=True)
    short = {"hidden_dims": (8,), "pretraining": None, "max_epochs": 2, "batch_size": 32, "random_state": 0}
    fresh = SpherePair(2, encoder=encoder, **short)
    scale.fit(rows, pairs, model=tmp_path / "model", estimator=fresh, drop=["id"])
    for path in sorted(rows.glob("[ab].*")):
        path.unlink()
    pq.write_table(pa.table({"photo": [None, "photos/gone.png"]}), rows / "a.parquet")
    assert scale.predict(rows, model=tmp_path / "model", out=tmp_path / "out", workers=1).n_rows == 2


def test_batches_hold_the_contents_of_pictures(pictures: Any, tmp_path: Path) -> None:
    rows, contents, y = pictures
    fit_on_pictures(rows, y, tmp_path / "model")
    label = scale.predict_fn(tmp_path / "model")
    whole = pa.table({"photo": pa.array(contents, pa.binary())})
    assert label(whole).num_rows == 60
    assert len(label(whole.to_pandas().iloc[:0])) == 0
    with pytest.raises(InvalidDataError, match="give the contents of the pictures"):
        label(pa.table({"photo": [str(rows / "photos" / "0.png")]}))


def test_a_column_of_pictures_that_is_not_read_is_one_sentence(pictures: Any, tmp_path: Path) -> None:
    rows, _, y = pictures
    pairs = Constraints.from_labels(y, n_pairs=100, random_state=0)
    for source in (rows, rows / "b.csv"):
        fresh = SpherePair(2, encoder=TableEncoder({"foto": "image"}))
        with pytest.raises(InvalidDataError, match="has no column 'foto' of pictures"):
            scale.fit(source, pairs, model=tmp_path / "model", estimator=fresh)


def test_no_file_is_opened_because_of_a_name_from_elsewhere(
    pictures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _, y = pictures
    fit_on_pictures(rows, y, tmp_path / "model")
    monkeypatch.setattr(SourceFile, "is_local", False)
    with pytest.raises(SpherePairError, match="put their contents into the column"):
        scale.predict(rows / "a.parquet", model=tmp_path / "model", out=tmp_path / "out", workers=1)


def test_models_of_texts_without_columns_are_refused(model: SpherePair) -> None:
    model.encoder_ = TextEncoder()
    with pytest.raises(InvalidDataError, match="without named columns"):
        model_needs(model)
