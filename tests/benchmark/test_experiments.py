"""Experiment files."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from spherepair import cli
from spherepair.benchmark.experiments import ORDER, list_experiments, read_experiment
from spherepair.benchmark.runs import expand
from spherepair.datasets.catalog import find_spec
from spherepair.errors import InvalidParameterError


def test_every_experiment_of_the_paper_ships_with_the_package():
    assert [experiment.id for experiment in list_experiments()] == [
        *ORDER,
        "toy",
        "wrong-answers",
        "wrong-answers-digits",
    ]


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
        ('label = "Defaults"', "methods must have different labels"),
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
        ('measure = ["speed"]', "measure must be one of scores"),
        ("levels = [3]", "levels must be from 0, 1, 2"),
        ("pairs = [", "is not TOML"),
    ],
)
def test_words_that_nobody_knows_are_refused(tiny, line, message):
    tiny.write_text(f"{line}\n{tiny.read_text()}")
    with pytest.raises(InvalidParameterError, match=message):
        read_experiment(tiny)


def change(tiny, old, new):
    text = tiny.read_text()
    assert old in text
    tiny.write_text(text.replace(old, new, 1))


WRONG = [
    ("pairs = [100, 300]", "pairs = 100", "pairs of the experiment must be a list of whole numbers from 1"),
    ("pairs = [100, 300]", "pairs = [0]", "pairs of the experiment must be .* got \\[0\\] instead"),
    ("pairs = [100, 300]", "pairs = [true]", "pairs of the experiment must be a list of whole numbers"),
    ("seeds = [0, 1]", "seeds = 0", "seeds of the experiment must be .*; for example seeds = \\[0, 1, 2\\]"),
    ("seeds = [0, 1]", "seeds = []", "seeds of the experiment must be a list of whole numbers from 0"),
    ("seeds = [0, 1]", "seeds = [-1]", "seeds of the experiment must be a list of whole numbers from 0"),
    ('title = "Tiny grid"', "title = 3", "title of the experiment must be a text, got 3 instead"),
    ('["digits"]', '"digits"', "datasets of the experiment must be a list of names or tables"),
    ('["digits"]', '[{ label = "d" }]', "name is missing in dataset 1"),
    ('["digits"]', '[{ name = "digits", classes = 3 }]', "classes of dataset 1 must be a list of whole"),
    ('label = "Defaults"', "", "label is missing in method 2"),
    ('label = "Defaults"', "label = 1", "label of method 2 must be a text"),
    ('label = "Defaults"', 'name = "Defaults"', "method 2 has no 'name'; it may have estimator, for_dataset"),
    ("max_epochs = 2", "max_epochs = 2020-01-01", "parameters of method 1 must be a table of numbers, texts"),
    ("seeds = [0, 1]", "seeds = [0]\nsweep = { omega = 2.0 }", "sweep of the experiment must be a table of"),
    (
        "seeds = [0, 1]",
        'seeds = [0]\nmeasure = "scores"',
        "measure of the experiment must be a list of texts",
    ),
    (
        'id = "tiny"',
        'id = "../../evil"',
        "id names a file: it may have letters, digits, _ and -, got '../../evil'",
    ),
    ('id = "tiny"', 'id = ""', "id names a file"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_entry_of_another_kind_is_one_sentence(tiny, old, new, message):
    change(tiny, old, new)
    with pytest.raises(InvalidParameterError, match=message) as raised:
        read_experiment(tiny)
    assert str(raised.value).startswith(f"{tiny}: ")
    assert "\n" not in str(raised.value)


def test_methods_that_are_no_list_of_tables_are_refused(tiny):
    text = tiny.read_text()
    tiny.write_text('methods = "SpherePair"\n' + text[: text.index("[[methods]]")])
    with pytest.raises(InvalidParameterError, match="methods of the experiment must be a list of tables"):
        read_experiment(tiny)


def test_file_that_is_not_utf_8_is_refused(tiny):
    tiny.write_bytes(tiny.read_text().replace("Tiny", "Größe").encode("latin-1"))
    with pytest.raises(InvalidParameterError, match=r"is not UTF-8 .* save it as UTF-8"):
        read_experiment(tiny)


def test_file_nested_too_deeply_is_refused(tiny):
    tiny.write_text(f"pairs = {'[' * 5000}{']' * 5000}")
    with pytest.raises(InvalidParameterError, match="nests its entries too deeply"):
        read_experiment(tiny)


def test_experiment_made_in_python_cannot_leave_the_folder_either():
    with pytest.raises(InvalidParameterError, match="id names a file"):
        replace(read_experiment("toy"), id="a/b")


@pytest.mark.parametrize(("old", "new", "message"), [WRONG[0], WRONG[3], WRONG[7], WRONG[10], WRONG[16]])
def test_bad_experiment_is_exit_2_on_the_command_line(tiny, tmp_path, capsys, old, new, message):
    change(tiny, old, new)
    assert cli.main(["bench", "run", str(tiny), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
