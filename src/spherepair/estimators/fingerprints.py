"""What must agree for a fit to go on from a checkpoint, as short digests."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

from spherepair.constraints import Constraints
from spherepair.version import __version__

#: Entries that go into the fingerprint of a table: 2**28 floats are 1 GiB, hashed in about a second.
ELEMENTS = 2**28
#: Entries hashed at a time.
BLOCK_ELEMENTS = 2**22
#: Parameters that may differ: they change nothing before the embedding is cut into clusters.
IRRELEVANT = {"checkpoint", "progress", "on_conflict", "clustering", "tail_ratio"}


def fingerprint_fit(model: Any, table: Any, pairs: Constraints) -> dict[str, str]:
    """Version, rows, pairs, the weights of an encoder of the user's own, and the parameters that matter."""
    parameters = model.get_params(deep=False).items()
    return {
        "version of spherepair": __version__,
        "data": _table(table),
        "constraints": _pairs(pairs),
        "weights of the encoder": _module(getattr(model, "encoder", None)),
        **{name: _describe(value) for name, value in parameters if name not in IRRELEVANT},
    }


def _table(X: Any) -> str:
    """A short digest of shape, type and rows: all of them, or evenly spaced ones of a very large table."""
    digest = hashlib.sha256(f"{X.shape} {X.dtype}".encode())
    n_hashed = min(X.shape[0], max(1, ELEMENTS // X.shape[1]))
    rows = np.unique(np.linspace(0, X.shape[0] - 1, n_hashed).astype(np.int64))
    size = max(1, BLOCK_ELEMENTS // X.shape[1])
    for start in range(0, len(rows), size):
        block = X[rows[start : start + size]]
        parts = (block.indptr, block.indices, block.data) if sparse.issparse(block) else (block,)
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16]


def _module(module: nn.Module | None) -> str:
    """A short digest of the weights of an encoder of the user's own."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()) if module is not None else ():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _pairs(constraints: Constraints) -> str:
    """A short digest of the pairs in their order."""
    digest = hashlib.sha256()
    for part in (constraints.left, constraints.right, constraints.is_must_link, constraints.weight):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]


def _describe(parameter: Any) -> str:
    """A parameter in words that another process would use too: without addresses in memory."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(parameter))
