"""Experiments as documents."""

from __future__ import annotations

import math

import pytest

from spherepair.benchmark.experiments import ORDER, list_experiments, read_experiment
from spherepair.benchmark.grid import expand
from spherepair.datasets.catalogue import find_spec
from spherepair.errors import InvalidParameterError


def test_every_experiment_of_the_paper_ships_with_the_package():
    assert [experiment.id for experiment in list_experiments()] == [*ORDER, "toy"]


@pytest.mark.parametrize("experiment", list_experiments(), ids=lambda experiment: experiment.id)
def test_shipped_experiments_say_what_they_are_and_name_data_that_exist(experiment):
    assert experiment.command == f"spherepair bench run {experiment.id} --out results" or (
        experiment.id == "toy"
    )
    assert experiment.expected_result.endswith(".")
    assert all(find_spec(run.spec.dataset) for run in expand(experiment))
    labels = {choice.label for choice in experiment.datasets}
    assert set(experiment.stand_ins) <= labels | {"cifar10", "cifar100_20", "reuters_r8", "20newsgroups"}


def test_imbalance_covers_the_three_size_triples():
    runs = expand(read_experiment("imbalance"))
    labels = list(dict.fromkeys(run.pairs for run in runs))
    assert labels == [
        *("IMB0 (1k)", "IMB1 (5k)", "IMB2 (10k)"),
        *("IMB0 (5k)", "IMB1 (25k)", "IMB2 (50k)"),
        *("IMB0 (10k)", "IMB1 (50k)", "IMB2 (100k)"),
    ]


def test_sphere_sets_omega_for_which_a_simplex_fits_exactly():
    for run, n_clusters in zip(expand(read_experiment("sphere")), (2, 3, 4), strict=True):
        assert len(run.spec.classes) == n_clusters
        assert math.isclose(
            run.spec.parameters["omega"], math.pi / math.acos(-1 / (n_clusters - 1)), rel_tol=1e-6
        )


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(InvalidParameterError, match="Did you mean 'imbalance'"):
        read_experiment("imbalanced")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('layout = "comparison"', "layout is missing"),
        ("seeds = [0, 1]", "seeds is missing"),
        ("pairs = [100, 300]", "pairs or imbalanced must name"),
        ('label = "Defaults"', "methods need different labels"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tiny, change, message):
    replacement = 'label = "SpherePair"' if "label" in change else ""
    tiny.write_text(tiny.read_text().replace(change, replacement))
    with pytest.raises(InvalidParameterError, match=message) as raised:
        read_experiment(tiny)
    assert str(tiny) in str(raised.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('colour = "red"', "the experiment has no 'colour'"),
        ('measure = ["speed"]', "measure must be of scores"),
        ("levels = [3]", "levels must be of 0, 1, 2"),
        ("pairs = [", "is not TOML"),
    ],
)
def test_words_that_nobody_knows_are_refused(tiny, line, message):
    tiny.write_text(f"{line}\n{tiny.read_text()}")
    with pytest.raises(InvalidParameterError, match=message):
        read_experiment(tiny)
