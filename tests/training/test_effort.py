"""How large a fit is where nobody says: it follows the table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from spherepair import Constraints, SpherePair, load
from spherepair.training.hardware import Hardware, choose_effort, choose_hardware, limit_threads

QUICK = {"max_epochs": 1, "pretraining": None, "random_state": 0, "progress": False}


def test_a_cpu_does_less_for_fewer_rows_and_a_gpu_the_same_for_all():
    cpu, gpu = choose_hardware("cpu"), Hardware(torch.device("cuda"), "tf32")
    efforts = [choose_effort(n_rows, cpu) for n_rows in (999, 1000, 19_999, 20_000)]
    assert [effort.pretraining_steps for effort in efforts] == [300, 750, 750, 1500]
    assert [effort.batch_size for effort in efforts] == [64, 128, 128, 256]
    assert choose_effort(10, gpu) == choose_effort(10**6, gpu) == efforts[-1]


def test_a_small_network_takes_one_thread_and_others_those_of_torch():
    cpu, gpu = choose_hardware("cpu"), Hardware(torch.device("cuda"), "tf32")
    small, large, image = nn.Linear(64, 256), nn.Linear(1024, 512), nn.Conv2d(1, 4, 3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        used = []
        for network, hardware in ((small, cpu), (large, cpu), (image, cpu), (small, gpu)):
            with limit_threads(network, hardware):
                used.append(torch.get_num_threads())
        assert used == [1, 2, 2, 2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_are_given_back_after_a_fit_and_after_one_that_fails(monkeypatch, model):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        used = []
        monkeypatch.setattr(SpherePair, "_learn", lambda *_: used.append(torch.get_num_threads()) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            SpherePair(3, device="cpu", **QUICK).fit(model._table, constraints=model.constraints_)
        assert used == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    pairs = Constraints.from_labels(y, 300, random_state=0)
    X = rng.normal(size=(120, 4)) + 3 * y[:, None]
    return SpherePair(3, device="cpu", **QUICK).fit(X, constraints=pairs)


def _widths(model):
    return [layer.out_features for layer in model.network_.encoder if hasattr(layer, "out_features")]


def test_the_network_follows_the_table_and_what_is_given_goes_first(model):
    assert _widths(model) == [256, 128, 10]
    given = SpherePair(3, hidden_dims=(8,), device="cpu", **QUICK)
    assert _widths(given.fit(model._table, constraints=model.constraints_)) == [8, 10]
    assert SpherePair.paper(3).hidden_dims == (500, 500, 2000)


def test_a_saved_model_keeps_the_size_that_was_chosen(model, tmp_path):
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.hidden_dims == "auto"
    assert _widths(again) == [256, 128, 10]
    np.testing.assert_array_equal(again.predict(model._table), model.labels_)
