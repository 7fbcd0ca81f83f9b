"""``spherepair demo``: the whole job, and commands that do it again."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pyarrow.csv as pa_csv
import pytest

from spherepair.cli.demo_command import DemoFiles, next_commands
from spherepair.errors import InvalidParameterError


@pytest.fixture(scope="module")
def done(shell, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place") / "demo output"
    ended = shell("demo", "--quick", "--out", folder)
    return folder, ended


def test_demo_finds_the_digits_and_writes_everything(done):
    folder, ended = done
    assert ended.code == 0, ended.err
    result = json.loads((folder / "demo.json").read_text())
    assert result["is_finished"]
    assert result["test_accuracy"] > 0.85
    assert abs(result["n_clusters"] - 10) <= 1
    assert "the fit has not seen them" in ended.out
    assert result["cluster_number"]["explanation"] in ended.out
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert pa_csv.read_csv(folder / "predictions.csv").num_rows == 360


def test_demo_leaves_a_report_on_its_rows_and_pairs(done):
    folder, ended = done
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "1,437 rows of 64 values" in page
    assert "image-0" in page  # rows go by their ids
    assert "data:image/png" in page
    assert str(folder / "report.html") in ended.out


def test_commands_of_the_demo_can_be_copied(done, call):
    folder, _ = done
    commands = json.loads((folder / "demo.json").read_text())["commands"]
    for line in commands:
        words = shlex.split(line)
        # The fit is cut short here: that it can be run is the claim.
        short = ["--max-epochs", "2", "--pretraining", "none"] if words[3] == "fit" else []
        ended = call(*words[3:], *short)
        assert ended.code == 0, (line, ended.err)
    assert "data:image/png" in (folder / "my-report.html").read_text(encoding="utf-8")
    mine = pa_csv.read_csv(folder / "my-predictions.csv")
    assert mine["id"].to_pylist() == pa_csv.read_csv(folder / "predictions.csv")["id"].to_pylist()


def test_saved_model_predicts_what_the_demo_wrote(done, call, tmp_path):
    folder, _ = done
    call("predict", folder / "model", folder / "new_rows.csv", "--out", tmp_path / "l.npy")
    written = pa_csv.read_csv(folder / "predictions.csv")["label"].to_numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), written)


def test_folder_with_files_of_others_is_left_alone(tmp_path):
    (tmp_path / "pairs.csv").write_text("mine")
    with pytest.raises(InvalidParameterError, match="not from a demo"):
        DemoFiles.under(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameterError, match="must be a folder"):
        DemoFiles.under(tmp_path / "file")


def test_copied_commands_name_the_program_as_it_was_called(tmp_path, monkeypatch):
    files = DemoFiles.under(tmp_path / "a b")
    program = tmp_path / "bin" / "spherepair"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    assert next_commands(files, seed=0, hidden_dims="compact")[0].startswith(f"{program} check '")
    monkeypatch.setenv("PATH", str(program.parent))
    assert next_commands(files, seed=0, hidden_dims="compact")[0].startswith("spherepair check '")
    monkeypatch.setattr("sys.argv", ["/anywhere/__main__.py"])
    assert " -m spherepair check" in next_commands(files, seed=0, hidden_dims="compact")[0]
