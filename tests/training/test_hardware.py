"""The way of rows to a GPU: through page-locked memory, in pieces, without copies in between."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch

from spherepair.training import hardware
from spherepair.training.rows import Scaling, StreamedRows

CPU = torch.device("cpu")


class Event:
    """A CUDA event: notes that what was recorded has been waited for."""

    def __init__(self):
        self.is_pending = False

    def record(self, stream):
        assert stream == f"stream of {CPU}"  # that on which the copy is queued
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

    class Buffers(hardware._Staging):
        def _filled(self, piece):
            found = super()._filled(piece)
            assert not self._sent[self._turn].is_pending  # nothing is overwritten on its way
            filled.append(len(piece))
            return found

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(hardware, "_page_locked", lambda n_bytes: torch.empty(n_bytes, dtype=torch.uint8))
    monkeypatch.setattr(hardware, "STAGING_BYTES", 200)
    staging = Buffers(CPU)
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
    monkeypatch.setattr(hardware, "_Staging", Staging)
    monkeypatch.setattr(hardware, "_spare_staging", {})
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
    with hardware._staging(gpu) as mine, hardware._staging(gpu) as beside:
        assert mine is not beside
    with hardware._staging(gpu) as again, hardware._staging(other) as elsewhere:
        assert again in (mine, beside)
        assert elsewhere.device == other
    assert len(hardware._spare_staging[0]) == 1


def test_page_locked_memory_of_a_transfer_that_broke_off_is_not_used_again(stagings):
    with pytest.raises(KeyboardInterrupt), hardware._staging(torch.device("cuda", 0)):
        raise KeyboardInterrupt
    assert hardware._spare_staging[0] == []
