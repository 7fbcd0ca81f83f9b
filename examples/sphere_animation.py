"""Watch training: three digits on a sphere, as a film (sphere.gif) and as a strip (sphere.png)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import normalize

from spherepair import Constraints, SpherePair
from spherepair.plots import SphereEvolution, animate_sphere, plot_sphere_strip, save_animation, save_figure
from spherepair.theory import minimal_omega
from spherepair.training.engine import TrainingState

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "sphere-output")
folder.mkdir(parents=True, exist_ok=True)

X, y = load_digits(n_class=3, return_X_y=True)
rows = torch.tensor(X / 16, dtype=torch.float32)  # scaled here, so that snapshots need no scaling
pairs = Constraints.from_labels(y, n_pairs=500, random_state=0)

snapshots: dict[int, np.ndarray] = {}


def take_snapshot(state: TrainingState) -> None:
    """The estimator calls this after every epoch."""
    with torch.no_grad():
        snapshots[state.epoch] = normalize(state.objective.network.encode(rows), dim=1).numpy()


model = SpherePair(
    n_clusters=3,
    embedding_dim=3,
    omega=minimal_omega(3),  # in three dimensions: as far apart as three clusters can be (theorem 4.4)
    hidden_dims=(64, 64),
    pretraining=None,
    scaling="none",
    min_steps=2,  # short epochs: more snapshots of the start, where most happens
    max_epochs=24,
    stopping="fixed",
    device="cpu",
    random_state=0,
    progress=take_snapshot,
).fit(rows, constraints=pairs)

evolution = SphereEvolution(
    list(snapshots.values()),
    y,
    epochs=list(snapshots),
    constraints=pairs,
    centers=model.cluster_centers_,
    class_names=("digit 0", "digit 1", "digit 2"),
)
save_figure(plot_sphere_strip(evolution), folder / "sphere.png")
save_animation(animate_sphere(evolution, title="Three digits on the sphere"), folder / "sphere.gif")
print(f"{len(snapshots)} snapshots; the last satisfies {model.score_pairs(pairs):.1%} of the pairs.")
print(f"Wrote {folder / 'sphere.png'} and {folder / 'sphere.gif'}.")
