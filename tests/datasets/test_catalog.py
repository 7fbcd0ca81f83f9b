"""Known datasets and where they are found."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair.datasets import catalog, list_datasets, load_dataset
from spherepair.datasets.catalog import CATALOG, find_spec
from spherepair.errors import InvalidParameterError


def test_unknown_name_gets_the_list_and_a_guess():
    with pytest.raises(InvalidParameterError, match="Did you mean 'mnist'") as caught:
        load_dataset("mnits")
    assert "banking77" in str(caught.value)


@pytest.mark.parametrize(
    ("written", "name"),
    [("FashionMNIST", "fashion_mnist"), ("CIFAR-100-20", "cifar100_20"), ("RCV1-10", "rcv1_10")],
)
def test_names_may_be_written_as_in_the_paper(written, name):
    assert find_spec(written).name == name


def test_list_has_the_eight_benchmarks_and_tells_what_is_there(tmp_path, images):
    path = tmp_path / "mnist.npz"
    np.savez(path, **images)
    infos = {info.name: info for info in list_datasets(data_home=tmp_path)}
    assert sum(info.in_paper for info in infos.values()) == 8
    assert (infos["mnist"].available, infos["mnist"].location) == (True, str(path))
    assert infos["digits"].available
    assert not infos["imagenet10"].available
    assert f"Put imagenet10_features.npz into {tmp_path}" in infos["imagenet10"].how_to_get
    assert infos["fashion_mnist"].how_to_get.startswith("Downloaded on first use: OpenML dataset")
    assert (infos["rcv1_10"].rows, infos["rcv1_10"].classes) == (177_669, 10)


def test_every_data_set_can_be_fetched_or_says_what_file_it_needs():
    for spec in CATALOG:
        assert spec.is_built_in or (spec.files and spec.stored)


def test_cache_folder_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert catalog.search_folders() == [tmp_path / ".cache" / "spherepair"]
