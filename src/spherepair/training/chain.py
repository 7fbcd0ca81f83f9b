"""A network as a chain of Linear layers, and when the kernels of our own can train it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from spherepair.networks.mlp import MLP
from spherepair.training.batches import Batches
from spherepair.training.hardware import Hardware, choose_hardware
from spherepair.training.optimizers import SGD, Adam, Optimizer
from spherepair.training.rows import ResidentRows

if TYPE_CHECKING:
    from spherepair.training.engine import Objective, Recipe
    from spherepair.training.fused_pass import FusedPass

logger = logging.getLogger(__name__)

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
    """Whether there are kernels for whole steps: on whole tiles of rows without pairs."""
    whole_tiles = batches.rows_per_step % TILE == 0 and batches.pairs_per_step == 0
    return whole_tiles and has_kernels(links, batches, recipe, hardware)


def has_kernels(links: Sequence[Link], batches: Batches, recipe: Recipe, hardware: Hardware) -> bool:
    """Whether there are kernels for the layers: Adam or momentum, no clipping, rows on a GPU."""
    embeddings = [link.layer.out_features for link in links if link.activation == "sphere"]
    return (
        hardware.precision == "mixed"
        and isinstance(batches.rows, ResidentRows)
        and (recipe.optimizer == "adam" or recipe.momentum > 0.0)
        and recipe.clip_norm is None
        and all(width <= TILE for width in embeddings)
        and all(link.layer.weight.numel() < LARGEST for link in links)
        and find_spec("triton") is not None
    )


def are_trained(links: Sequence[Link], optimizer: Optimizer) -> bool:
    """Whether the optimiser has all weights and biases of the chain: none of them is frozen."""
    return all(
        parameter in optimizer.state for link in links for parameter in (link.layer.weight, link.layer.bias)
    )


def fuse_passes(
    objective: Objective,
    sweeps: Sequence[Batches],
    optimizer: Optimizer,
    recipe: Recipe,
    hardware: Hardware,
) -> list[FusedPass]:
    """Passes of an objective's networks in kernels of our own, where there are some; to be closed."""
    taken: list[FusedPass] = []
    if not objective.passes_once or not isinstance(optimizer, SGD | Adam) or len(optimizer.groups) > 1:
        return taken
    for network in [module for module in objective.modules() if isinstance(module, MLP)]:
        links = links_of(network)
        if (
            not links
            or not has_kernels(links, sweeps[0], recipe, hardware)
            or not are_trained(links, optimizer)
        ):
            continue
        wait_for_kernels()
        n_rows = {2 * batches.pairs_per_step + batches.rows_per_step for batches in sweeps}
        try:
            from spherepair.training.fused_pass import FusedPass

            taken.append(FusedPass(network, links, optimizer, sorted(n_rows)))
        except Exception as error:  # Triton raises what its compilers raise
            logger.info("the pass cannot be fused here (%s); using autograd", error)
    return taken


@contextmanager
def taking_over(passes: Sequence[FusedPass]) -> Iterator[None]:
    """For one forward pass of a training step: rows go through these, and never at other times."""
    for taken in passes:
        taken.network.fused = taken
    try:
        yield
    finally:
        for taken in passes:
            taken.network.fused = None


def links_of(network: MLP) -> list[Link] | None:
    """Linear layers with ReLU between them, and none at the end; ``None`` where it is something else."""
    layers = network.chain()
    if layers is None or len(network) == 2 * len(layers):
        return None
    return [*(Link(layer, "relu") for layer in layers[:-1]), Link(layers[-1], "linear")]


#: What :func:`load_kernels_ahead` has begun, by device and kernels: once a process.
_ahead: dict[tuple[str, str], Thread] = {}
_beginning = Lock()


def load_kernels_ahead(
    device: str | torch.device, precision: str, chain: Mapping[str, bool] | None = None
) -> None:
    """Begin to load Triton, and to compile the kernels of a chain, while the host is busy with other things.

    Triton takes up to a second to load, and where nothing is kept on disk yet two more to compile.
    """
    is_gpu = str(device).startswith(("auto", "cuda"))
    if not is_gpu or precision != "auto" or not torch.cuda.device_count() or find_spec("triton") is None:
        return
    if str(device) in ("auto", "cuda"):
        has_begun = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        device = f"cuda:{torch.cuda.current_device() if has_begun else 0}"  # each thread has its own
    with _beginning:
        key = str(device), repr(chain)
        if key not in _ahead:
            _ahead[key] = Thread(target=_load, args=(device, precision, chain))
            _ahead[key].start()


def wait_for_kernels() -> None:
    """Until what was begun ahead is done: several threads would compile the same kernels again."""
    with _beginning:
        begun = list(_ahead.values())
    for thread in begun:
        thread.join()


def _load(device: str | torch.device, precision: str, chain: Mapping[str, bool] | None) -> None:
    with suppress(Exception):  # whoever needs it will see the error
        runtime = import_module("triton.runtime")
        hardware = choose_hardware(device, precision)
        if hardware.precision != "mixed":
            return
        # What Triton does before its first kernel.
        readying = [Thread(target=work, args=(runtime,)) for work in (_hash, _link)]
        for thread in readying:
            thread.start()
        fused = import_module("spherepair.training.fused")
        with hardware.current():
            parts = None if chain is None else fused.smallest_chain(hardware.device, **chain)
            for thread in readying:
                thread.join()
            if parts is not None:
                fused.FusedChain(*parts, factor=1.0, corruption=0.0, dropout=0.0).close()


def _hash(runtime: Any) -> None:
    """Let Triton hash itself; it keeps the result."""
    with suppress(Exception):  # an older Triton has it elsewhere
        runtime.cache.triton_key()


def _link(runtime: Any) -> None:
    """Let Triton build, or find, its link to CUDA; once, not once in every thread that compiles."""
    with suppress(Exception):
        _ = runtime.driver.active
