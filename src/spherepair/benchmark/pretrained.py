"""Pretraining that is done once and then shared, by the runs of a grid and by the processes that do them.

The paper's trials share their autoencoder: one for each data set and size of the embedding. Weights lie
under a key of all they depend on; whoever needs them first makes them, others wait.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from spherepair.benchmark.claims import claim
from spherepair.benchmark.environment import DATA_REVISIONS
from spherepair.benchmark.grid import content_key
from spherepair.errors import ModelFileError
from spherepair.networks import Autoencoder
from spherepair.persistence import read_tensor_file, write_tensor_file
from spherepair.training.pretraining import JointPretraining, StackedPretraining
from spherepair.training.rows import RowSource
from spherepair.training.session import Session


@dataclass
class SharedPretraining:
    """A pretraining whose weights are kept in a folder; give it to an estimator as ``pretraining``.

    Parameters
    ----------
    method : JointPretraining or StackedPretraining
        What makes the weights.
    data : mapping
        What names the rows: data set, classes, scaling.
    folder : Path
        Where weights are kept.
    seed : int or None, default=None
        Of the pretraining, so that fits with other seeds share it. ``None`` takes that of the fit; the
        result is then the very one it would have without sharing.

    Attributes
    ----------
    seconds : float
        How long it took whoever made the weights.
    was_made_here : bool
        Whether this fit has made them itself.
    """

    method: JointPretraining | StackedPretraining
    data: Mapping[str, Any]
    folder: Path = field(repr=False)
    seed: int | None = None
    seconds: float = field(default=0.0, init=False, repr=False, compare=False)
    was_made_here: bool = field(default=False, init=False, repr=False, compare=False)

    def run(self, network: Autoencoder, rows: RowSource, session: Session) -> None:
        """Give ``network`` the kept weights, making them first where there are none."""
        identity = self._identity(network, rows, session)
        path = self.folder / f"{content_key(identity)}.safetensors"
        kept = _read(path)
        if kept is None:
            with claim(path.with_suffix(".claim"), wait=True):
                kept = _read(path)
                if kept is None:
                    self._make(network, rows, session, identity=identity, path=path)
                    return
        manifest, tensors = kept
        network.load_state_dict(tensors)
        session.history += manifest["history"]
        self.seconds, self.was_made_here = float(manifest["seconds"]), False

    def _make(
        self, network: Autoencoder, rows: RowSource, session: Session, *, identity: dict[str, Any], path: Path
    ) -> None:
        started = time.perf_counter()
        own = Session(network, session.hardware, session.seed if self.seed is None else self.seed)
        self.method.run(network, rows, own)
        session.history += own.history
        self.seconds, self.was_made_here = time.perf_counter() - started, True
        manifest = {"identity": identity, "history": own.history, "seconds": self.seconds}
        write_tensor_file(path, manifest, network.state_dict())

    def _identity(self, network: Autoencoder, rows: RowSource, session: Session) -> dict[str, Any]:
        """All that the weights depend on; the key adds the code."""
        method: Any = self.method
        if isinstance(method, JointPretraining):  # with what it chooses itself
            chosen = {"epochs": method.n_epochs(rows, session), "batch_size": method.step_rows(rows, session)}
            method = replace(method, **chosen)
        return {
            "data": dict(self.data),
            "method": repr(method),
            "network": [[name, list(tensor.shape)] for name, tensor in network.state_dict().items()],
            "spherical": bool(getattr(network, "spherical", False)),
            "seed": session.seed if self.seed is None else self.seed,
            # Sums come out otherwise on another kind of device, and in another precision by far.
            "device": session.hardware.device.type,
            "precision": session.hardware.precision,
            # With a seed of its own every layer is drawn anew, so where it started does not matter.
            "start": _digest(network) if self.seed is None else None,
        }


def data_identity(dataset: str, classes: tuple[int, ...] | None = None) -> dict[str, Any]:
    """What names the rows of a data set, or of some of its classes, as they are prepared now.

    Examples
    --------
    >>> data_identity("mnist")
    {'dataset': 'mnist', 'classes': None}
    """
    revision = DATA_REVISIONS.get(dataset)
    named = {"dataset": dataset, "classes": classes}
    return named if revision is None else {**named, "revision": revision}


def share_pretraining(model: Any, data: Mapping[str, Any], folder: Path) -> SharedPretraining | None:
    """Let an unfitted estimator share its pretraining, where it has one that can be shared.

    The stacked protocol, made with seed 0, serves fits of all seeds, as in the authors' code; the joint one
    serves fits of the same seed, and changes nothing but the time.
    """
    chosen = model.get_params(deep=False).get("pretraining")
    known = {"joint": JointPretraining, "stacked": StackedPretraining}
    method = known[chosen]() if chosen in ("joint", "stacked") else chosen
    if not isinstance(method, (JointPretraining, StackedPretraining)):
        return None
    seed = 0 if isinstance(method, StackedPretraining) else None
    identity = {**data, "scaling": model.get_params(deep=False).get("scaling")}
    shared = SharedPretraining(method, identity, folder, seed)
    model.set_params(pretraining=shared)
    return shared


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The kept weights; a file that is not whole counts as none and is written again."""
    if not path.exists():
        return None
    try:
        return read_tensor_file(path)
    except ModelFileError:
        return None


def _digest(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for tensor in network.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
