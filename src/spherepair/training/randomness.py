"""Random streams by name: every draw in the package comes from one seed, none from global state.

A stream is a pure function of (seed, names), for instance ("pairs", epoch 7). Nothing has to be
carried along for an interrupted fit to go on with the very numbers it would have drawn.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from sklearn.utils import check_random_state


def resolve_seed(random_state: int | np.random.RandomState | None) -> int:
    """One 31-bit seed from whatever scikit-learn accepts as ``random_state``.

    Examples
    --------
    >>> resolve_seed(7) == resolve_seed(7)
    True
    """
    return int(check_random_state(random_state).randint(0, 2**31 - 1))


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream of that name.

    Examples
    --------
    >>> derive_seed(0, "pairs", 1) == derive_seed(0, "pairs", 1)
    True
    >>> derive_seed(0, "pairs", 1) == derive_seed(0, "pairs", 2)
    False
    """
    words = [zlib.crc32(name.encode()) if isinstance(name, str) else name for name in names]
    state = np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)
    return int(state[0] >> 1)


def torch_generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator at the start of the stream of that name."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *names))
