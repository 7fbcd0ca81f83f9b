"""The runs of an experiment, their keys and estimators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spherepair import Schedule, Terms
from spherepair.benchmark import runs
from spherepair.benchmark.experiments import read_experiment
from spherepair.benchmark.runs import (
    DATA_REVISIONS,
    REVISIONS,
    PairChoice,
    RunSpec,
    build_method,
    content_key,
    draw_pairs,
    expand,
    select,
)
from spherepair.datasets.catalog import CATALOG
from spherepair.errors import InvalidParameterError

SPEC = RunSpec("digits", None, "SpherePair", {"omega": 2.0}, PairChoice(100), seed=0)


def test_key_of_one_code_never_changes(monkeypatch):
    monkeypatch.setattr(runs, "PROTOCOL", 1)
    monkeypatch.setattr(runs, "__version__", "0.1.0")
    monkeypatch.setattr(runs, "REVISIONS", {})
    monkeypatch.setattr(runs, "DATA_REVISIONS", {})
    # Written down: with another key every finished run of every folder would be done again.
    assert SPEC.key == "bda3b3afd7dceb5563d8"


@pytest.mark.parametrize("what", ["PROTOCOL", "__version__"])
def test_other_code_has_other_keys(monkeypatch, what):
    keys = {SPEC.key, content_key({"data": "digits"})}
    monkeypatch.setattr(runs, what, "another")
    assert not keys & {SPEC.key, content_key({"data": "digits"})}


@pytest.mark.parametrize(
    ("revisions", "change", "other"),
    [
        ("REVISIONS", {"SpherePair": -1}, {"estimator": "SpherePair.paper"}),
        ("DATA_REVISIONS", {"digits": -1}, {"dataset": "mnist"}),
    ],
)
def test_a_revision_concerns_the_runs_of_one_estimator_or_on_one_data_set(
    monkeypatch, revisions, change, other
):
    other = replace(SPEC, **other)
    before = SPEC.key, other.key
    monkeypatch.setattr(runs, revisions, getattr(runs, revisions) | change)
    assert SPEC.key != before[0]
    assert other.key == before[1]


def test_revisions_are_of_estimators_and_protocols_that_exist():
    for name in REVISIONS:
        assert build_method(name, 2, parameters={}, seed=0)
    assert set(DATA_REVISIONS) <= {dataset.name for dataset in CATALOG}


def test_key_knows_everything_that_decides_the_result():
    changes = [
        {"dataset": "mnist"},
        {"classes": (0, 1)},
        {"estimator": "SpherePair.paper"},
        {"parameters": {"omega": 2.5}},
        {"pairs": PairChoice(100, level=1)},
        {"pairs": PairChoice(100, wrong_answers=0.1)},
        {"seed": 1},
        {"measure": ("n_clusters", "scores")},
        {"tail_ratios": (0.1,)},
    ]
    keys = {SPEC.key, *(replace(SPEC, **change).key for change in changes)}
    assert len(keys) == len(changes) + 1


def test_key_does_not_depend_on_the_order_of_parameters():
    one = replace(SPEC, parameters={"omega": 2.0, "batch_size": 8})
    other = replace(SPEC, parameters={"batch_size": 8, "omega": 2.0})
    assert one.key == other.key


def test_grid_is_the_product_of_its_axes_and_groups_data_sets(tiny):
    text = tiny.read_text().replace('["digits"]', '["digits", "mnist"]')
    tiny.write_text(text + "\n[sweep]\nomega = [1.5, 2.0, 2.5]\n")
    planned = expand(read_experiment(tiny))
    assert len(planned) == 2 * 2 * 3 * 2 * 2
    assert len({run.spec.key for run in planned}) == len(planned)
    order = [run.dataset for run in planned]
    assert order == sorted(order)
    assert {run.spec.parameters["omega"] for run in planned} == {1.5, 2.0, 2.5}


def test_more_particular_parameters_win(tiny):
    text = tiny.read_text().replace(
        'datasets = ["digits"]',
        'datasets = [{ name = "digits", label = "d", parameters = { omega = 3.0, max_epochs = 9 } }]',
    )
    tiny.write_text(text + "\n[methods.for_dataset]\nd = { omega = 4.0 }\n")
    first, *_, last = expand(read_experiment(tiny))
    assert (first.spec.parameters["omega"], last.spec.parameters["omega"]) == (3.0, 4.0)
    assert first.spec.parameters["max_epochs"] == 2


def test_least_imbalanced_set_is_the_random_one_and_shares_its_run(tiny):
    random = {run.spec.key for run in expand(read_experiment(tiny))}
    tiny.write_text(tiny.read_text().replace("pairs = [100, 300]", "imbalanced = [100]"))
    planned = expand(read_experiment(tiny))
    assert {run.spec.key for run in planned if run.pairs == "IMB0 (100)"} <= random
    assert not {run.spec.key for run in planned if run.pairs == "IMB1 (500)"} & random


def test_part_of_a_grid_has_the_keys_of_the_whole(tiny):
    experiment = read_experiment(tiny)
    part = expand(select(experiment, methods=("Defaults",), pairs=(300,), seeds=(1,)))
    assert {(run.method, run.pairs, run.spec.seed) for run in part} == {("Defaults", "300", 1)}
    assert {run.spec.key for run in part} < {run.spec.key for run in expand(experiment)}


@pytest.mark.parametrize(
    "asked", [{"datasets": ("mnist",)}, {"methods": ("CIDEC",)}, {"pairs": (7,)}, {"seeds": (7,)}]
)
def test_part_that_the_grid_has_not_got_is_refused(tiny, asked):
    with pytest.raises(InvalidParameterError, match="in this experiment"):
        select(read_experiment(tiny), **asked)


def test_tables_stand_for_settings_objects():
    table = {"terms": {"neighbor_weight": 0.0}, "schedule": {"ema": False}}
    model = build_method("SpherePair", 3, parameters=table, seed=0)
    assert (model.terms, model.schedule) == (Terms(neighbor_weight=0.0), Schedule(ema=False))


@pytest.mark.parametrize("table", [{"terms": {"weight": 1.0}}, {"schedule": {"emma": True}}, {"omega_": 2.0}])
def test_parameters_that_the_method_has_not_got_are_refused(table):
    with pytest.raises(InvalidParameterError, match="SpherePair does not take these parameters"):
        build_method("SpherePair", 3, parameters=table, seed=0)


def test_sweep_can_vary_one_entry_of_a_table(tiny):
    text = tiny.read_text().replace("[8], max_epochs", "[8], terms = { must_link_weight = 1.0 }, max_epochs")
    tiny.write_text(text + '\n[sweep]\n"terms.neighbor_weight" = [0.0, 0.2]\n')
    found = [run.spec.parameters["terms"] for run in expand(read_experiment(tiny))]
    assert found[0] == {"must_link_weight": 1.0, "neighbor_weight": 0.0}
    assert {table["neighbor_weight"] for table in found} == {0.0, 0.2}


def test_a_share_of_the_pairs_is_turned_round_and_named():
    experiment = read_experiment("wrong-answers-digits")
    planned = expand(select(experiment, wrong_answers=(0.0, 0.2), seeds=(0,)))
    assert {run.pairs for run in planned} == {"1k", "1k, 20 % wrong"}
    assert {run.spec.pairs.wrong_answers for run in planned} == {0.0, 0.2}
    y = np.arange(500) % 5
    right, wrong = (draw_pairs(y, PairChoice(2000, wrong_answers=share), seed=3) for share in (0.0, 0.2))
    assert (right.is_must_link == (y[right.left] == y[right.right])).all()
    assert np.array_equal(right.left, wrong.left)
    assert np.mean(right.is_must_link != wrong.is_must_link) == pytest.approx(0.2, abs=0.03)


def test_runs_without_wrong_answers_keep_the_keys_of_before():
    assert SPEC.to_dict()["pairs"] == {"n_pairs": 100, "level": 0}
