"""When the GPU runs out of memory: smaller transfers first, then a clear error."""

from __future__ import annotations

from typing import ClassVar

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


class Event:
    """A CUDA event: notes that what was recorded has been waited for."""

    def __init__(self):
        self.is_pending = False

    def record(self, stream):
        assert stream == f"stream of {CPU.device}"  # that on which the copy is queued
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
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(rows_module, "_page_locked", lambda n_bytes: torch.empty(n_bytes, dtype=torch.uint8))
    monkeypatch.setattr(rows_module, "STAGING_BYTES", 200)
    staging = Buffers(CPU.device)
    for _ in range(2):
        given = torch.from_numpy(table)
        assert torch.equal(staging.send(given), given)
    assert all(len(buffer) <= 200 for buffer in staging._buffers)  # that of a larger row is not kept
    assert sum(filled) == 2 * len(table)
    assert max(filled) * table[:1].nbytes <= max(200, table[:1].nbytes)


class Staging:
    """Tells who used it instead of sending anything."""

    made: ClassVar[list[Staging]] = []

    def __init__(self, device):
        self.device, self.n_sent = device, 0
        self.made.append(self)

    def send(self, tensor):
        self.n_sent += 1
        return tensor


@pytest.fixture
def stagings(monkeypatch):
    monkeypatch.setattr(Staging, "made", [])
    monkeypatch.setattr(rows_module, "_Staging", Staging)
    monkeypatch.setattr(rows_module, "_kept", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return Staging.made


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_page_locked_memory_is_kept_for_the_next_table(name, stagings):
    for _ in range(3):
        source = StreamedRows(np.ones((4, 2), dtype=np.float32), Scaling.identity(), torch.device("cpu"))
        source.device = torch.device(name)
        source.block(0, 4)
        source.block(0, 2)
    assert [(staging.device.index, staging.n_sent) for staging in stagings] == [(0, 6)]


def test_read_only_rows_go_to_a_gpu_without_a_copy(stagings, tmp_path):
    """As those of a memory map; a copy of them takes as long as a GPU needs for their labels."""
    np.save(tmp_path / "rows.npy", np.arange(12.0, dtype=np.float32).reshape(6, 2))
    table = np.load(tmp_path / "rows.npy", mmap_mode="r")
    source = StreamedRows(table, Scaling.identity(), torch.device("cpu"))
    copied = source.block(2, 5)
    source.device = torch.device("cuda", 0)
    shared = source.block(2, 5)
    assert shared.data_ptr() == table[2:].ctypes.data
    assert copied.data_ptr() != table[2:].ctypes.data
    assert torch.equal(shared, copied)
    assert not table.flags.writeable
    source.table = table[::-1].astype(np.uint16)[::-1]
    assert source.block(2, 5).tolist() == shared.tolist()


def test_threads_do_not_share_page_locked_memory_and_one_of_them_keeps_it(stagings):
    gpu, other = torch.device("cuda", 0), torch.device("cuda", 1)
    with rows_module._staging(gpu) as mine, rows_module._staging(gpu) as beside:
        assert mine is not beside
    with rows_module._staging(gpu) as again, rows_module._staging(other) as elsewhere:
        assert again in (mine, beside)
        assert elsewhere.device == other
    assert len(rows_module._kept[0]) == 1


def test_page_locked_memory_of_a_transfer_that_broke_off_is_not_used_again(stagings):
    with pytest.raises(KeyboardInterrupt), rows_module._staging(torch.device("cuda", 0)):
        raise KeyboardInterrupt
    assert rows_module._kept[0] == []
