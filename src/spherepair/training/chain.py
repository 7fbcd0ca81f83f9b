"""A network as a chain of Linear layers, and when ``training/fused.py`` can train it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Literal

from torch import nn

from spherepair.training.batches import Batches
from spherepair.training.hardware import Hardware
from spherepair.training.rows import ResidentRows

if TYPE_CHECKING:
    from spherepair.training.engine import Recipe

Activation = Literal["linear", "relu", "dropped relu", "sphere"]

#: Rows and columns of the blocks in which the kernels work.
TILE = 64
#: Entries of a weight matrix, padded, that a 32-bit offset reaches.
LARGEST = 2**30


@dataclass(frozen=True)
class Link:
    """One Linear layer of a chain and what its output passes."""

    layer: nn.Linear
    activation: Activation


def can_fuse(links: Sequence[Link], batches: Batches, recipe: Recipe, hardware: Hardware) -> bool:
    """Whether there are kernels for this: Adam or momentum, no clipping, whole tiles, rows on a GPU."""
    whole_tiles = batches.rows_per_step % TILE == 0 and batches.pairs_per_step == 0
    embeddings = [link.layer.out_features for link in links if link.activation == "sphere"]
    return (
        hardware.precision == "mixed"
        and isinstance(batches.rows, ResidentRows)
        and (recipe.optimizer == "adam" or recipe.momentum > 0.0)
        and recipe.clip_norm is None
        and whole_tiles
        and all(width <= TILE for width in embeddings)
        and all(link.layer.weight.numel() < LARGEST for link in links)
        and find_spec("triton") is not None
    )


def load_kernels_ahead(hardware: Hardware) -> None:
    """Begin to load Triton, which takes a second, while the host is busy with the rows."""
    if hardware.precision != "mixed":
        return

    def load() -> None:
        with suppress(Exception):  # whoever needs it will see the error
            import_module("spherepair.training.fused")

    Thread(target=load, daemon=True).start()
