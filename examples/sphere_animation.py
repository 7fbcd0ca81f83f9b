"""
Watch training
==============

Three digits on a sphere while training goes on. ``python sphere_animation.py FOLDER`` also writes a film.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import normalize

from spherepair import Constraints, Schedule, SpherePair
from spherepair.plots import SphereEvolution, animate_sphere, plot_sphere, save_animation
from spherepair.theory import minimal_omega

X, y = load_digits(n_class=3, return_X_y=True)
rows = torch.tensor(X / 16, dtype=torch.float32)  # scaled here, so that snapshots need no scaling
pairs = Constraints.from_labels(y, n_pairs=500, random_state=0)

# %%
# A callable given as ``progress`` gets the training state after every epoch.
snapshots: dict[int, np.ndarray] = {}


def take_snapshot(state) -> None:
    with torch.no_grad():
        snapshots[state.epoch] = normalize(state.objective.network.encode(rows), dim=1).numpy()


model = SpherePair(
    n_clusters=3,
    embedding_dim=3,
    omega=minimal_omega(3),  # in three dimensions: as far apart as three clusters can be (theorem 4.4)
    hidden_dims=(64, 64),
    pretraining=None,
    scaling="none",
    schedule=Schedule(min_steps=2),  # short epochs: more snapshots of the start, where most happens
    max_epochs=24,
    stopping="fixed",
    device="cpu",
    random_state=0,
    progress=take_snapshot,
).fit(rows, constraints=pairs)
print(f"{len(snapshots)} snapshots; the last satisfies {model.score_pairs(pairs):.1%} of the pairs.")

# %%
evolution = SphereEvolution(list(snapshots.values()), y, epochs=list(snapshots), constraints=pairs)
shown = evolution.turned(n_pairs=12)  # the same view for all
figure, panels = plt.subplots(1, 4, figsize=(10, 3), layout="constrained")
for ax, place in zip(panels, (0, 3, 8, len(snapshots) - 1), strict=True):
    plot_sphere(shown.frames[place], y, constraints=shown.constraints, ax=ax)
    ax.set_title(f"epoch {evolution.times()[place]}")
plt.show()

if len(sys.argv) > 1:  # a folder for the film
    save_animation(animate_sphere(evolution, title="Three digits"), Path(sys.argv[1]) / "sphere.gif")
