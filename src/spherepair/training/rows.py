"""Where rows come from, and how all of them go through a network; ``scaling.py`` learns their scaling.

A row source answers ``gather(index)`` with scaled float32 rows on the device. Rows that fit stay on the
device; memory maps, tables too large for the GPU and, on a CPU, sparse matrices are read batch by batch.
:func:`map_rows` needs memory for a block, not for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from spherepair.errors import DeviceMemoryError
from spherepair.training.hardware import Hardware, is_torch_type, to_device

#: Share of the free GPU memory that the rows may take; the rest is for activations.
RESIDENT_SHARE = 0.5
#: Most rows, and most values, in a block that goes through a network.
BLOCK_ROWS = {"cpu": 4096, "cuda": 65_536}
BLOCK_ENTRIES = {"cpu": 2**23, "cuda": 2**26}
_SMALLEST_BLOCK = 64
#: Bytes of results that are collected on a GPU before the host fetches them: each fetch waits for the GPU.
UNFETCHED_BYTES = 2**26

Result = TypeVar("Result")
_Vector = NDArray[np.float64]


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
        # Sorted access reads a memory map front to back.
        order = torch.argsort(index)
        rows = to_device(self.table[index[order].numpy()], self.device)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return self._scale(rows.index_select(0, back.to(self.device)))

    def block(self, start: int, stop: int) -> Tensor:
        """Rows start … stop-1."""
        return self._scale(to_device(self.table[start:stop], self.device))


def open_rows(X: Any, scaling: Scaling, device: torch.device, *, keep: bool = True) -> RowSource:
    """The row source for a validated table ``X``.

    Parameters
    ----------
    X : NumPy array, memory map, CSR matrix, or a tensor that lies on a GPU
    scaling : Scaling
    device : torch.device
    keep : bool, default=True
        Whether rows are read more than once, so that a GPU should hold them.
    """
    if isinstance(X, Tensor):
        return ResidentRows(X.to(device), scaling)
    is_cpu = device.type == "cpu"
    # A GPU holds sparse rows as dense ones: steps that wait for the host cannot be captured.
    is_streamed = sparse.issparse(X) if is_cpu else not (keep and _fits(X, device))
    if is_streamed:
        return StreamedRows(X, scaling, device)
    if is_cpu:
        # torch shares neither read-only arrays (memory maps opened with mode "r") nor reversed ones.
        shareable = X.flags.writeable and is_torch_type(X.dtype) and min(X.strides) >= 0
        return ResidentRows(torch.from_numpy(X), scaling) if shareable else StreamedRows(X, scaling, device)
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            return ResidentRows(_scaled_on_device(X, scaling, device), Scaling.identity())
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return StreamedRows(X, scaling, device)


@dataclass(frozen=True)
class Scaling:
    """An affine map of the columns; ``None`` stands for the identity."""

    shift: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    @classmethod
    def identity(cls) -> Scaling:
        """Leave rows as they are."""
        return cls()

    def on(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The map as a function of tensors on ``device``, giving float32.

        A shift is subtracted in float64 where the device has that: float32 rounds a time stamp of 1.7e9 to
        two minutes, and rows would be equal after the subtraction.
        """
        if self.shift is None or self.factor is None:
            return lambda x: x.float()
        if not self.shift.any():
            only = torch.tensor(self.factor, device=device, dtype=torch.float32)
            return lambda x: x.float() * only
        wide = torch.float32 if device.type == "mps" else torch.float64
        shift = torch.tensor(self.shift, device=device, dtype=wide)
        factor = torch.tensor(self.factor, device=device, dtype=wide)
        return lambda x: ((x.to(wide) - shift) * factor).float()


def blocks(n_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and stop of consecutive blocks.

    Examples
    --------
    >>> list(blocks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((start, min(start + size, n_rows)) for start in range(0, n_rows, size))


@torch.no_grad()
def map_rows(
    function: Callable[[Tensor], Tensor], rows: RowSource, hardware: Hardware, *, dtype: Any = np.float32
) -> NDArray[Any]:
    """Apply ``function`` to all rows, a block at a time, and collect the results on the host.

    When the GPU runs out of memory, smaller blocks are tried before giving up.
    """

    def collect(size: int) -> NDArray[Any]:
        result: NDArray[Any] | None = None
        unfetched: list[Tensor] = []
        fetched = n_bytes = 0
        for start, part in _parts(function, rows, hardware, size):
            if result is None:
                result = np.empty((rows.n_rows, *part.shape[1:]), dtype=dtype)
            unfetched.append(part)
            n_bytes, stop = n_bytes + part.nbytes, start + len(part)
            if n_bytes >= UNFETCHED_BYTES or stop == rows.n_rows or not hardware.is_cuda:
                result[fetched:stop] = torch.cat(unfetched).cpu().numpy()
                unfetched, fetched, n_bytes = [], stop, 0
        return result if result is not None else np.empty((0, 0), dtype=dtype)

    return _in_blocks(collect, rows, hardware)


@torch.no_grad()
def map_rows_on_device(function: Callable[[Tensor], Tensor], rows: RowSource, hardware: Hardware) -> Tensor:
    """As :func:`map_rows`, for results that are needed on the device; nothing waits for the host."""
    return _in_blocks(
        lambda size: torch.cat([part for _, part in _parts(function, rows, hardware, size)]), rows, hardware
    )


@torch.no_grad()
def map_some_rows(
    function: Callable[[Tensor], Tensor], rows: RowSource, index: Tensor, *, hardware: Hardware
) -> Tensor:
    """As :func:`map_rows_on_device`, for the rows at positions ``index``."""

    def collect(size: int) -> Tensor:
        found = []
        for part in torch.split(index.to(rows.index_device), size):
            with hardware.matrix_products(), hardware.autocast():
                found.append(function(rows.gather(part)))
        return torch.cat(found)

    return _in_blocks(collect, rows, hardware)


def _in_blocks(run: Callable[[int], Result], rows: RowSource, hardware: Hardware) -> Result:
    kind = "cuda" if hardware.is_cuda else "cpu"
    size = min(BLOCK_ROWS[kind], max(_SMALLEST_BLOCK, BLOCK_ENTRIES[kind] // rows.n_features))
    while True:
        try:
            with hardware.current():
                return run(size)
        except torch.cuda.OutOfMemoryError as error:
            if size <= _SMALLEST_BLOCK:
                raise DeviceMemoryError(
                    f"the GPU has too little memory even for {size} rows at a time; use device='cpu'."
                ) from error
            torch.cuda.empty_cache()
            size //= 4


def _parts(
    function: Callable[[Tensor], Tensor], rows: RowSource, hardware: Hardware, size: int
) -> Iterator[tuple[int, Tensor]]:
    """Results block by block; the host prepares the next block while a GPU computes the present one."""
    bounds = list(blocks(rows.n_rows, size))
    ahead = [rows.block(*bound) for bound in bounds[:1]]
    for (start, _), after in zip(bounds, [*bounds[1:], None], strict=True):
        with hardware.matrix_products(), hardware.autocast():
            part = function(ahead.pop())
        if after is not None:
            ahead.append(rows.block(*after))
        yield start, part


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
    # What torch caches is free as well; after a fit that is as much as its rows took.
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return bool(4 * X.shape[0] * X.shape[1] <= RESIDENT_SHARE * free)
