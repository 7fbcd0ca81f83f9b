"""Pictures: functions that take arrays and return matplotlib figures, never touching global state."""

from __future__ import annotations

from spherepair.plots.demo import demo_picture
from spherepair.plots.embedding import embedding_map
from spherepair.plots.figures import save_figure
from spherepair.plots.history import training_history
from spherepair.plots.number import tail_angle_curve

__all__ = ["demo_picture", "embedding_map", "save_figure", "tail_angle_curve", "training_history"]
