"""What SpherePair adds to the loss of the paper, and how much each addition weighs.

The paper's loss has two terms, the angles of the given pairs and the reconstruction error. Rows without
pairs add two more: attraction between neighbors and pairs among confidently clustered rows
(``row_terms.py``). Must-links can weigh more than cannot-links. ``objective.py`` sums the terms and keeps an
exponential moving average of the weights.
"""

from spherepair.terms.objective import Terms

__all__ = ["Terms"]
