"""Rows through a trained network, a block at a time: memory grows with the block, not with n."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherepair.errors import DeviceMemoryError
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource

#: Rows per block: wide enough for full speed, small enough for the widest layer.
BLOCK_ROWS = {"cpu": 4096, "cuda": 65_536}
_SMALLEST_BLOCK = 64


@torch.no_grad()
def map_rows(
    function: Callable[[Tensor], Tensor], rows: RowSource, hardware: Hardware
) -> NDArray[np.float32]:
    """Apply ``function`` to all rows and collect the results on the host.

    When the GPU runs out of memory, smaller blocks are tried before giving up.
    """
    size = BLOCK_ROWS.get(hardware.device.type, 4096)
    while True:
        try:
            return _map_blocks(function, rows, hardware, size)
        except torch.cuda.OutOfMemoryError as error:
            if size <= _SMALLEST_BLOCK:
                raise DeviceMemoryError(
                    f"the GPU has too little memory even for {size} rows at a time; use device='cpu'."
                ) from error
            torch.cuda.empty_cache()
            size //= 4


def _map_blocks(
    function: Callable[[Tensor], Tensor], rows: RowSource, hardware: Hardware, size: int
) -> NDArray[np.float32]:
    result: NDArray[np.float32] | None = None
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        with hardware.matrix_products(), hardware.autocast():
            part = function(rows.block(start, stop))
        if result is None:
            result = np.empty((rows.n_rows, *part.shape[1:]), dtype=_numpy_type(part))
        result[start:stop] = part.cpu().numpy()
    return result if result is not None else np.empty((0, 0), dtype=np.float32)


def _numpy_type(part: Tensor) -> type:
    return np.int64 if part.dtype == torch.int64 else np.float32
