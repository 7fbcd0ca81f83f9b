"""Notices on a CPU what would make the host wait for a GPU."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
#: What makes the host wait for a GPU: it asks for a value, or for a shape that depends on values.
WAITING = {
    aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim,
    aten.unique_consecutive, aten.equal, aten.bincount, aten.repeat_interleave, aten.allclose,
}  # fmt: skip
#: The same for tensors on a GPU; tensors on a CPU return their values without being dispatched.
WAITING_METHODS = ("cpu", "numpy", "tolist", "item")


class NeverWaits(TorchDispatchMode):
    """Within it, asking for a value, or for a shape that depends on values, is an error."""

    def __enter__(self) -> Any:
        self._patches = contextlib.ExitStack()
        for name in WAITING_METHODS:
            refuse = mock.Mock(side_effect=AssertionError(f"{name}() waits for the GPU"))
            self._patches.enter_context(mock.patch.object(torch.Tensor, name, refuse))
        return super().__enter__()

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        self._patches.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket not in WAITING, f"{func} waits for the GPU"
        if func.overloadpacket in (aten.index, aten.index_put_, aten.index_put):
            assert all(index is None or index.dtype != torch.bool for index in args[1]), f"{func} by a mask"
        return func(*args, **(kwargs or {}))
