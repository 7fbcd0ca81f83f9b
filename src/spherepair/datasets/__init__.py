"""The paper's eight benchmarks and four more, with the paper's splits and preprocessing."""

from __future__ import annotations

from spherepair.datasets.listing import DatasetInfo, list_datasets
from spherepair.datasets.loading import Dataset, load_dataset

__all__ = ["Dataset", "DatasetInfo", "list_datasets", "load_dataset"]
