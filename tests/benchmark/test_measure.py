"""One run, and the autoencoders that runs share."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spherepair import Constraints, SpherePair
from spherepair.benchmark.measure import (
    Rows,
    SharedPretraining,
    data_identity,
    measure_run,
    share_pretraining,
)
from spherepair.benchmark.runs import PairChoice, RunSpec, content_key
from spherepair.networks import build_autoencoder
from spherepair.training.hardware import Hardware, choose_hardware
from spherepair.training.pretraining import JointPretraining, StackedPretraining

JOINT = JointPretraining(epochs=2, min_steps=2)
TABLE = SimpleNamespace(n_rows=10)
STACKED = StackedPretraining(layer_epochs=1, epochs=1)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = (rng.normal(size=(90, 6)) + 4 * np.eye(3)[y].repeat(2, axis=1)).astype(np.float32)
    return X, Constraints.from_labels(y, 300, random_state=0)


def fit(rows, folder, *, pretraining, seed=0, **parameters):
    X, pairs = rows
    options = {"hidden_dims": (8,), "max_epochs": 2, "stopping": "fixed", "device": "cpu", **parameters}
    model = SpherePair(3, pretraining=pretraining, random_state=seed, progress=False, **options)
    shared = None if folder is None else share_pretraining(model, {"dataset": "blobs"}, folder)
    model.fit(X, constraints=pairs)
    return model, shared


def kept(folder):
    return sorted(folder.glob("*.safetensors"))


def test_joint_pretraining_shared_gives_the_very_numbers_of_one_that_is_not(rows, tmp_path):
    alone, _ = fit(rows, None, pretraining=JOINT)
    first, made = fit(rows, tmp_path, pretraining=JOINT)
    second, found = fit(rows, tmp_path, pretraining=JOINT)
    assert (made.was_made_here, found.was_made_here) == (True, False)
    assert found.seconds == made.seconds > 0
    for model in (first, second):
        np.testing.assert_array_equal(model.embedding_, alone.embedding_)
        stages = [record["stage"] for record in model.history_]
        assert stages == [record["stage"] for record in alone.history_]


def test_joint_pretraining_is_not_shared_between_seeds(rows, tmp_path):
    fit(rows, tmp_path, pretraining=JOINT, seed=0)
    fit(rows, tmp_path, pretraining=JOINT, seed=1)
    assert len(kept(tmp_path)) == 2


def test_stacked_pretraining_is_made_once_for_all_seeds(rows, tmp_path):
    _, first = fit(rows, tmp_path, pretraining=STACKED, seed=0)
    _, second = fit(rows, tmp_path, pretraining=STACKED, seed=1)
    assert (first.was_made_here, second.was_made_here) == (True, False)
    weights = kept(tmp_path)[0].read_bytes()
    kept(tmp_path)[0].unlink()
    fit(rows, tmp_path, pretraining=STACKED, seed=1)
    # Whoever makes it makes the same: what differs are the seconds in the header.
    assert kept(tmp_path)[0].read_bytes()[-1000:] == weights[-1000:]


@pytest.mark.parametrize(
    "other",
    [{"embedding_dim": 12}, {"hidden_dims": (9,)}, {"scaling": "standard"}, {"precision": "bfloat16"}],
    ids=["embedding", "network", "scaling", "precision"],
)
def test_what_cannot_be_shared_is_not(rows, tmp_path, other):
    usual = {"scaling": "none", "precision": "float32"}
    fit(rows, tmp_path, pretraining=STACKED, **usual)
    fit(rows, tmp_path, pretraining=STACKED, **(usual | other))
    assert len(kept(tmp_path)) == 2


def test_plain_and_spherical_autoencoders_have_keys_of_their_own(tmp_path):
    shared = SharedPretraining(STACKED, {}, tmp_path, seed=0)
    plain, spherical = (build_autoencoder(4, 2, hidden_dims=(3,), spherical=s) for s in (False, True))
    session = SimpleNamespace(seed=0, hardware=choose_hardware("cpu", "float32"))
    assert shared._identity(plain, TABLE, session) != shared._identity(spherical, TABLE, session)


@pytest.mark.parametrize(
    "other", [Hardware(torch.device("cuda", 0), "float32"), Hardware(torch.device("cpu"), "bfloat16")]
)
def test_other_kinds_of_device_and_precisions_have_keys_of_their_own(tmp_path, other):
    shared = SharedPretraining(STACKED, {}, tmp_path, seed=0)
    network = build_autoencoder(4, 2, hidden_dims=(3,), spherical=True)
    one, two = (
        content_key(shared._identity(network, TABLE, SimpleNamespace(seed=0, hardware=hardware)))
        for hardware in (choose_hardware("cpu", "float32"), other)
    )
    assert one != two


def test_rows_that_are_prepared_otherwise_have_an_identity_of_their_own(monkeypatch):
    before = data_identity("mnist")
    monkeypatch.setattr("spherepair.benchmark.measure.DATA_REVISIONS", {"mnist": 1})
    assert data_identity("mnist") != before
    assert data_identity("fashion_mnist") != data_identity("fashion_mnist", (0, 1))


@pytest.mark.parametrize(
    ("default", "value", "joint"),
    [("MOST_EPOCHS", 31, JointPretraining(batch_size=9)), ("SMALL_TABLE", 5, JointPretraining(epochs=3))],
)
def test_defaults_are_part_of_the_identity_where_they_are_taken(default, value, joint, tmp_path, monkeypatch):
    network = build_autoencoder(4, 2, hidden_dims=(3,), spherical=True)
    session = SimpleNamespace(seed=0, hardware=choose_hardware("cpu", "float32"))

    def identities():
        methods = (joint, JointPretraining(epochs=3, batch_size=9), STACKED)
        shared = [SharedPretraining(method, {}, tmp_path, seed=0) for method in methods]
        return [one._identity(network, TABLE, session) for one in shared]

    before = identities()
    monkeypatch.setattr(f"spherepair.training.pretraining.{default}", value)
    assert [one == other for one, other in zip(before, identities(), strict=True)] == [False, True, True]


def test_autoencoder_of_other_code_is_made_again(rows, tmp_path, monkeypatch):
    fit(rows, tmp_path, pretraining=STACKED)
    monkeypatch.setattr("spherepair.benchmark.runs.PROTOCOL", -1)
    _, again = fit(rows, tmp_path, pretraining=STACKED)
    assert again.was_made_here


def test_damaged_file_is_made_again(rows, tmp_path):
    fit(rows, tmp_path, pretraining=STACKED)
    (path,) = kept(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    _, again = fit(rows, tmp_path, pretraining=STACKED)
    assert again.was_made_here
    _, found = fit(rows, tmp_path, pretraining=STACKED)
    assert not found.was_made_here


def test_description_is_the_same_in_every_process(tmp_path):
    shared = SharedPretraining(STACKED, {"dataset": "mnist"}, tmp_path, seed=0)
    assert str(tmp_path) not in repr(shared)
    assert " at 0x" not in repr(shared)


def test_fit_without_pretraining_is_left_alone(tmp_path):
    model = SpherePair(3, pretraining=None)
    assert share_pretraining(model, {}, tmp_path) is None
    assert model.pretraining is None
    own = SpherePair(3, pretraining=torch.nn.Identity())
    assert share_pretraining(own, {}, tmp_path) is None


def test_run_measures_all_that_is_asked_for(rows, tmp_path):
    X, y = rows[0], np.arange(90) % 3
    parameters = {"hidden_dims": [8], "embedding_dim": 3, "max_epochs": 2, "stopping": "fixed"}
    parameters |= {"pretraining": "none", "wrong_answers": None}
    measures = ("clustering", "n_clusters", "projection", "scores", "snapshots", "tail_angles")
    spec = RunSpec(
        *("blobs", None, "SpherePair", parameters, PairChoice(100)),
        seed=0,
        measure=measures,
        tail_ratios=(0.05, 0.1),
    )
    measured = measure_run(spec, Rows(X, y, X, y), tmp_path)
    record, arrays = measured.record, measured.arrays
    assert set(record["cluster_number"]) == {"tail-angle", "silhouette", "lifetime", "consensus"}
    assert all(number["seconds"] > 0 for number in record["cluster_number"].values())
    assert record["clustering"]["kmeans"]["seconds"] > 0
    assert np.shape(record["tail_angles"]["curves"]) == (2, 3)
    assert 0 <= record["pair_satisfaction"] <= 1
    assert record["epochs"] == {"pairs": 2}
    assert (arrays["projection"].shape, arrays["projected_classes"].shape) == ((90, 2), (90,))
    assert arrays["frames"].shape == (2, 90, 3)
    np.testing.assert_allclose(np.linalg.norm(arrays["frames"], axis=-1), 1, rtol=1e-5)
    assert len(arrays["left"]) == len(arrays["is_must_link"]) == record["n_pairs"]
    assert json.dumps(record)
