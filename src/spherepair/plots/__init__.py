"""Pictures: functions that take arrays and return matplotlib figures, never touching global state."""

from __future__ import annotations

from spherepair.plots.demo import demo_picture
from spherepair.plots.embedding import embedding_map
from spherepair.plots.evolution import SphereEvolution, plot_sphere_strip
from spherepair.plots.figures import save_figure
from spherepair.plots.film import animate_sphere, save_animation
from spherepair.plots.heatmap import plot_constraint_heatmaps
from spherepair.plots.history import training_history
from spherepair.plots.number import plot_tail_angles, tail_angle_curve
from spherepair.plots.projection import plot_projections
from spherepair.plots.scaling import plot_scaling
from spherepair.plots.sweep import plot_imbalance, plot_sweep

__all__ = [
    "SphereEvolution",
    "animate_sphere",
    "demo_picture",
    "embedding_map",
    "plot_constraint_heatmaps",
    "plot_imbalance",
    "plot_projections",
    "plot_scaling",
    "plot_sphere_strip",
    "plot_sweep",
    "plot_tail_angles",
    "save_animation",
    "save_figure",
    "tail_angle_curve",
    "training_history",
]
