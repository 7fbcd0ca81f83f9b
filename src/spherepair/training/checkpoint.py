"""Checkpoints: one file per fit, replaced after every epoch, that a later fit goes on from.

The file is safetensors, whose header carries the rest as JSON; nothing in it is ever executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from spherepair.errors import ModelFileError
from spherepair.persistence import read_tensor_file, write_tensor_file
from spherepair.training.engine import Record, TrainingState

CHECKPOINT_FILE = "checkpoint.safetensors"
_NETWORK, _OPTIMIZER, _OBJECTIVE = "network.", "optimizer.", "objective."


class Checkpoint:
    """The state of an interrupted fit in a folder.

    Parameters
    ----------
    folder : path
    fingerprint : dict of str
        What must agree for a fit to go on from this checkpoint, by name: data, pairs, parameters.

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
            self._refuse_other_fit()

    @property
    def stage(self) -> str | None:
        """The stage to go on with."""
        return self._manifest.get("stage")

    def seed(self, drawn: int) -> int:
        """The seed of the fit that is resumed, or the one just drawn for a new fit."""
        self._seed = int(self._manifest.get("seed", drawn))
        return self._seed

    def restore_network(self, network: nn.Module) -> None:
        """Load the weights, if there are any."""
        weights = _section(self._tensors, _NETWORK)
        if weights:
            network.load_state_dict(weights)

    def finished(self, stage: str) -> list[Record] | None:
        """The records of a stage that lies wholly behind; ``None`` if it is still to be run."""
        records = [record for record in self._manifest.get("history", []) if record["stage"] == stage]
        return records or None

    def resume(self, state: TrainingState) -> None:
        """Bring a fresh state of the interrupted stage to where it was."""
        if self.stage != state.stage:
            return
        # The network's own weights are missing there: they are in a section of theirs.
        kept = state.objective.load_state_dict(_section(self._tensors, _OBJECTIVE), strict=False)
        if kept.unexpected_keys:
            raise ModelFileError(
                f"checkpoint {self._file.parent} was written by another state of this version, which keeps "
                f"{', '.join(kept.unexpected_keys)}; give another folder or remove this one to start anew."
            )
        state.records.extend(self._manifest["records"])
        state.monitored.extend(self._manifest["monitored"])
        state.optimizer.restore(_section(self._tensors, _OPTIMIZER))
        self._manifest, self._tensors = {}, {}

    def write(self, network: nn.Module, state: TrainingState, history: list[Record]) -> None:
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
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_tensor_file(self._file, manifest, tensors)

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
