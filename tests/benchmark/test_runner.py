"""Grids that are killed, shared, and that fail here and there; the results folder."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pytest

from spherepair.benchmark import read_experiment, run_grid, runner
from spherepair.benchmark.measure import Measured
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runner import current_commit, describe_environment
from spherepair.benchmark.runs import PROTOCOL, expand
from spherepair.errors import InvalidDataError, InvalidParameterError


def finished(folder):
    return {path.stem: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json")}


@pytest.fixture
def instant(monkeypatch):
    """Runs that take no time; returns the list of those that were done."""
    done = []

    def measure(spec, rows, pretrained):
        done.append(spec.key)
        score = {"accuracy": 0.5, "nmi": 0.5, "ari": 0.5}
        record = {"scores": {"train": score, "test": score}, "times": {"whole": 0.0}}
        return Measured(record)

    monkeypatch.setattr(runner, "measure_run", measure)
    return done


def test_record_says_all_that_is_needed_to_make_it_again(tiny, tmp_path):
    experiment = read_experiment(tiny)
    outcome = run_grid(experiment, tmp_path / "out", methods=("Defaults",), seeds=(0,))
    assert (outcome.n_runs, outcome.n_done, outcome.failures) == (2, 2, ())
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    spec = next(run.spec for run in expand(experiment) if run.spec.key == record["key"])
    assert record["spec"] == json.loads(json.dumps(spec.to_dict()))
    assert record["n_pairs"] == spec.pairs.count
    assert set(record["versions"]) >= {"spherepair", "python", "numpy", "torch", "scikit-learn"}
    assert {"device", "commit", "finished", "warnings", "epochs"} <= set(record)
    for part in ("train", "test"):
        assert set(record["scores"][part]) == {"accuracy", "nmi", "ari"}
    assert record["times"]["whole"] >= record["times"]["fit"] > 0


def test_finished_runs_are_skipped(tiny, tmp_path, instant):
    first = run_grid(read_experiment(tiny), tmp_path)
    second = run_grid(read_experiment(tiny), tmp_path)
    assert (first.n_done, first.n_skipped) == (8, 0)
    assert (second.n_done, second.n_skipped) == (0, 8)
    assert len(instant) == len(set(instant)) == 8


def test_torn_result_is_done_again(tiny, tmp_path, instant):
    run_grid(read_experiment(tiny), tmp_path)
    torn = next((tmp_path / "runs").glob("*.json"))
    torn.write_text(torn.read_text()[:20])
    assert run_grid(read_experiment(tiny), tmp_path).n_done == 1
    assert ResultsFolder(tmp_path).record(torn.stem) is not None


def test_failure_is_noted_in_words_and_tried_again(tiny, tmp_path, instant, monkeypatch):
    bad = expand(read_experiment(tiny))[2].spec.key
    succeed = runner.measure_run

    def fail_once(spec, rows, pretrained):
        if spec.key == bad:
            raise InvalidDataError("row 3 is not a number; remove it.")
        return succeed(spec, rows, pretrained)

    monkeypatch.setattr(runner, "measure_run", fail_once)
    outcome = run_grid(read_experiment(tiny), tmp_path)
    assert outcome.n_done == 7
    assert outcome.failures == (
        ("digits, SpherePair, 300 pairs, seed 0", "row 3 is not a number; remove it."),
    )
    assert "Traceback" in ResultsFolder(tmp_path).failure(bad)["traceback"]
    monkeypatch.setattr(runner, "measure_run", succeed)
    again = run_grid(read_experiment(tiny), tmp_path)
    assert (again.n_done, again.n_skipped, again.failures) == (1, 7, ())
    assert ResultsFolder(tmp_path).failure(bad) is None


def test_fault_of_ours_is_noted_with_its_kind_and_does_not_stop_the_grid(tiny, tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(runner, "measure_run", fail)
    outcome = run_grid(read_experiment(tiny), tmp_path)
    assert len(outcome.failures) == 8
    assert outcome.failures[0][1] == "ZeroDivisionError: a bug"


def test_failure_of_another_process_meanwhile_is_not_repeated(tiny, tmp_path, instant):
    experiment = read_experiment(tiny)
    store = ResultsFolder.create(tmp_path)
    for run in expand(experiment):
        key = run.spec.key
        store.save_failure(key, {"key": key, "error": "just now, elsewhere", "time": time.time() + 60})
    assert len(run_grid(experiment, tmp_path).failures) == 8
    assert instant == []


def test_data_that_are_not_there_fail_run_by_run_without_being_looked_for_again(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("SPHEREPAIR_DATA", str(tmp_path))
    tiny.write_text(tiny.read_text().replace('"digits"', '"stl10"'))
    outcome = run_grid(read_experiment(tiny), tmp_path / "out")
    assert len(outcome.failures) == 8
    assert "stl10_features.npz" in outcome.failures[0][1]


def test_unknown_method_is_refused_before_anything_is_done(tiny, tmp_path):
    tiny.write_text(tiny.read_text().replace('"SpherePair.paper"', '"SphericalPair"'))
    with pytest.raises(InvalidParameterError, match=r"estimator must be one of .*'SphericalPair'"):
        run_grid(read_experiment(tiny), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    # The part of the grid without it can still be done.
    assert run_grid(read_experiment(tiny), tmp_path / "out", methods=("Defaults",), seeds=(0,)).n_done == 2


def test_unknown_parameter_is_a_sentence(tiny, tmp_path):
    tiny.write_text(tiny.read_text().replace("max_epochs = 2", "max_epoch = 2"))
    outcome = run_grid(read_experiment(tiny), tmp_path, methods=("Defaults",), seeds=(0,))
    assert "SpherePair does not take these parameters" in outcome.failures[0][1]


def test_two_processes_on_one_folder_never_do_a_run_twice(tiny, tmp_path, fork, slow_grid):
    logs = [tmp_path / f"{name}.log" for name in "ab"]
    workers = [fork(slow_grid, tiny, tmp_path / "out", log) for log in logs]
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    done = [[line for line in log.read_text().splitlines() if line] for log in logs]
    assert min(map(len, done)) > 0
    assert len(done[0]) + len(done[1]) == 8
    assert not set(done[0]) & set(done[1])
    assert len(finished(tmp_path / "out")) == 8
    assert list((tmp_path / "out" / "locks").iterdir()) == []


def test_killed_grid_goes_on_and_loses_only_the_run_in_flight(tiny, tmp_path, fork, slow_grid, instant):
    out = tmp_path / "out"
    worker = fork(slow_grid, tiny, out, tmp_path / "log")
    deadline = time.monotonic() + 60
    while len(finished(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    worker.kill()
    worker.join()
    before = finished(out)
    assert 3 <= len(before) < 8
    outcome = run_grid(read_experiment(tiny), out)
    assert (outcome.n_skipped, outcome.n_done) == (len(before), 8 - len(before))
    after = finished(out)
    assert {key: after[key] for key in before} == before


def test_interrupted_grid_keeps_what_is_done_and_leaves_no_lock(tiny, tmp_path, instant, monkeypatch):
    succeed = runner.measure_run

    def interrupt(spec, rows, pretrained):
        if len(instant) == 3:
            raise KeyboardInterrupt
        return succeed(spec, rows, pretrained)

    monkeypatch.setattr(runner, "measure_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_grid(read_experiment(tiny), tmp_path / "out")
    assert len(finished(tmp_path / "out")) == 3
    assert list((tmp_path / "out" / "locks").iterdir()) == []


def test_progress_names_each_run_and_counts_failures_too(tiny, tmp_path, monkeypatch):
    def fail(*_):
        raise InvalidDataError("no good.")

    states = []
    monkeypatch.setattr(runner, "measure_run", fail)
    outcome = run_grid(read_experiment(tiny), tmp_path / "out", progress=states.append)
    assert [state.n_finished for state in states] == list(range(9))
    assert {state.n_runs for state in states} == {8}
    assert (states[0].title, states[-1].title) == ("digits, SpherePair, 100 pairs, seed 0", "")
    assert outcome.failures[0] == ("digits, SpherePair, 100 pairs, seed 0", "no good.")
    assert outcome.sentence() == "8 runs: 8 failed."


def test_record_comes_back_as_it_was(tmp_path):
    results = ResultsFolder.create(tmp_path / "out")
    results.save_record("k", {"key": "k", "value": 0.1}, {"rows": np.arange(3)})
    assert results.record("k") == {"key": "k", "value": 0.1}
    np.testing.assert_array_equal(results.arrays("k")["rows"], np.arange(3))
    assert results.record("other") is None
    assert results.arrays("other") == {}


@pytest.mark.parametrize("content", ["", '{"key": "k", "val', "[1, 2]", '{"key": "another"}', "\x00\x00"])
def test_torn_or_foreign_file_counts_as_not_done(tmp_path, content):
    results = ResultsFolder.create(tmp_path)
    (tmp_path / "runs" / "k.json").write_text(content)
    assert results.record("k") is None
    results.save_record("good", {"key": "good"})
    assert [json.loads(line) for line in results.write_lines().read_text().splitlines()] == [{"key": "good"}]


def test_success_clears_the_failure_before_it(tmp_path):
    results = ResultsFolder.create(tmp_path)
    results.save_failure("k", {"key": "k", "error": "no luck"})
    assert results.failure("k") is not None
    results.save_record("k", {"key": "k"})
    assert results.failure("k") is None


def test_nothing_but_whole_files_is_left(tmp_path):
    results = ResultsFolder.create(tmp_path)
    for number in range(5):
        results.save_record(str(number), {"key": str(number)}, {"rows": np.zeros(2)})
    results.write_lines()
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert len(names) == 11
    assert not [name for name in names if name.startswith(".") or name.endswith("tmp")]


def test_experiment_is_kept_as_it_was_written(tmp_path, tiny):
    results = ResultsFolder.create(tmp_path / "out")
    results.save_experiment(read_experiment(tiny))
    assert [experiment.id for experiment in ResultsFolder.open(tmp_path / "out").experiments()] == ["tiny"]
    assert (tmp_path / "out" / "experiments" / "tiny.toml").read_text() == tiny.read_text()


def test_folder_without_results_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match="holds no results; make some with"):
        ResultsFolder.open(tmp_path)


def answer(monkeypatch, **answers):
    """Let git say this, nothing where a command is not named."""
    monkeypatch.setattr(runner, "_git", lambda command, *_: answers.get(command.replace("-", "_")))


@pytest.mark.parametrize(
    ("changed", "stated", "found"),
    [
        ("", "stated", "0123456789ab"),
        (" M grid.py", "stated", "stated"),
        (" M grid.py", "", "0123456789ab+"),
    ],
)
def test_commit_of_an_unchanged_checkout_comes_before_the_variable(monkeypatch, changed, stated, found):
    monkeypatch.setenv("SPHEREPAIR_COMMIT", stated)
    answer(monkeypatch, ls_files="environment.py", rev_parse="0123456789ab", status=changed)
    assert current_commit() == found


@pytest.mark.parametrize("answers", [{}, {"rev_parse": "of another project"}])
def test_without_a_checkout_the_variable_says_the_commit(monkeypatch, answers):
    answer(monkeypatch, **answers)
    monkeypatch.setenv("SPHEREPAIR_COMMIT", "stated")
    assert current_commit() == "stated"
    monkeypatch.setenv("SPHEREPAIR_COMMIT", "")
    assert current_commit() is None
    monkeypatch.delenv("SPHEREPAIR_COMMIT")
    assert current_commit() is None


def test_description_holds_protocol_and_commit(monkeypatch):
    monkeypatch.setenv("SPHEREPAIR_COMMIT", "0123456789ab")
    found = describe_environment()
    assert found["protocol"] == PROTOCOL
    assert re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])
