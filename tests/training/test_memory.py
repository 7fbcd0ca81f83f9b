"""When the GPU runs out of memory: smaller transfers first, then a clear error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import sparse

from spherepair.errors import DeviceMemoryError
from spherepair.training import rows as rows_module
from spherepair.training.embedding import map_rows
from spherepair.training.hardware import Hardware
from spherepair.training.rows import ResidentRows, StreamedRows, open_rows
from spherepair.training.scaling import Scaling, learn_scaling

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


class Event:
    """A CUDA event: notes that what was recorded has been waited for."""

    def __init__(self):
        self.is_pending = False

    def record(self):
        self.is_pending = True

    def synchronize(self):
        self.is_pending = False


@pytest.mark.parametrize(
    "table",
    [
        np.arange(600, dtype=np.float32).reshape(100, 6),
        np.arange(600, dtype=np.float32).reshape(6, 100).T,  # not in one stretch
        np.arange(600, dtype=np.uint8).reshape(100, 6),
        np.arange(100, dtype=np.float64).reshape(1, 100),  # a row larger than a piece
        np.zeros((0, 6), dtype=np.float32),
    ],
)
def test_rows_pass_page_locked_memory_in_pieces(table, monkeypatch):
    filled = []

    class Buffers(rows_module._Staging):
        def _filled(self, piece):
            found = super()._filled(piece)
            assert not self._sent[self._turn].is_pending  # nothing is overwritten on its way
            filled.append(len(piece))
            return found

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(rows_module, "_page_locked", lambda n_bytes: torch.empty(n_bytes, dtype=torch.uint8))
    monkeypatch.setattr(rows_module, "STAGING_BYTES", 200)
    staging = Buffers(CPU.device)
    for _ in range(2):
        given = torch.from_numpy(table)
        assert torch.equal(staging.send(given), given)
    assert sum(filled) == 2 * len(table)
    assert max(filled) * table[:1].nbytes <= max(200, table[:1].nbytes)


def test_page_locked_memory_is_kept_for_each_thread(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(rows_module, "_kept", rows_module._OfThread())
    gpu, other = torch.device("cuda", 0), torch.device("cuda", 1)
    mine = rows_module._staging(gpu)
    assert rows_module._staging(gpu) is mine
    assert rows_module._staging(other) is not mine
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(rows_module._staging, gpu).result() is not mine
