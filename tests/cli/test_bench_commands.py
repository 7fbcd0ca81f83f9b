"""``spherepair bench``: the toy grid through the real command, and its report."""

from __future__ import annotations

import json
import resource


def test_toy_grid_runs_reports_and_is_not_done_twice(call, tmp_path):
    out = tmp_path / "results"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    done = call("bench", "run", "toy", "--out", out)
    assert done.code == 0, done.err
    # CPU time on one thread: a busy machine does not count.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 60
    assert "12 runs: 12 done now." in done.out
    again = call("bench", "run", "toy", "--out", out, "--json")
    assert (again.json["n_done"], again.json["n_skipped"], again.json["failures"]) == (0, 12, [])
    reported = call("bench", "report", out)
    assert reported.code == 0, reported.err
    assert "12 of 12 runs are in the report." in reported.out
    text = (out / "report.md").read_text()
    assert "missing |" not in text
    assert "SpherePair (our defaults)" in text
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert len(records) == 12
    # Far above the chance of one in ten, even for so small a network.
    assert min(record["scores"]["test"]["accuracy"] for record in records) > 0.3
    # One stacked pretraining for all seeds, one joint pretraining per seed.
    assert len(list((out / "pretrained").glob("*.safetensors"))) == 3


def test_part_of_a_grid_leaves_the_rest_missing(call, tmp_path):
    method = "SpherePair (no pretraining)"
    done = call("bench", "run", "toy", "-o", tmp_path / "out", "--method", method, "--seed", 1, "--json")
    assert done.json["n_done"] == 2
    reported = call("bench", "report", tmp_path / "out", "--out", tmp_path / "docs", "--json")
    assert (reported.json["n_done"], reported.json["n_expected"]) == (2, 12)
    assert "*missing*" in (tmp_path / "docs" / "report.md").read_text()


def test_an_engine_does_the_runs(call, tmp_path):
    part = ("--method", "SpherePair (no pretraining)", "--seed", 1)
    alone = call("bench", "run", "toy", "-o", tmp_path / "alone", *part, "--json")
    options = ("--engine", "local", "--workers", 2)
    done = call("bench", "run", "toy", "-o", tmp_path / "out", *part, *options, "--json")
    counts = ("n_runs", "n_done", "n_skipped", "failures")
    assert {name: done.json[name] for name in counts} == {name: alone.json[name] for name in counts}
    assert done.json["n_done"] == 2

    def scores(out):
        lines = (out / "results.jsonl").read_text().splitlines()
        return {record["key"]: record["scores"] for record in map(json.loads, lines)}

    assert scores(tmp_path / "out") == scores(tmp_path / "alone")
    again = call("bench", "run", "toy", "-o", tmp_path / "out", *part, *options[:2], "--workers", 1, "--json")
    assert (again.json["n_done"], again.json["n_skipped"]) == (0, 2)


def test_failures_of_an_engine_are_told(call, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("spherepair.benchmark.runner.measure_run", fail)
    done = call("bench", "run", "toy", "--out", tmp_path, "--seed", 1, "--engine", "local", "--workers", 1)
    assert done.code == 1
    assert "6 runs: 6 failed." in done.out


def test_engines_that_cannot_be_had_are_one_sentence(call, tmp_path):
    for options, message in (
        (("--address", "auto"), "--address is for --engine"),
        (("--engine", "local", "--address", "auto"), "an address is for engine='ray'"),
        (("--engine", "ray", "--address", "127.0.0.1:1"), "no Ray answers at 127.0.0.1:1"),
    ):
        done = call("bench", "run", "toy", "--out", tmp_path / "out", *options)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert message in done.err


def test_failed_runs_are_exit_1_with_their_reasons(call, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("spherepair.benchmark.runner.measure_run", fail)
    done = call("bench", "run", "toy", "--out", tmp_path)
    assert done.code == 1
    assert "failed: digits, SpherePair, 200 pairs, seed 0: ZeroDivisionError: a bug" in done.out
    assert "12 runs: 12 failed." in done.out


def test_interrupted_grid_is_exit_130_with_what_to_do_next(call, tmp_path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spherepair.benchmark.runner.measure_run", interrupt)
    done = call("bench", "run", "toy", "--out", tmp_path)
    assert done.code == 130
    assert "interrupted; run the same command again to continue." in done.err


def test_bad_input_is_exit_2_and_one_sentence(call, tmp_path):
    unknown = call("bench", "run", "toys", "--out", tmp_path)
    assert unknown.code == 2
    assert "Did you mean 'toy'?" in unknown.err
    missing = call("bench", "run", tmp_path / "none.toml", "--out", tmp_path)
    assert missing.code == 2
    assert "No such file or directory" in missing.err
    empty = call("bench", "report", tmp_path)
    assert empty.code == 2
    assert "holds no results" in empty.err


def test_experiments_are_listed_for_people_and_machines(call):
    assert "Main comparison" in call("bench", "list").out
    listed = call("bench", "list", "--json").json["experiments"]
    assert listed[0]["name"] == "main"
    assert listed[0]["command"] == "spherepair bench run main --out results"


def test_an_unknown_experiment_is_told_the_names_as_they_are_typed(call, tmp_path):
    done = call("bench", "run", "nosuch", "--out", tmp_path)
    assert done.code == 2
    assert "digits, embedding_dim, imbalance" in done.err


def test_share_of_wrong_answers_is_chosen_and_an_unknown_one_refused(call, tmp_path, monkeypatch):
    asked = []

    def note(spec: object, *_: object) -> None:
        asked.append(spec)
        raise ZeroDivisionError("not now")

    monkeypatch.setattr("spherepair.benchmark.runner.measure_interview", note)
    part = ("--data", "digits", "--method", "cards", "--seed", 0, "--wrong", 0.1)
    done = call("bench", "run", "asking", "--out", tmp_path, *part)
    assert "failed: digits, cards, 10 % wrong answers, seed 0: ZeroDivisionError: not now" in done.out
    assert [spec.pairs.wrong_answers for spec in asked] == [0.1]
    refused = call("bench", "run", "asking", "--out", tmp_path, "--wrong", 0.5)
    assert refused.code == 2
    assert "wrong_answers must be one of 0, 0.1 in this experiment" in refused.err
