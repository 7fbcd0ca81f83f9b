"""The constants of cluster-number inference, in one place.

How they were derived and fitted is in ``docs/cluster-number.md``.
"""

from __future__ import annotations

import numpy as np

# Shares of the tail around ``tail_ratio``; 0.05 gives 0.03, 0.05, 0.07 and 0.1, the paper's range.
TAIL_RATIO_FACTORS = (0.6, 1.0, 1.4, 2.0)
# Resamples times pairs that are drawn at most, but a few resamples of however many pairs.
RESAMPLED_PAIRS = 400_000
FEWEST_RESAMPLES = 4
# δ̄_d of this many pairs has a standard error far below a degree; more pairs only cost time.
LARGEST_PAIR_SAMPLE = 200_000

# Steps of the curve below half a degree are not told apart.
ANGLE_RESOLUTION = float(np.radians(0.5))
SMALLEST_SILHOUETTE_RANGE = 0.02

# Share of cannot-links that may run inside a cluster by mistake (rows in the wrong cluster).
PAIR_ERROR_SHARE = 0.05
# Relative errors that more pairs do not lower: of the class count, and of the size of a cluster.
COUNT_TOLERANCE = 0.02
SIZE_TOLERANCE = 0.1
# Odds that counts mislead, because somebody chose the pairs: evidence from counts is bounded by it.
EVIDENCE_FLOOR = 0.03
# The scan of partitions: samples of rows and pairs, K-means steps after each cut of the tree, and what
# is added to the heights of the tree, as a share of the largest.
SCAN_RUNS = 4
SCAN_ROWS = 2500
SCAN_SHARE = 0.8
LARGEST_SCAN_PAIRS = 30_000
SCAN_KMEANS_STEPS = 3
HEIGHT_RESOLUTION = 0.5
# Rows that the paper's two alternatives look at, each run of K-means and the Ward tree.
SILHOUETTE_ROWS = 5000
LIFETIME_ROWS = 15_000

# Conditional logit models; signs as the theory asks, sizes from bench/cluster_number_fit.py.
TAIL_ANGLE_COEFFICIENTS = {"rise_into": 1.68, "rise_after": -1.77, "below_band": -0.84}
SILHOUETTE_COEFFICIENTS = {"silhouette": 6.74}
LIFETIME_COEFFICIENTS = {"lifetime": 2.93}
CONSENSUS_COEFFICIENTS = {"rise_after": -0.5, "counted": 1.31, "sized": 0.91, "merged": -0.64, "gap": 0.91}

# Doubts: rows and pairs looked at, limits, and the confidence that is left at most.
DOUBT_ROWS = 600
DOUBT_PAIRS = 10_000
LINKS_PER_BORDER = 4
LARGEST_SHARE_AT_THE_END = 0.3
EXTRA_CLUSTERS = 3
SMALLEST_EXPECTED_LINKS = 20
BARE_SHARE = 0.1
LARGEST_SIZE_RATIO = 4.0
SMALLEST_SHARE_TOGETHER = 0.7
LARGEST_COUNT_DISTANCE = 4.0
LARGEST_MERGE_EVIDENCE = 30.0
CEILING_FEW_PAIRS = 0.8
CEILING_NO_ROOM = 0.4
CEILING_UNCOVERED = 0.5
CEILING_UNEQUAL = 0.7
CEILING_DISREGARDED = 0.5
CEILING_CHOSEN_PAIRS = 0.7
CEILING_MERGED = 0.6
CEILING_NO_CANNOT_LINKS = 0.4
# Below this angle (its cosine) from their mean, rows without cannot-links are one cluster.
ONE_CLUSTER_COSINE = 0.95
