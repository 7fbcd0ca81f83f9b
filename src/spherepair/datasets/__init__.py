"""The paper's eight benchmark datasets and four more, with the paper's splits and preprocessing."""

from __future__ import annotations

from spherepair.datasets.catalog import DatasetInfo, list_datasets
from spherepair.datasets.loader import Dataset, load_dataset

__all__ = ["Dataset", "DatasetInfo", "list_datasets", "load_dataset"]
