"""Plots of models and measurements with matplotlib.

Every ``plot_*`` function returns the :class:`matplotlib.figure.Figure` and, except for the grid of
``plot_sphere_strip``, takes the axes to draw into (``ax=``; a new figure if not given). Functions that
show a model take the fitted model itself, or its arrays. None touches pyplot's global state.
"""

from __future__ import annotations

from spherepair.plots.evolution import SphereEvolution, animate_sphere, plot_sphere_strip
from spherepair.plots.globe import plot_sphere
from spherepair.plots.heatmaps import plot_constraint_heatmaps
from spherepair.plots.lines import plot_imbalance, plot_scaling, plot_sweep
from spherepair.plots.model_curves import plot_cluster_number, plot_history, plot_tail_angles
from spherepair.plots.scatter import plot_embedding, plot_projections
from spherepair.plots.style import save_animation, save_figure

__all__ = [
    "SphereEvolution",
    "animate_sphere",
    "plot_cluster_number",
    "plot_constraint_heatmaps",
    "plot_embedding",
    "plot_history",
    "plot_imbalance",
    "plot_projections",
    "plot_scaling",
    "plot_sphere",
    "plot_sphere_strip",
    "plot_sweep",
    "plot_tail_angles",
    "save_animation",
    "save_figure",
]
