"""Which fit a checkpoint belongs to: digests of its table, pairs, parameters and encoder."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

from spherepair import __version__

#: Entries of a table that are hashed (2**28 floats are 1 GiB and take a second), and as many at a time.
HASHED_ELEMENTS, BLOCK_ELEMENTS = 2**28, 2**22
#: Parameters that a resumed fit may change: they have no effect before the embedding is cut into clusters.
UNCHECKED_PARAMETERS = {"progress", "clustering", "tail_ratio"}


def fingerprint_fit(model: Any, table: Any, pairs: Any, columns: Any = None) -> dict[str, str]:
    """Digests of what must agree for a fit to resume from a checkpoint.

    Parameters
    ----------
    model : estimator
        Its parameters, and the weights of an encoder of the user's own.
    table : ndarray or CSR matrix of shape (n_rows, n_features)
    pairs : Constraints
    columns : ColumnStatistics, optional
        Of a larger table that this one is a sample of.
    """
    parameters = model.get_params(deep=False).items()
    return {
        "version of spherepair": __version__,
        "data": _hash_table(table) + ("" if columns is None else _hash_statistics(columns)),
        "constraints": _hash_arrays(pairs.left, pairs.right, pairs.is_must_link, pairs.weight),
        "weights of the encoder": _hash_weights(getattr(model, "encoder", None)),
        **{name: _describe(value) for name, value in parameters if name not in UNCHECKED_PARAMETERS},
    }


def _hash_table(X: Any) -> str:
    """Digest of shape, type and rows: all of them, or evenly spaced ones of a very large table."""
    digest = hashlib.sha256(f"{X.shape} {X.dtype}".encode())
    n_hashed = min(X.shape[0], max(1, HASHED_ELEMENTS // X.shape[1]))
    rows = np.unique(np.linspace(0, X.shape[0] - 1, n_hashed).astype(np.int64))
    size = max(1, BLOCK_ELEMENTS // X.shape[1])
    for start in range(0, len(rows), size):
        block = X[rows[start : start + size]]
        parts = (block.indptr, block.indices, block.data) if sparse.issparse(block) else (block,)
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16]


def _hash_statistics(columns: Any) -> str:
    # How many threads took the sums shows in their last digits.
    told = [f"{value:.6g}" for part in (columns.mean, columns.std, columns.largest) for value in part]
    return hashlib.sha256(" ".join(told).encode()).hexdigest()[:16]


def _hash_arrays(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _hash_weights(module: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()) if isinstance(module, nn.Module) else ():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _describe(parameter: Any) -> str:
    """A parameter as another process would print it: without addresses in memory."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(parameter))
