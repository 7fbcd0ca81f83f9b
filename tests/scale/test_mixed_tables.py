"""Data sets of mixed columns, labeled by a model that saved its encoder."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spherepair import Constraints, SpherePair, scale
from spherepair.encoders import TableEncoder, TextEncoder
from spherepair.errors import InvalidDataError, InvalidParameterError
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


def test_models_of_pictures_are_refused(model: SpherePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableEncoder, "used_columns", lambda self, kind=None: ["file"])
    with pytest.raises(InvalidDataError, match="this model takes pictures"):
        model_needs(model)
