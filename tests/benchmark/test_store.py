"""The folder of results."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spherepair.benchmark.experiments import read_experiment
from spherepair.benchmark.store import Store
from spherepair.errors import InvalidParameterError


def test_record_comes_back_as_it_was(tmp_path):
    store = Store.create(tmp_path / "out")
    store.keep("k", {"key": "k", "value": 0.1}, {"rows": np.arange(3)})
    assert store.record("k") == {"key": "k", "value": 0.1}
    np.testing.assert_array_equal(store.arrays("k")["rows"], np.arange(3))
    assert store.record("other") is None
    assert store.arrays("other") == {}


@pytest.mark.parametrize("content", ["", '{"key": "k", "val', "[1, 2]", '{"key": "another"}', "\x00\x00"])
def test_torn_or_foreign_file_counts_as_not_done(tmp_path, content):
    store = Store.create(tmp_path)
    (tmp_path / "runs" / "k.json").write_text(content)
    assert store.record("k") is None
    store.keep("good", {"key": "good"})
    assert [json.loads(line) for line in store.write_lines().read_text().splitlines()] == [{"key": "good"}]


def test_success_clears_the_failure_before_it(tmp_path):
    store = Store.create(tmp_path)
    store.keep_failure("k", {"key": "k", "error": "no luck"})
    assert store.failure("k") is not None
    store.keep("k", {"key": "k"})
    assert store.failure("k") is None


def test_nothing_but_whole_files_is_left(tmp_path):
    store = Store.create(tmp_path)
    for number in range(5):
        store.keep(str(number), {"key": str(number)}, {"rows": np.zeros(2)})
    store.write_lines()
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert len(names) == 11
    assert not [name for name in names if name.startswith(".") or name.endswith("tmp")]


def test_experiment_is_kept_as_it_was_written(tmp_path, tiny):
    store = Store.create(tmp_path / "out")
    store.keep_experiment(read_experiment(tiny))
    assert [experiment.id for experiment in Store.open(tmp_path / "out").experiments()] == ["tiny"]
    assert (tmp_path / "out" / "experiments" / "tiny.toml").read_text() == tiny.read_text()


def test_folder_without_results_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match="holds no results; make some with"):
        Store.open(tmp_path)
