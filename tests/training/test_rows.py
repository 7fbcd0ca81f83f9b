"""When the GPU runs out of memory: smaller transfers first, then a clear error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from spherepair.errors import DeviceMemoryError
from spherepair.training import rows as rows_module
from spherepair.training.hardware import Hardware
from spherepair.training.rows import ResidentRows, Scaling, StreamedRows, map_rows, open_rows
from spherepair.training.scaling import learn_scaling

CPU = Hardware(torch.device("cpu"), "float32")


def make_rows(n: int = 1000) -> ResidentRows:
    return ResidentRows(torch.arange(n, dtype=torch.float32)[:, None], Scaling.identity())


def test_prediction_tries_smaller_blocks_before_it_gives_up():
    sizes = []

    def hungry(x):
        sizes.append(len(x))
        if len(x) > 300:
            raise torch.cuda.OutOfMemoryError("no room")
        return 2 * x

    result = map_rows(hungry, make_rows(), CPU)
    np.testing.assert_array_equal(result[:, 0], 2.0 * np.arange(1000))
    assert sizes[0] == 1000
    assert max(sizes[-4:]) <= 300


def test_prediction_says_what_to_do_when_nothing_fits():
    def insatiable(x):
        raise torch.cuda.OutOfMemoryError("no room")

    with pytest.raises(DeviceMemoryError, match="device='cpu'"):
        map_rows(insatiable, make_rows(), CPU)


def test_a_gpu_holds_sparse_rows_as_dense_ones(monkeypatch):
    monkeypatch.setattr(rows_module, "_fits", lambda X, device: True)
    X = sparse.random(40, 7, density=0.3, format="csr", dtype=np.float32, random_state=0)
    scaling = learn_scaling(X, "standard")
    assert isinstance(open_rows(X, scaling, torch.device("meta")), ResidentRows)
    table = rows_module._scaled_on_device(X, scaling, CPU.device)
    assert torch.equal(table, open_rows(X.toarray(), scaling, CPU.device).block(0, 40))
    assert isinstance(open_rows(X, scaling, torch.device("meta"), keep=False), StreamedRows)
    assert isinstance(open_rows(X, scaling, CPU.device), StreamedRows)


def test_a_table_that_does_not_fit_is_streamed(monkeypatch):
    def refuse(*args):
        raise torch.cuda.OutOfMemoryError("no room")

    monkeypatch.setattr(rows_module, "_fits", lambda X, device: True)
    monkeypatch.setattr(rows_module, "_scaled_on_device", refuse)
    X = np.ones((5, 2), dtype=np.float32)
    assert isinstance(open_rows(X, Scaling.identity(), torch.device("meta")), StreamedRows)


def test_memory_that_torch_keeps_counts_as_free(monkeypatch):
    """As after a fit, when the rows of that fit are still torch's."""
    X = np.zeros((100, 10), dtype=np.uint8)  # 4,000 bytes as float32
    for name, n_bytes in {
        "mem_get_info": (1000, 10_000),
        "memory_reserved": 8000,
        "memory_allocated": 1000,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, n_bytes=n_bytes: n_bytes)
    gpu = torch.device("cuda", 0)
    assert rows_module._fits(X, gpu)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2000)
    assert not rows_module._fits(X, gpu)
