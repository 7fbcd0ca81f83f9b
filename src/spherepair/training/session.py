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
from spherepair.training.randomness import derive_seed
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
        sweeps: Batches | Sequence[Batches],
        *,
        stage: str,
        recipe: Recipe,
        max_epochs: int,
        stopping: StoppingRule | None = None,
        initialise: Callable[[], None] | None = None,
    ) -> None:
        """Train one stage, or take it from the checkpoint where that has it already.

        ``initialise`` sets the stage up (fresh weights, centres) and is left out where it is resumed.
        """
        done = self._checkpoint.finished(stage) if self._checkpoint is not None else None
        if done is not None:
            self.history += done
            return
        if initialise is not None and not self._is_resumed(stage):
            initialise()
        try:
            with self.hardware.current(), torch.random.fork_rng(self._gpus()):
                self.history += train(
                    objective,
                    [sweeps] if isinstance(sweeps, Batches) else sweeps,
                    stage=stage,
                    recipe=recipe,
                    max_epochs=max_epochs,
                    hardware=self.hardware,
                    seed=self.seed,
                    stopping=stopping,
                    monitors=[*self._monitors, self._save, self._seed_layers],
                    resume=self._resume,
                )
        except torch.cuda.OutOfMemoryError as error:
            raise DeviceMemoryError(
                f"the GPU ran out of memory in stage {stage!r}; lower batch_size or hidden_dims, "
                "or use device='cpu'."
            ) from error
        finally:
            self._clear_progress()

    def _resume(self, state: TrainingState) -> None:
        if self._checkpoint is not None:
            self._checkpoint.resume(state)
        self._seed_layers(state)

    def _seed_layers(self, state: TrainingState) -> None:
        """Give the next epoch its own numbers for layers that draw from torch's global generator.

        Dropout in a user's encoder knows no other source. The state of that generator is put back
        after the stage, so nobody outside notices.
        """
        seed = derive_seed(self.seed, state.stage, "layers", state.epoch)
        torch.default_generator.manual_seed(seed)
        if self.hardware.is_cuda:
            torch.cuda.manual_seed(seed)

    def _gpus(self) -> list[int]:
        """Whose generators the layers draw from."""
        return [torch.cuda.current_device()] if self.hardware.is_cuda else []

    def _is_resumed(self, stage: str) -> bool:
        return self._checkpoint is not None and self._checkpoint.stage == stage

    def _clear_progress(self) -> None:
        for monitor in self._monitors:
            if isinstance(monitor, TerminalProgress):
                monitor.close()

    def _save(self, state: TrainingState) -> None:
        if self._checkpoint is not None:
            self._checkpoint.write(self.network, state, self.history)
