"""Grids that are killed, shared, and that fail here and there."""

from __future__ import annotations

import json
import signal
import time

import pytest

from spherepair.benchmark import measuring, read_experiment, run_grid, runner
from spherepair.benchmark.__main__ import main
from spherepair.benchmark.grid import expand
from spherepair.benchmark.store import Store
from spherepair.errors import InvalidDataError, InvalidParameterError


def finished(folder):
    return {path.stem: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.json")}


def names_in(progress: str) -> list[str]:
    return [line.split("; now ")[1] for line in progress.splitlines() if "; now " in line]


@pytest.fixture
def instant(monkeypatch):
    """Runs that take no time; returns the list of those that were done."""
    done = []

    def measure(spec, rows, pretrained):
        done.append(spec.key)
        score = {"accuracy": 0.5, "nmi": 0.5, "ari": 0.5}
        record = {"scores": {"train": score, "test": score}, "times": {"whole": 0.0}}
        return measuring.Measured(record)

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
    assert Store(tmp_path).record(torn.stem) is not None


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
    assert "Traceback" in Store(tmp_path).failure(bad)["traceback"]
    monkeypatch.setattr(runner, "measure_run", succeed)
    again = run_grid(read_experiment(tiny), tmp_path)
    assert (again.n_done, again.n_skipped, again.failures) == (1, 7, ())
    assert Store(tmp_path).failure(bad) is None


def test_fault_of_ours_is_noted_with_its_kind_and_does_not_stop_the_grid(tiny, tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(runner, "measure_run", fail)
    outcome = run_grid(read_experiment(tiny), tmp_path)
    assert len(outcome.failures) == 8
    assert outcome.failures[0][1] == "ZeroDivisionError: a bug"


def test_failure_of_another_process_meanwhile_is_not_repeated(tiny, tmp_path, instant):
    experiment = read_experiment(tiny)
    store = Store.create(tmp_path)
    for run in expand(experiment):
        key = run.spec.key
        store.keep_failure(key, {"key": key, "error": "just now, elsewhere", "time": time.time() + 60})
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


def test_two_processes_on_one_folder_never_do_a_run_twice(tiny, tmp_path, start):
    workers = [start("run", tiny, "--out", tmp_path / "out") for _ in range(2)]
    said = [worker.communicate(timeout=120) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    done = [names_in(err) for _, err in said]
    assert len(done[0]) + len(done[1]) == 8
    assert not set(done[0]) & set(done[1])
    assert len(finished(tmp_path / "out")) == 8
    assert list((tmp_path / "out" / "claims").iterdir()) == []


def test_killed_grid_goes_on_and_loses_only_the_run_in_flight(tiny, tmp_path, start):
    out = tmp_path / "out"
    worker = start("run", tiny, "--out", out)
    deadline = time.monotonic() + 60
    while len(finished(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    before = finished(out)
    assert 3 <= len(before) < 8
    outcome = run_grid(read_experiment(tiny), out)
    assert (outcome.n_skipped, outcome.n_done) == (len(before), 8 - len(before))
    after = finished(out)
    assert {key: after[key] for key in before} == before


def test_interrupted_grid_is_exit_130_and_leaves_no_claim(tiny, tmp_path, instant, monkeypatch, capsys):
    succeed = runner.measure_run

    def interrupt(spec, rows, pretrained):
        if len(instant) == 3:
            raise KeyboardInterrupt
        return succeed(spec, rows, pretrained)

    monkeypatch.setattr(runner, "measure_run", interrupt)
    assert main(["run", str(tiny), "--out", str(tmp_path / "out")]) == 130
    assert "interrupted; run the same command again to go on.\n" in capsys.readouterr().err
    assert len(finished(tmp_path / "out")) == 3
    assert list((tmp_path / "out" / "claims").iterdir()) == []


def test_failed_runs_are_exit_1_and_bad_input_is_exit_2(tiny, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise InvalidDataError("no good.")

    monkeypatch.setattr(runner, "measure_run", fail)
    assert main(["run", str(tiny), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr()
    assert "failed: digits, SpherePair, 100 pairs, seed 0: no good.\n" in said.err
    assert said.out == "8 runs: 8 failed.\n"
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "holds no results" in capsys.readouterr().err
