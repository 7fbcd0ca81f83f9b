"""A fit as a sequence of stages (pretraining, pairs) with one history, resumable after any epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from spherepair.errors import DeviceMemoryError
from spherepair.training.batches import Batches
from spherepair.training.checkpoint import Checkpoint
from spherepair.training.engine import Monitor, Objective, Recipe, Record, TrainingState, train
from spherepair.training.hardware import Hardware
from spherepair.training.progress import TerminalProgress
from spherepair.training.stopping import StoppingRule


class Session:
    """Runs the stages of one fit.

    Parameters
    ----------
    network : nn.Module
        What the stages train, each the whole or a part of it.
    hardware : Hardware
    seed : int
    checkpoint : Checkpoint, optional
        Written after every epoch; stages that it holds as finished are not run again.
    monitors : sequence of callables
        Called after every epoch.

    Attributes
    ----------
    history : list of dict
        One record per epoch of all stages so far.
    """

    def __init__(
        self,
        network: nn.Module,
        hardware: Hardware,
        seed: int,
        *,
        checkpoint: Checkpoint | None = None,
        monitors: Sequence[Monitor] = (),
    ) -> None:
        self.network, self.hardware, self.seed = network, hardware, seed
        self.history: list[Record] = []
        self._checkpoint, self._monitors = checkpoint, list(monitors)
        if checkpoint is not None:
            checkpoint.restore_network(network)

    def run_stage(
        self,
        objective: Objective,
        batches: Batches,
        *,
        stage: str,
        recipe: Recipe,
        max_epochs: int,
        stopping: StoppingRule | None = None,
        initialise: Callable[[], None] | None = None,
    ) -> None:
        """Train one stage, or take it from the checkpoint where that has it already."""
        done = self._checkpoint.finished(stage) if self._checkpoint is not None else None
        if done is not None:
            self.history += done
            return
        if initialise is not None and not self._is_resumed(stage):
            initialise()
        try:
            self.history += train(
                objective,
                batches,
                stage=stage,
                recipe=recipe,
                max_epochs=max_epochs,
                hardware=self.hardware,
                seed=self.seed,
                stopping=stopping,
                monitors=[*self._monitors, self._save],
                resume=self._checkpoint.resume if self._checkpoint is not None else None,
            )
        except torch.cuda.OutOfMemoryError as error:
            raise DeviceMemoryError(
                f"the GPU ran out of memory in stage {stage!r}; lower batch_size or hidden_dims, "
                "or use device='cpu'."
            ) from error
        finally:
            self._clear_progress()

    def _is_resumed(self, stage: str) -> bool:
        return self._checkpoint is not None and self._checkpoint.stage == stage

    def _clear_progress(self) -> None:
        for monitor in self._monitors:
            if isinstance(monitor, TerminalProgress):
                monitor.close()

    def _save(self, state: TrainingState) -> None:
        if self._checkpoint is not None:
            self._checkpoint.write(self.network, state, self.history)
