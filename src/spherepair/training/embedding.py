"""Rows through a trained network, a block at a time: memory grows with the block, not with n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherepair.errors import DeviceMemoryError
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource, blocks

#: Rows per block: enough for full speed, few enough for the widest layer; and values, for wide tables.
BLOCK_ROWS = {"cpu": 4096, "cuda": 65_536}
BLOCK_ENTRIES = {"cpu": 2**23, "cuda": 2**26}
_SMALLEST_BLOCK = 64
#: Bytes of results that may wait on a GPU: fetching each block's own would make the host wait for it.
WAITING_BYTES = 2**26

Result = TypeVar("Result")


@torch.no_grad()
def map_rows(
    function: Callable[[Tensor], Tensor], rows: RowSource, hardware: Hardware, *, dtype: Any = np.float32
) -> NDArray[Any]:
    """Apply ``function`` to all rows, a block at a time, and collect the results on the host.

    When the GPU runs out of memory, smaller blocks are tried before giving up.
    """

    def collect(size: int) -> NDArray[Any]:
        result: NDArray[Any] | None = None
        waiting: list[Tensor] = []
        fetched = n_bytes = 0
        for start, part in _parts(function, rows, hardware, size):
            if result is None:
                result = np.empty((rows.n_rows, *part.shape[1:]), dtype=dtype)
            waiting.append(part)
            n_bytes, stop = n_bytes + part.nbytes, start + len(part)
            if n_bytes >= WAITING_BYTES or stop == rows.n_rows or not hardware.is_cuda:
                result[fetched:stop] = torch.cat(waiting).cpu().numpy()
                waiting, fetched, n_bytes = [], stop, 0
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
