"""Pairs of rows that belong together or do not: made, read, checked and completed."""

from __future__ import annotations

from spherepair.constraints.conflicts import Conflict, ConflictReport
from spherepair.constraints.graph import Components
from spherepair.constraints.pairs import Constraints
from spherepair.constraints.summary import ConstraintSummary
from spherepair.constraints.table import Pair

__all__ = [
    "Components",
    "Conflict",
    "ConflictReport",
    "ConstraintSummary",
    "Constraints",
    "Pair",
]
