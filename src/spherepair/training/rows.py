"""Where rows come from: a table on the device, or a table that is streamed a batch at a time.

A row source answers ``gather(index)`` with scaled float32 rows on the device. Rows that fit stay on
the device; memory maps, tables too large for the GPU and, on a processor, sparse matrices are read batch by
batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from spherepair.training.scaling import Scaling

#: Share of the free GPU memory that the rows may take; the rest is for activations.
RESIDENT_SHARE = 0.5
#: Page-locked buffers through which rows pass on their way to a GPU, and the size of one.
STAGING_BUFFERS, STAGING_BYTES = 4, 2**24


class RowSource(Protocol):
    """Rows by position, scaled, as float32 on the device."""

    n_rows: int
    n_features: int
    device: torch.device
    index_device: torch.device
    is_resident: bool

    def gather(self, index: Tensor) -> Tensor:
        """Rows at ``index`` (on ``index_device``) as a tensor (len(index), n_features)."""
        ...

    def block(self, start: int, stop: int) -> Tensor:
        """Consecutive rows; cheaper than gathering them."""
        ...


@dataclass
class ResidentRows:
    """Rows held as one tensor on the device, in the type in which they came."""

    table: Tensor
    scaling: Scaling

    is_resident = True

    def __post_init__(self) -> None:
        self.n_rows, self.n_features = self.table.shape
        self.device = self.index_device = self.table.device
        self._scale = self.scaling.on(self.device)

    def gather(self, index: Tensor) -> Tensor:
        """Rows at ``index``."""
        return self._scale(self.table.index_select(0, index))

    def block(self, start: int, stop: int) -> Tensor:
        """Rows start … stop-1."""
        return self._scale(self.table[start:stop])


class StreamedRows:
    """Rows read from a NumPy array, memory map or CSR matrix a batch at a time."""

    is_resident = False

    def __init__(self, table: Any, scaling: Scaling, device: torch.device) -> None:
        self.table = table
        self.n_rows, self.n_features = table.shape
        self.device = device
        self.index_device = torch.device("cpu")
        self._scale = scaling.on(device)

    def gather(self, index: Tensor) -> Tensor:
        """Rows at ``index``, densified and moved to the device."""
        # Sorted access turns a random walk over a memory map into one sweep.
        order = torch.argsort(index)
        rows = self._to_device(self.table[index[order].numpy()])
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return self._scale(rows.index_select(0, back.to(self.device)))

    def block(self, start: int, stop: int) -> Tensor:
        """Rows start … stop-1."""
        return self._scale(self._to_device(self.table[start:stop]))

    def _to_device(self, rows: Any) -> Tensor:
        dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
        is_cuda = self.device.type == "cuda"
        if min(dense.strides) < 0 or not (dense.flags.writeable or is_cuda):
            dense = dense.copy()  # torch shares memory only with arrays it could write to
        tensor = torch.from_numpy(_lent(_torch_compatible(dense)))
        if self.device.type == "mps" and tensor.dtype == torch.float64:
            tensor = tensor.float()  # that device has no float64
        if not is_cuda:
            return tensor.to(self.device)
        with _staging(self.device) as staging:
            return staging.send(tensor)


class _Staging:
    """Page-locked memory on the way to a GPU: filled by all cores, sent while the next piece is filled.

    Pieces are small enough to be in the processor's cache still when the GPU fetches them.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers = [torch.empty(0, dtype=torch.uint8)] * STAGING_BUFFERS
        self._sent = [torch.cuda.Event() for _ in range(STAGING_BUFFERS)]  # type: ignore[no-untyped-call]
        self._turn = 0

    def send(self, tensor: Tensor) -> Tensor:
        """The tensor on the GPU; its copies are queued, not waited for."""
        received = torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
        n_rows = max(1, STAGING_BYTES // max(1, tensor[:1].nbytes))
        for piece, target in zip(torch.split(tensor, n_rows), torch.split(received, n_rows), strict=True):
            target.copy_(self._filled(piece), non_blocking=True)
            self._sent[self._turn].record(torch.cuda.current_stream(self._device))
        return received

    def _filled(self, piece: Tensor) -> Tensor:
        """The piece in the buffer whose turn it is, once what was in it is on the GPU."""
        self._turn = (self._turn + 1) % STAGING_BUFFERS
        self._sent[self._turn].synchronize()
        buffer = self._buffers[self._turn]
        if buffer.numel() < piece.nbytes:
            buffer = _page_locked(piece.nbytes)
            if piece.nbytes <= STAGING_BYTES:  # a row may be larger; its buffer is not kept
                self._buffers[self._turn] = buffer
        return buffer[: piece.nbytes].view(piece.dtype).view(piece.shape).copy_(piece)


#: What is kept for the next transfer to each GPU: locking pages takes longer than sending what passes them.
#: torch keeps page-locked memory as well, but forgets it with every capture.
_kept: dict[int, list[_Staging]] = {}


@contextmanager
def _staging(device: torch.device) -> Iterator[_Staging]:
    """The buffers that are kept for a GPU, or others where a thread beside this one has them."""
    gpu = torch.cuda.current_device() if device.index is None else device.index
    kept = _kept.setdefault(gpu, [])
    try:
        staging = kept.pop()
    except IndexError:
        staging = _Staging(torch.device("cuda", gpu))
    yield staging  # not kept after an error, when it is not known what was sent
    if not kept:
        kept.append(staging)


def _page_locked(n_bytes: int) -> Tensor:
    return torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)


def open_rows(X: Any, scaling: Scaling, device: torch.device, *, keep: bool = True) -> RowSource:
    """The fitting row source for a validated table ``X``.

    Parameters
    ----------
    X : NumPy array, memory map, CSR matrix, or a tensor that lies on a GPU
    scaling : Scaling
    device : torch.device
    keep : bool, default=True
        Whether rows are needed again and again, so that a GPU should hold them.
    """
    if isinstance(X, Tensor):
        return ResidentRows(X.to(device), scaling)
    is_cpu = device.type == "cpu"
    # A GPU holds sparse rows too, and then dense ones: steps that wait for the host cannot be captured.
    is_streamed = sparse.issparse(X) if is_cpu else not (keep and _fits(X, device))
    if is_streamed:
        return StreamedRows(X, scaling, device)
    if is_cpu:
        # torch shares neither read-only arrays (memory maps opened with mode "r") nor reversed ones.
        shareable = X.flags.writeable and _is_torch_type(X.dtype) and min(X.strides) >= 0
        return ResidentRows(torch.from_numpy(X), scaling) if shareable else StreamedRows(X, scaling, device)
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            return ResidentRows(_scaled_on_device(X, scaling, device), Scaling.identity())
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return StreamedRows(X, scaling, device)


def blocks(n_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and stop of consecutive blocks.

    Examples
    --------
    >>> list(blocks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def _scaled_on_device(X: Any, scaling: Scaling, device: torch.device) -> Tensor:
    """Move a table to the GPU in pieces and scale it there once, so that no step has to."""
    streamed = StreamedRows(X, scaling, device)
    table = torch.empty(X.shape, dtype=torch.float32, device=device)
    for start, stop in blocks(X.shape[0], max(1, 2**26 // max(1, X.shape[1]))):
        table[start:stop] = streamed.block(start, stop)
    return table


def _fits(X: Any, device: torch.device) -> bool:
    if device.type != "cuda":
        return True  # other accelerators share memory with the host
    free, _ = torch.cuda.mem_get_info(device)
    # What torch keeps for itself is free as well; after a fit that is as much as its rows took.
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return bool(4 * X.shape[0] * X.shape[1] <= RESIDENT_SHARE * free)


def _is_torch_type(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and dtype.name in {
        "float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool",
    }  # fmt: skip


def _lent(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as one that torch takes, without a copy even if it is read-only; it must only be read."""
    if array.flags.writeable:
        return array
    memory = array.__array_interface__ | {"data": (array.ctypes.data, False)}
    return np.asarray(SimpleNamespace(__array_interface__=memory, owner=array))


def _torch_compatible(dense: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return dense if _is_torch_type(dense.dtype) else dense.astype(np.float64)
