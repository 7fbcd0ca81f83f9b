"""A fit as a sequence of stages (pretraining, pairs) with one history, resumable after any epoch.

After every epoch a checkpoint is replaced, from which a later fit resumes: one safetensors file, whose header
carries the rest as JSON; nothing in it is ever executed. Also the line of progress on the terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self, TextIO

import torch
from torch import Tensor, nn

from spherepair.errors import DeviceMemoryError, InvalidParameterError, ModelFileError, quoted
from spherepair.files import file_lock
from spherepair.persistence import read_tensor_file, write_tensor_file
from spherepair.persistence.fingerprints import fingerprint_fit
from spherepair.persistence.schema import check_checkpoint, check_weights
from spherepair.training import Monitor, Plan, Record, TrainingState, train
from spherepair.training.hardware import Hardware, derive_seed
from spherepair.training.optimization import StoppingRule

#: Seconds before progress is shown, and between two updates of it.
QUIET_SECONDS, REFRESH_SECONDS = 2.0, 0.1
CHECKPOINT_FILE, LOCK_FILE = "checkpoint.safetensors", ".lock"
_KNOWN_LAYERS = (nn.Linear, nn.ReLU, nn.Sequential, nn.Identity, nn.BatchNorm1d, nn.LayerNorm)
#: Held by the fit whose layers draw from torch's global generator.
_GLOBAL_GENERATOR = threading.RLock()
_NETWORK, _OPTIMIZER, _OBJECTIVE, _KEPT = "network.", "optimizer.", "objective.", "kept."


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
    kept : dict of str to Tensor
        What later stages need of earlier ones; part of every checkpoint.
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
        self.kept: dict[str, Tensor] = {}
        self._checkpoint, self._monitors = checkpoint, list(monitors)
        self._draws = not all(map(_is_known_layer, network.modules()))
        if checkpoint is not None:
            checkpoint.restore_network(network)
            self.kept = checkpoint.kept()

    def run_stage(
        self,
        plan: Plan,
        *,
        stage: str,
        max_epochs: int,
        stopping: StoppingRule | None = None,
        initialize: Callable[[], None] | None = None,
    ) -> None:
        """Train one stage, or read it from the checkpoint where it is finished there.

        ``initialize`` sets the stage up (fresh weights, centers); a resumed stage skips it.
        """
        if self.take_finished(stage):
            return
        if initialize is not None and not self.is_resumed(stage):
            initialize()
        self.hardware.keep_freed_memory()
        try:
            with self.hardware.current(), self._random_layers():
                self.history += train(
                    plan,
                    stage=stage,
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

    def take_finished(self, stage: str) -> bool:
        """Take over the records of a stage that is finished in the checkpoint; False where it is not."""
        done = self._checkpoint.finished(stage) if self._checkpoint is not None else None
        self.history += done or []
        return done is not None

    def _resume(self, state: TrainingState) -> None:
        if self._checkpoint is not None:
            self._checkpoint.resume(state)
        self._seed_layers(state)

    def _seed_layers(self, state: TrainingState) -> None:
        """Seed torch's global generator for the next epoch, where layers draw from it."""
        if not self._draws:
            return
        seed = derive_seed(self.seed, state.stage, "layers", state.epoch)
        torch.default_generator.manual_seed(seed)
        if self.hardware.is_cuda:
            torch.cuda.manual_seed(seed)

    @contextmanager
    def _random_layers(self) -> Iterator[None]:
        """Let the layers of a user's encoder, such as dropout, draw from torch's global generator.

        There is but one, so fits with such layers take turns, and its state is restored.
        """
        if not self._draws:
            yield
            return
        with _GLOBAL_GENERATOR, torch.random.fork_rng(self._gpus()):
            yield

    def _gpus(self) -> list[int]:
        """GPUs whose generators the layers draw from."""
        return [torch.cuda.current_device()] if self.hardware.is_cuda else []

    def restore(self, network: nn.Module, prefix: str) -> None:
        """Load weights that an earlier stage has kept under names that begin so."""
        weights = _section(self.kept, prefix)
        with self.reading():
            check_weights(network.state_dict(), weights)
            network.load_state_dict(weights)

    def reading(self) -> AbstractContextManager[None]:
        """Turn whatever is raised by what was kept, and does not fit, into one error."""
        return nullcontext() if self._checkpoint is None else self._checkpoint.reading()

    def is_resumed(self, stage: str) -> bool:
        """Whether a checkpoint holds part of this stage."""
        return self._checkpoint is not None and self._checkpoint.stage == stage

    def _clear_progress(self) -> None:
        for monitor in self._monitors:
            if isinstance(monitor, TerminalProgress):
                monitor.close()

    def _save(self, state: TrainingState) -> None:
        if self._checkpoint is not None:
            self._checkpoint.write(self.network, state, self.history, self.kept)


def _is_known_layer(module: nn.Module) -> bool:
    """Whether a module surely draws no random numbers; ours draw from generators of their own."""
    return type(module) in _KNOWN_LAYERS or type(module).__module__.startswith("spherepair.")


@contextmanager
def checkpoint_lock(folder: str | Path | None) -> Iterator[None]:
    """Make the folder of a checkpoint and keep other fits out of it while the block runs."""
    if folder is None:
        yield
        return
    with ExitStack() as held:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            is_mine = held.enter_context(file_lock(Path(folder) / LOCK_FILE))
        except OSError as error:
            raise ModelFileError(
                f"the checkpoint {folder} cannot be written ({error.strerror}); give another folder."
            ) from error
        if not is_mine:
            raise ModelFileError(
                f"{folder} is the checkpoint of a fit that is running; wait for it, or give another folder."
            )
        yield


class Checkpoint:
    """The state of an interrupted fit in a folder.

    Parameters
    ----------
    folder : path
    fingerprint : dict of str
        What must agree for a fit to resume from this checkpoint, by name: data, pairs, parameters.

    Attributes
    ----------
    stage : str or None
        The stage in which the earlier fit was, ``None`` where there is nothing to resume.
    seed : int or None
        The seed of the earlier fit.
    """

    def __init__(self, folder: str | Path, fingerprint: dict[str, str]) -> None:
        self._file = Path(folder) / CHECKPOINT_FILE
        self._fingerprint = fingerprint
        self._seed: int | None = None
        self._tensors: dict[str, Tensor] = {}
        self._manifest: dict[str, Any] = {}
        if self._file.exists():
            self._manifest, self._tensors = read_tensor_file(self._file)
            with self.reading():
                check_checkpoint(self._manifest, self._tensors)
            self._refuse_other_fit()

    @classmethod
    def of(cls, model: Any, folder: str | Path, table: Any, pairs: Any, columns: Any) -> Self:
        """The checkpoint of a fit of this estimator to these rows, pairs and statistics of columns."""
        return cls(folder, fingerprint_fit(model, table, pairs, columns))

    @property
    def stage(self) -> str | None:
        """The stage to resume."""
        return self._manifest.get("stage")

    def seed(self, drawn: int) -> int:
        """The seed of the fit that is resumed, or the one just drawn for a new fit."""
        self._seed = int(self._manifest.get("seed", drawn))
        return self._seed

    def restore_network(self, network: nn.Module) -> None:
        """Load the weights, if there are any."""
        weights = _section(self._tensors, _NETWORK)
        if weights:
            with self.reading():
                check_weights(network.state_dict(), weights)
                network.load_state_dict(weights)

    def kept(self) -> dict[str, Tensor]:
        """What earlier stages have left for later ones."""
        return _section(self._tensors, _KEPT)

    def finished(self, stage: str) -> list[Record] | None:
        """The records of a finished stage; ``None`` if it is still to be run."""
        records = [record for record in self._manifest.get("history", []) if record["stage"] == stage]
        return records or None

    def resume(self, state: TrainingState) -> None:
        """Bring a fresh state of the interrupted stage to where it was."""
        if self.stage != state.stage:
            return
        # The network's own weights are missing here: they have a section of their own.
        with self.reading():
            loaded = state.objective.load_state_dict(_section(self._tensors, _OBJECTIVE), strict=False)
        if loaded.unexpected_keys:
            raise ModelFileError(
                f"checkpoint {self._file.parent} was written by other code, which also stores "
                f"{', '.join(loaded.unexpected_keys)}; give another folder or remove this one to start anew."
            )
        state.records.extend(self._manifest["records"])
        state.monitored.extend(self._manifest["monitored"])
        with self.reading():
            state.optimizer.restore(_section(self._tensors, _OPTIMIZER))
        self._manifest, self._tensors = {}, {}

    def write(
        self, network: nn.Module, state: TrainingState, history: list[Record], kept: dict[str, Tensor]
    ) -> None:
        """Replace the file by the present state."""
        manifest = {
            "fingerprint": self._fingerprint,
            "seed": self._seed,
            "stage": state.stage,
            "records": state.records,
            "monitored": state.monitored,
            "history": history,
        }
        inside = {tensor.data_ptr() for tensor in network.state_dict().values()}
        outside = {k: v for k, v in state.objective.state_dict().items() if v.data_ptr() not in inside}
        tensors = {
            **_prefixed(network.state_dict(), _NETWORK),
            **_prefixed(outside, _OBJECTIVE),
            **_prefixed(state.optimizer.tensors(), _OPTIMIZER),
            **_prefixed(kept, _KEPT),
        }
        write_tensor_file(self._file, manifest, tensors)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn whatever a checkpoint raises that does not fit into one error."""
        try:
            yield
        except Exception as error:
            raise ModelFileError(
                f"{self._file} does not fit ({quoted(error, 300)}); remove it to start anew."
            ) from error

    def _refuse_other_fit(self) -> None:
        found = self._manifest.get("fingerprint", {})
        differing = sorted(
            k for k in {*found, *self._fingerprint} if found.get(k) != self._fingerprint.get(k)
        )
        if differing:
            raise ModelFileError(
                f"checkpoint {self._file.parent} belongs to another fit: it differs in "
                f"{', '.join(differing)}; give another folder or remove this one to start anew."
            )


def _prefixed(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _section(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


class TerminalProgress:
    """Writes stage, epoch and loss over one line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._started = self._last = time.monotonic()

    def __call__(self, state: TrainingState) -> None:
        """Show the state, unless training has just begun or the line was just written."""
        now = time.monotonic()
        is_end = state.epoch == state.max_epochs
        if now - self._started < QUIET_SECONDS or (now - self._last < REFRESH_SECONDS and not is_end):
            return
        self._last = now
        loss = state.records[-1]["loss"]
        self._stream.write(f"\r{state.stage}: epoch {state.epoch}/{state.max_epochs}, loss {loss:.4f}\x1b[K")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._last > self._started:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def resolve_progress(progress: bool | str | Callable[[TrainingState], None]) -> Monitor | None:
    """The monitor for a ``progress`` parameter.

    ``"auto"`` shows progress where a person is watching (an interactive terminal), ``True`` always,
    ``False`` never; a callable is called with the state after every epoch.
    """
    if callable(progress):
        return progress
    if progress == "auto":
        progress = sys.stderr.isatty()
    if not isinstance(progress, bool):
        raise InvalidParameterError(
            f"progress must be 'auto', True, False or a callable, got {quoted(progress)} instead."
        )
    return TerminalProgress(sys.stderr) if progress else None
