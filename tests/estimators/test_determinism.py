from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from spherepair import SpherePair
from spherepair.training import hardware
from spherepair.training.pretraining import StackedPretraining


def test_the_same_seed_gives_the_same_bits(make: Any, X: Any, pairs: Any) -> None:
    first, second = (make("auto", random_state=7).fit(X, constraints=pairs) for _ in range(2))
    assert np.array_equal(first.labels_, second.labels_)
    assert np.array_equal(first.embedding_, second.embedding_)
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert first.cluster_number_.candidates == second.cluster_number_.candidates


def test_the_same_seed_gives_the_same_bits_with_stacked_pretraining(make: Any, X: Any, pairs: Any) -> None:
    stacked = StackedPretraining(layer_epochs=2, epochs=2)
    models = [make(pretraining=stacked).fit(X, constraints=pairs) for _ in range(2)]
    assert np.array_equal(models[0].embedding_, models[1].embedding_)


def test_other_seeds_give_other_embeddings(fitted: SpherePair, make: Any, X: Any, pairs: Any) -> None:
    other = make(random_state=1).fit(X, constraints=pairs)
    assert not np.allclose(other.embedding_, fitted.embedding_)


def test_a_random_state_object_is_a_source_of_seeds(make: Any, X: Any, pairs: Any) -> None:
    def embed(state: np.random.RandomState) -> np.ndarray:
        return make(random_state=state, max_epochs=1).fit(X, constraints=pairs).embedding_

    state = np.random.RandomState(3)
    first, second = embed(state), embed(state)
    assert np.array_equal(first, embed(np.random.RandomState(3)))
    assert not np.array_equal(first, second)


def test_without_a_seed_fits_differ(make: Any, X: Any, pairs: Any) -> None:
    models = [make(random_state=None, max_epochs=1).fit(X, constraints=pairs) for _ in range(2)]
    assert not np.array_equal(models[0].embedding_, models[1].embedding_)


def test_global_random_states_are_neither_moved_nor_read(
    fitted: SpherePair, make: Any, X: Any, pairs: Any
) -> None:
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    numpy_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    model = make("auto").fit(X, constraints=pairs)
    model.refine(pairs).predict(X)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(make().fit(X, constraints=pairs).embedding_, fitted.embedding_)


def global_switches() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.mkldnn.enabled,
    )


def test_global_switches_of_torch_are_put_back(make: Any, X: Any, pairs: Any) -> None:
    before = global_switches()
    make(max_epochs=1, precision="bfloat16").fit(X, constraints=pairs).predict(X)
    assert global_switches() == before


@pytest.mark.parametrize(("is_fast", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_a_processor_takes_bfloat16_where_that_is_fast(
    monkeypatch: pytest.MonkeyPatch, is_fast: bool, precision: str
) -> None:
    monkeypatch.setattr(hardware, "has_amx", lambda: is_fast)
    assert hardware.choose_hardware("cpu").precision == precision
    assert hardware.choose_hardware("cpu", "float32").precision == "float32"


@pytest.mark.parametrize("is_lacking", [True, False])
def test_bfloat16_goes_without_onednn_where_the_processor_has_none(
    monkeypatch: pytest.MonkeyPatch, is_lacking: bool
) -> None:
    # On such a processor oneDNN fails at the first product, and torch then never uses it again.
    monkeypatch.setattr(hardware, "lacks_bfloat16", lambda: is_lacking)
    before = torch.backends.mkldnn.enabled
    for precision, uses_onednn in (("bfloat16", before and not is_lacking), ("float32", before)):
        with hardware.Hardware(torch.device("cpu"), precision).matrix_products():
            assert torch.backends.mkldnn.enabled == uses_onednn
        assert torch.backends.mkldnn.enabled == before


def test_an_encoder_of_the_users_own_is_copied_and_not_changed(make: Any, X: Any, pairs: Any) -> None:
    encoder = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 6))
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    models = [make(encoder=encoder).fit(X, constraints=pairs) for _ in range(2)]
    assert models[0].embedding_.shape == (120, 6)
    assert np.array_equal(models[0].embedding_, models[1].embedding_)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    assert not torch.equal(models[0].network_.encoder[0].weight, encoder[0].weight)


def test_dropout_in_an_encoder_is_seeded_without_touching_the_global_state(
    make: Any, X: Any, pairs: Any, tmp_path: Any
) -> None:
    encoder = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 4))
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = make(encoder=encoder).fit(X, constraints=pairs)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)

    def interrupt(state: Any) -> None:
        if (state.stage, state.epoch) == ("pairs", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(encoder=encoder, progress=interrupt).fit(X, constraints=pairs, checkpoint=tmp_path)
    second = make(encoder=encoder).fit(X, constraints=pairs, checkpoint=tmp_path)
    assert np.array_equal(first.embedding_, second.embedding_)
