from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from scipy import sparse
from sklearn.cluster import AgglomerativeClustering

import spherepair
from spherepair import Constraints, Schedule, SpherePair, Terms, load
from spherepair.baselines import CIDEC
from spherepair.errors import ConstraintWarning, InvalidParameterError, ModelFileError, SpherePairWarning
from spherepair.persistence import FORMAT_VERSION, _json_digest
from spherepair.training.optimization import SettledRule
from spherepair.training.pretraining import JointPretraining

PREDICT_ELSEWHERE = """
import sys
import numpy as np, pandas as pd
from pathlib import Path
from scipy import sparse
from spherepair import load
folder = Path(sys.argv[1])
rows = {
    "dense": np.load(folder / "rows.npy"),
    "sparse": sparse.load_npz(folder / "rows.npz"),
    "pandas": pd.read_csv(folder / "rows.csv"),
}
for name, X in rows.items():
    model = load(folder / name)
    np.savez(folder / f"{name}.npz", labels=model.predict(X), embedding=model.transform(X))
"""


def test_predictions_are_the_same_in_another_process(make: Any, X: Any, pairs: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcde"))
    tables = {"dense": X, "sparse": sparse.csr_array(X), "pandas": frame}
    models = {name: make("auto").fit(table, constraints=pairs) for name, table in tables.items()}
    for name, model in models.items():
        model.save(tmp_path / name)
    np.save(tmp_path / "rows.npy", X)
    sparse.save_npz(tmp_path / "rows.npz", tables["sparse"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    environment = os.environ | {"PYTHONPATH": str(Path(spherepair.__file__).parents[1])}
    subprocess.run(
        [sys.executable, "-c", PREDICT_ELSEWHERE, str(tmp_path)], check=True, env=environment, timeout=120
    )
    for name, model in models.items():
        there = np.load(tmp_path / f"{name}.npz")
        assert np.array_equal(there["labels"], model.labels_)
        assert np.array_equal(there["embedding"], model.transform(tables[name]))


@pytest.fixture
def folder(fitted: SpherePair, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_is_two_files(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == ["model.json", "weights.safetensors"]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_a_loaded_model_has_everything_but_the_rows(folder: Path, fitted: SpherePair) -> None:
    model = load(folder)
    for name in ("labels_", "embedding_", "cluster_centers_", "n_clusters_", "n_features_in_"):
        assert np.array_equal(getattr(model, name), getattr(fitted, name))
    assert model.history_ == fitted.history_
    assert model.constraints_ == fitted.constraints_
    assert model.get_params() == fitted.get_params() | {"device": "auto"}
    assert list(model.get_feature_names_out()) == list(fitted.get_feature_names_out())
    assert model.labels_.dtype == fitted.labels_.dtype


def test_a_loaded_model_can_be_saved_again(folder: Path, tmp_path: Path, X: Any) -> None:
    load(folder).save(tmp_path / "again")
    assert np.array_equal(load(tmp_path / "again").predict(X), load(folder).predict(X))


def test_the_inferred_number_of_clusters_is_kept(make: Any, X: Any, pairs: Any, tmp_path: Path) -> None:
    model = make("auto").fit(X, constraints=pairs)
    model.save(tmp_path / "model")
    number = load(tmp_path / "model").cluster_number_
    assert number.to_dict() == model.cluster_number_.to_dict()
    assert number.value == load(tmp_path / "model").n_clusters_


def test_settings_objects_survive(make: Any, X: Any, pairs: Any, tmp_path: Path) -> None:
    rule, pretraining = SettledRule(min_epochs=3), JointPretraining(epochs=1, min_steps=1)
    terms = Terms(must_link_weight=np.float32(2), neighbor_weight=0.1)
    schedule = Schedule(min_steps=np.int64(3), reconstruction_rows="all", ema=False)
    settings = {"stopping": rule, "pretraining": pretraining, "terms": terms, "schedule": schedule}
    model = make(hidden_dims=[16], **settings).fit(X, constraints=pairs)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert {name: getattr(loaded, name) for name in settings} == settings
    assert loaded.hidden_dims == (16,)
    assert loaded.fit(X, constraints=pairs).labels_.shape == (120,)


def test_code_is_not_saved_and_its_loss_is_told(make: Any, X: Any, pairs: Any, tmp_path: Path) -> None:
    own = {"clustering": AgglomerativeClustering(), "progress": lambda state: None}
    seed = np.random.RandomState(0)
    model = make(random_state=seed, **own).fit(X, constraints=pairs)
    model.save(tmp_path / "model")
    with pytest.warns(
        SpherePairWarning, match=r"clustering=AgglomerativeClustering\(\).*set_params"
    ) as caught:
        loaded = load(tmp_path / "model")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.refine(pairs, X).labels_.shape == (120,)


def test_an_encoder_has_to_be_given_again(make: Any, X: Any, pairs: Any, tmp_path: Path) -> None:
    encoder = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4))
    model = make(encoder=encoder).fit(X, constraints=pairs)
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="encoder=module"):
        load(tmp_path / "model")
    loaded = load(tmp_path / "model", encoder=encoder)
    assert np.array_equal(loaded.transform(X), model.embedding_)
    with pytest.raises(ModelFileError, match="not a complete model"):
        load(tmp_path / "model", encoder=torch.nn.Linear(5, 4))


def test_an_unknown_device_is_refused_on_load(folder: Path) -> None:
    with pytest.raises(InvalidParameterError, match="device must be"):
        load(folder, device="gpu")


def _edit(folder: Path, *, sign: bool = True, **changes: Any) -> None:
    content = json.loads((folder / "model.json").read_text())
    content |= changes
    if sign:
        content.pop("sha256")
        content["sha256"] = _json_digest(content)
    (folder / "model.json").write_text(json.dumps(content))


def _flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


#: Parameters of SpherePair 0.1.0 that are now elsewhere, in the form of its ``model.json``.
MOVED = {
    "must_link_weight": 2.5,
    "neighbor_weight": 0.1,
    "pseudo_pair_weight": 0.25,
    "averaging": False,
    "min_steps": 4,
    "reconstruction_rows": "all",
    "entailed_weight": 0.0,
    "on_conflict": "keep",
    "checkpoint": "somewhere/else",
}


def _as_saved_by_0_1(folder: Path, *, now_in_settings: tuple[str, ...] = (), **old: Any) -> None:
    """Write the description of a model as 0.1.0 wrote it."""
    parameters = json.loads((folder / "model.json").read_text())["parameters"]
    parameters = {name: value for name, value in parameters.items() if name not in now_in_settings} | old
    _edit(folder, format_version=1, spherepair_version="0.1.0", parameters=parameters)


def test_a_model_saved_by_0_1_has_its_parameters_in_the_settings(
    folder: Path, fitted: SpherePair, X: Any, pairs: Any
) -> None:
    _as_saved_by_0_1(folder, now_in_settings=("terms", "schedule"), **MOVED)
    loaded = load(folder)
    assert loaded.terms == Terms(must_link_weight=2.5, neighbor_weight=0.1, pseudo_pair_weight=0.25)
    assert loaded.schedule == Schedule(min_steps=4, reconstruction_rows="all", ema=False)
    others = {"terms", "schedule", "device"}
    expected, found = fitted.get_params(), loaded.get_params()
    assert {k: v for k, v in found.items() if k not in others} == {
        k: v for k, v in expected.items() if k not in others
    }
    assert np.array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.refine(pairs, X).labels_.shape == (120,)


def test_a_model_saved_by_0_1_with_entailed_pairs_says_what_to_do_instead(folder: Path, X: Any) -> None:
    _as_saved_by_0_1(folder, now_in_settings=("terms", "schedule"), **MOVED | {"entailed_weight": 0.5})
    with pytest.warns(
        SpherePairWarning, match=r"entailed_weight.* is gone.*constraints\.closure\(\)"
    ) as caught:
        loaded = load(folder)
    assert caught[0].filename == __file__
    assert loaded.predict(X).shape == (120,)


def test_a_baseline_saved_by_0_1_loads(X: Any, pairs: Any, tmp_path: Path) -> None:
    """CIDEC's own ``must_link_weight`` stays a parameter."""
    model = CIDEC(3, hidden_dims=(8,), pretraining=None, max_epochs=1, must_link_weight=0.3, random_state=0)
    model.fit(X, constraints=pairs).save(tmp_path / "model")
    _as_saved_by_0_1(tmp_path / "model", on_conflict="raise", checkpoint=None)
    loaded = load(tmp_path / "model")
    assert loaded.must_link_weight == 0.3
    assert np.array_equal(loaded.predict(X), model.labels_)


def test_old_parameters_in_a_model_of_this_version_are_refused(folder: Path) -> None:
    parameters = json.loads((folder / "model.json").read_text())["parameters"]
    _edit(folder, parameters=parameters | {"averaging": True})
    with pytest.raises(ModelFileError, match=r"not a complete model .*averaging"):
        load(folder)


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


DAMAGES = {
    "truncated weights": (
        lambda d: os.truncate(d / "weights.safetensors", 1000),
        "weights.safetensors is truncated",
    ),
    "a flipped bit of the weights": (lambda d: _flip(d / "weights.safetensors", -40), "altered"),
    "missing weights": (lambda d: (d / "weights.safetensors").unlink(), "has no weights.safetensors"),
    "missing description": (lambda d: (d / "model.json").unlink(), "has no model.json"),
    "truncated description": (lambda d: os.truncate(d / "model.json", 50), "model.json cannot be read"),
    "edited description": (lambda d: _edit(d, sign=False, seed=5), "model.json was altered"),
    "a later format": (lambda d: _edit(d, format_version=FORMAT_VERSION + 1), "saved in format 3"),
    "no format": (lambda d: _edit(d, format_version=None), "saved in format None"),
    "a list": (lambda d: (d / "model.json").write_text("[1]"), "not the description of a model"),
    "deep nesting": (lambda d: (d / "model.json").write_text("[" * 100_000), "cannot be read"),
    "bytes": (lambda d: (d / "model.json").write_bytes(b"\xff\xfe\x00"), "cannot be read"),
    "a pickled description": (
        lambda d: (d / "model.json").write_bytes(pickle.dumps(Bomb())),
        "cannot be read",
    ),
    "pickled weights": (lambda d: torch.save(Bomb(), d / "weights.safetensors"), "altered"),
    "an unknown class": (lambda d: _edit(d, estimator="os.system"), "'os.system', which this version"),
    "no parameters": (lambda d: _edit(d, parameters=None), "not a complete model"),
    "a parameter of an unknown class": (
        lambda d: _edit(d, parameters={"stopping": {"class": "Popen", "args": "ls"}}),
        "not a complete model",
    ),
    "a number that is none": (lambda d: _edit(d, embedding_dim="x"), "not a complete model"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused_and_nothing_executed(
    damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    spoil, message = DAMAGES[damage]
    spoil(folder)
    with pytest.raises(ModelFileError, match=message):
        load(folder)
    assert not Path("exploded").exists()


def test_pickled_weights_are_not_executed_even_with_a_right_digest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spherepair.persistence import _digest

    monkeypatch.chdir(folder.parent)
    torch.save(Bomb(), folder / "weights.safetensors")
    _edit(folder, weights_sha256=_digest(folder / "weights.safetensors"))
    with pytest.raises(ModelFileError, match=r"weights\.safetensors"):
        load(folder)
    assert not Path("exploded").exists()


def test_what_is_no_model_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for name, why in (("file", "is a file"), ("nowhere", "does not exist"), (".", r"has no model\.json")):
        with pytest.raises(ModelFileError, match=why):
            load(tmp_path / name)


def test_saving_replaces_an_older_model(folder: Path, make: Any, X: Any, pairs: Any) -> None:
    other = make(random_state=1).fit(X, constraints=pairs)
    other.save(folder)
    assert np.array_equal(load(folder).embedding_, other.embedding_)
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_saving_never_removes_files_of_others(fitted: SpherePair, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelFileError, match=r"holds other files \(thesis\.tex\)"):
        fitted.save(tmp_path)
    with pytest.raises(ModelFileError, match="is a file"):
        fitted.save(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_saving_into_the_current_or_a_linked_folder(
    fitted: SpherePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "real" / "model.json").exists()
    monkeypatch.chdir(tmp_path / "real")
    fitted.save(".")
    assert load(tmp_path / "link").n_clusters_ == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


def test_saving_makes_missing_folders(fitted: SpherePair, tmp_path: Path) -> None:
    fitted.save(str(tmp_path / "a" / "b"))
    assert load(str(tmp_path / "a" / "b")).n_clusters_ == 3


@pytest.mark.parametrize("failing", ["weights", "description", "between the last steps", "last step"])
def test_an_interrupted_save_leaves_the_older_model(
    failing: str, folder: Path, make: Any, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load(folder).embedding_
    other = make(random_state=1, max_epochs=1).fit(X, constraints=pairs)
    replace = os.replace

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    def interrupt_last(source: Path, target: Path) -> None:
        if Path(source).suffix == ".tmp":
            raise KeyboardInterrupt
        replace(source, target)

    def interrupt_between(source: Path, target: Path) -> None:
        replace(source, target)
        if Path(target).suffix == ".old":
            raise KeyboardInterrupt

    if failing == "weights":
        monkeypatch.setattr(safetensors.torch, "save_file", interrupt)
    elif failing == "description":
        monkeypatch.setattr(Path, "write_text", interrupt)
    else:
        wanted = interrupt_last if failing == "last step" else interrupt_between
        monkeypatch.setattr(os, "replace", wanted)
        monkeypatch.setattr("spherepair.files._exchange", lambda *_: False)  # as where it cannot be had
    with pytest.raises(KeyboardInterrupt):
        other.save(folder)
    monkeypatch.undo()
    assert np.array_equal(load(folder).embedding_, before)
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_pairs_of_a_loaded_model_know_their_rows_of_the_file(make: Any, X: Any, tmp_path: Path) -> None:
    pairs = Constraints.from_arrays([0, 1, 2], [3, 4, 5], [True, False, True], source_row=[7, 12, 9])
    with pytest.warns(ConstraintWarning):
        make().fit(X, constraints=pairs).save(tmp_path / "model")
    assert load(tmp_path / "model").constraints_.source_row.tolist() == pairs.source_row.tolist()


def test_a_model_that_is_replaced_while_it_is_read_is_the_old_or_the_new_one(
    folder: Path, make: Any, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make(random_state=1, max_epochs=1).fit(X, constraints=pairs)
    read, n_read = Path.read_bytes, []

    def read_and_replace(file: Path) -> bytes:
        found = read(file)
        if file.name == "model.json":
            n_read.append(file)
            if len(n_read) == 1:
                other.save(folder)  # its weights do not belong to what was just read
        return found

    monkeypatch.setattr(Path, "read_bytes", read_and_replace)
    found = load(folder)
    assert len(n_read) == 2
    assert np.array_equal(found.embedding_, other.embedding_)
    assert np.array_equal(found.transform(X), other.transform(X))


def test_a_model_whose_save_was_killed_between_the_last_steps_loads(folder: Path, fitted: SpherePair) -> None:
    folder.rename(folder.with_name(".model.1a2b3c4d.old"))
    assert np.array_equal(load(folder).embedding_, fitted.embedding_)
    fitted.save(folder)
    assert np.array_equal(load(folder).embedding_, fitted.embedding_)


def test_a_network_that_is_no_longer_what_the_parameters_say_is_not_saved(
    folder: Path, fitted: SpherePair, X: Any, pairs: Any
) -> None:
    model = load(folder)
    model.set_params(hidden_dims=(3, 4))
    with pytest.raises(InvalidParameterError, match="hidden_dims"):
        model.save(folder)
    assert np.array_equal(load(folder).embedding_, fitted.embedding_)
