"""Models and checkpoints that somebody altered, with right checksums, are refused before anything is used."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from spherepair import SpherePair, load
from spherepair.errors import ModelFileError
from spherepair.persistence import _digest, _json_digest, read_tensor_file, write_tensor_file
from spherepair.training.session import CHECKPOINT_FILE, checkpoint_lock


@pytest.fixture
def folder(fitted: SpherePair, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def sign(folder: Path, manifest: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> None:
    """Write a model as an owner could who knows the checksums."""
    if tensors is not None:
        safetensors.torch.save_file(tensors, folder / "weights.safetensors")
    manifest = {k: v for k, v in manifest.items() if k != "sha256"}
    manifest["weights_sha256"] = _digest(folder / "weights.safetensors")
    manifest["sha256"] = _json_digest(manifest)
    (folder / "model.json").write_text(json.dumps(manifest))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    return json.loads((folder / "model.json").read_text()), safetensors.torch.load_file(
        folder / "weights.safetensors"
    )


VALUES: dict[str, Any] = {
    "n_features_in": [0, -1, True, 2**80, 1.5, "5", None, [5]],
    "embedding_dim": [0, -3, True, 10**12, "x", None],
    "seed": [-1, 2**70, 1.5, "0", None],
    "has_own_encoder": ["yes", 1, None, {}],
    "estimator": [7, None, ["SpherePair"], "Popen"],
    "parameters": [None, [], "x", {"n_clusters": -4}, {"hidden_dims": [10**6, 10**6]}, {"unknown": 1}],
    "feature_names_in": ["abcde", [1, 2, 3, 4, 5], ["a"], {}],
    "history": [None, {}, [1], [{}], [{"stage": 3}], "pairs"],
    "cluster_number": [3, {}, {"value": "x"}, []],
    "pair_texts": [[], {"by": "ann"}, {"by": [1]}],
    "wrong_answers": [1, {}, {"share": 2}],
    "calibration": [
        1,
        {},
        {"temperature": 0, "accuracy": 0.9, "n_pairs": 9},
        {"temperature": float("nan"), "accuracy": 0.9, "n_pairs": 9},
        {"temperature": 1, "accuracy": 2, "n_pairs": 9},
        {"temperature": 1, "accuracy": 0.9, "n_pairs": -1},
    ],
    "group_names": [None, "abc", [1, 2, 3], ["a", "b"], {}],
    "row_encoder": [1, {}, {"encoder": None}, {"encoder": {"class": "Popen", "state": {}}, "versions": {}}],
}


@pytest.mark.parametrize("field", VALUES)
def test_every_field_of_the_description_is_checked(field: str, folder: Path) -> None:
    manifest, _ = read(folder)
    for value in VALUES[field]:
        sign(folder, manifest | {field: value})
        with pytest.raises(ModelFileError) as caught:
            load(folder)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize("field", ["estimator", "parameters", "n_features_in", "seed", "history"])
def test_a_missing_field_is_named(field: str, folder: Path) -> None:
    manifest, _ = read(folder)
    sign(folder, {k: v for k, v in manifest.items() if k != field})
    with pytest.raises(ModelFileError, match=f"does not say {field}"):
        load(folder)


def _set(name: str, place: Any, value: float) -> Any:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name].reshape(-1)[place] = value

    return change


def _map(name: str, function: Any) -> Any:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = function(tensors[name]).contiguous()

    return change


TENSORS: dict[str, Any] = {
    "labels beyond the clusters": _set("labels", 0, 99),
    "labels below noise": _set("labels", 0, -2),
    "labels as fractions": _map("labels", lambda t: t.float()),
    "labels in a table": _map("labels", lambda t: t[:, None]),
    "fewer labels": _map("labels", lambda t: t[:-1]),
    "an infinite embedding": _set("embedding", 3, float("inf")),
    "a narrow embedding": _map("embedding", lambda t: t[:, :-1]),
    "centers that are NaN": _set("cluster_centers", 0, float("nan")),
    "centers off the sphere": _map("cluster_centers", lambda t: 3 * t),
    "centers of double precision": _map("cluster_centers", lambda t: t.double()),
    "axes of double precision": _map("novelty.axes", lambda t: t.double()),
    "no centers": lambda tensors: tensors.pop("cluster_centers"),
    "no cluster": _map("cluster_centers", lambda t: t[:0]),
    "negative weights of pairs": _set("pairs.weight", 0, -1),
    "NaN as the weight of a pair": _set("pairs.weight", 0, float("nan")),
    "a pair outside of the rows": _set("pairs.right", 0, 5000),
    "a pair of one row": lambda tensors: tensors["pairs.right"].copy_(tensors["pairs.left"]),
    "links as numbers": _map("pairs.is_must_link", lambda t: t.long()),
    "a scaling of zero columns": _map("scaling.shift", lambda t: t[:-1]),
    "a negative scaling": _map("scaling.factor", lambda t: -t),
    "a mean of fewer columns": _map("novelty.mean", lambda t: t[:-1]),
    "no mean": lambda tensors: tensors.pop("novelty.mean"),
    "axes that are NaN": _set("novelty.axes", 0, float("nan")),
    "fewer axes": _map("novelty.axes", lambda t: t[:, :-1]),
    "a whitening of fewer axes": _map("novelty.whitening", lambda t: t[:-1]),
    "no cluster where rows lie": _map("novelty.centers", lambda t: t[:0]),
    "three typical distances": _map("novelty.typical", lambda t: t.repeat(2)[:3]),
    "distances that descend": _map("novelty.steps", lambda t: t.flip(0)),
    "negative distances": _map("novelty.steps", lambda t: t - 1e6),
    "distances as whole numbers": _map("novelty.steps", lambda t: t.long()),
    "weights of the network that are infinite": lambda tensors: (
        next(t for k, t in tensors.items() if k.startswith("network.")).reshape(-1)[:1].fill_(float("inf"))
    ),
    "weights of another type": lambda tensors: tensors.update(
        {k: t.double() for k, t in tensors.items() if k.startswith("network.")}
    ),
    "weights of another shape": lambda tensors: tensors.update(
        {k: t.reshape(-1) for k, t in tensors.items() if k.startswith("network.")}
    ),
    "no weights": lambda tensors: [tensors.pop(k) for k in [*tensors] if k.startswith("network.")],
    "more weights": lambda tensors: tensors.update({"network.more": torch.zeros(3)}),
}


@pytest.mark.parametrize("change", TENSORS)
def test_tensors_that_cannot_be_are_refused(change: str, folder: Path) -> None:
    manifest, tensors = read(folder)
    TENSORS[change](tensors)
    sign(folder, manifest, tensors)
    with pytest.raises(ModelFileError, match="not a complete model"):
        load(folder)


def test_who_can_write_a_model_decides_what_it_says(folder: Path, X: Any) -> None:
    """Numbers that could be those of a fit are taken: checksums are no signature."""
    before = load(folder).predict(X)
    manifest, tensors = read(folder)
    tensors["cluster_centers"] = tensors["cluster_centers"].flip(0).contiguous()
    sign(folder, manifest, tensors)
    np.testing.assert_array_equal(load(folder).predict(X), before.max() - before)


def test_whatever_is_changed_in_the_description_nothing_else_is_raised(folder: Path) -> None:
    """Other values at random places, with right checksums: a model, or one clear error."""
    source = random.Random(0)
    manifest, _ = read(folder)
    odd = [
        None,
        True,
        -1,
        0,
        2**70,
        1e300,
        float("nan"),
        "x",
        "",
        [],
        [[]],
        {},
        {"class": "os"},
        {"described": 1},
    ]
    for _ in range(120):
        changed = json.loads(json.dumps(manifest))
        inner = changed
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            key = source.choice(keys)
            if not isinstance(inner[key], dict | list) or not inner[key] or source.random() < 0.3:
                break
            inner = inner[key]
        inner[key] = source.choice(odd)
        sign(folder, changed)
        try:
            load(folder)
        except ModelFileError as error:
            assert len(str(error)) < 700  # noqa: PT017


SETTINGS = {"hidden_dims": (8,), "pretraining": None, "max_epochs": 3, "stopping": "fixed", "random_state": 0}


class Stop:
    def __call__(self, state: Any) -> None:
        if state.epoch == 2:
            raise KeyboardInterrupt


@pytest.fixture
def interrupted(X: Any, pairs: Any, tmp_path: Path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        SpherePair(3, progress=Stop(), **SETTINGS).fit(X, constraints=pairs, checkpoint=tmp_path)
    return tmp_path / CHECKPOINT_FILE


def _resume(file: Path, X: Any, pairs: Any) -> SpherePair:
    return SpherePair(3, **SETTINGS).fit(X, constraints=pairs, checkpoint=file.parent)


def test_a_checkpoint_with_any_flipped_bit_is_refused(interrupted: Path) -> None:
    whole = interrupted.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [*range(0, header, 37), *range(header, len(whole), max(1, (len(whole) - header) // 40))]
    for place in places:
        bit = 1 << (place % 8)
        interrupted.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        if _same_content(interrupted, whole):
            continue
        with pytest.raises(ModelFileError, match="remove it to start anew"):
            read_tensor_file(interrupted)


def _same_content(file: Path, whole: bytes) -> bool:
    """A blank in the header that became another blank changes nothing."""
    header = 8 + int.from_bytes(whole[:8], "little")
    content = file.read_bytes()
    if content[:8] != whole[:8] or content[header:] != whole[header:]:
        return False
    try:
        return bool(json.loads(content[8:header]) == json.loads(whole[8:header]))
    except ValueError:
        return False


CHECKPOINTS: dict[str, Any] = {
    "a negative seed": lambda m, t: m.update(seed=-1),
    "a seed as text": lambda m, t: m.update(seed="0"),
    "no stage": lambda m, t: m.pop("stage"),
    "records of nothing": lambda m, t: m.update(records=[1]),
    "a history of texts": lambda m, t: m.update(history=["x"]),
    "NaN in the weights": lambda m, t: next(iter(t.values())).reshape(-1)[:1].fill_(float("nan")),
    "weights of another shape": lambda m, t: t.update(
        {k: v.reshape(-1) for k, v in t.items() if k.startswith("network.")}
    ),
    "an optimizer of another shape": lambda m, t: t.update(
        {k: v.reshape(-1)[:1].clone() for k, v in t.items() if k.startswith("optimizer.")}
    ),
    "no optimizer": lambda m, t: [t.pop(k) for k in [*t] if k.startswith("optimizer.")],
}


@pytest.mark.parametrize("change", CHECKPOINTS)
def test_a_checkpoint_that_cannot_be_is_refused(change: str, interrupted: Path, X: Any, pairs: Any) -> None:
    manifest, tensors = read_tensor_file(interrupted)
    CHECKPOINTS[change](manifest, tensors)
    write_tensor_file(interrupted, manifest, tensors)
    with pytest.raises(ModelFileError, match=r"remove (it|this one) to start anew"):
        _resume(interrupted, X, pairs)


def test_a_second_fit_with_the_same_checkpoint_is_told_at_once(tmp_path: Path, X: Any, pairs: Any) -> None:
    def try_again(state: Any) -> None:
        with pytest.raises(ModelFileError, match="is the checkpoint of a fit that is running"):
            _resume(tmp_path / CHECKPOINT_FILE, X, pairs)

    SpherePair(3, progress=try_again, **SETTINGS).fit(X, constraints=pairs, checkpoint=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [CHECKPOINT_FILE]


def test_the_lock_of_a_killed_fit_keeps_nobody_out(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # no pytest here: the child only holds the lock until it is killed
        with checkpoint_lock(tmp_path):
            os.write(writer, b"in")
            time.sleep(60)
        os._exit(1)
    try:
        assert os.read(reader, 2) == b"in"
        with pytest.raises(ModelFileError, match="is running"), checkpoint_lock(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    with checkpoint_lock(tmp_path):
        assert os.listdir(tmp_path) == [".lock"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/none/here", "/dev/null/deeper"])
def test_a_checkpoint_that_cannot_be_written_is_known_before_the_first_epoch(
    folder: str, X: Any, pairs: Any
) -> None:
    def never(state: Any) -> None:
        raise AssertionError("an epoch was trained")

    with pytest.raises(ModelFileError, match="cannot be written"):
        SpherePair(3, progress=never, **SETTINGS).fit(X, constraints=pairs, checkpoint=folder)


def test_readers_of_a_model_that_is_saved_again_and_again_never_fail(
    folder: Path, fitted: SpherePair
) -> None:
    over = threading.Event()

    def save() -> None:
        while not over.is_set():
            fitted.save(folder)

    writers = [threading.Thread(target=save) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(20):
            assert np.array_equal(load(folder).labels_, fitted.labels_)
    finally:
        over.set()
        for writer in writers:
            writer.join()
    assert [p.name for p in folder.parent.iterdir()] == ["model"]
