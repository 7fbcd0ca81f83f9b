"""``spherepair clusters`` and ``report``: the number and why, one page, one sentence for what is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from spherepair.cli.inspect_commands import bar_chart


def test_number_confidence_and_curve_are_given(call, example):
    done = call("clusters", example.model, "--constraints", example.numbered_pairs, "--json")
    assert done.code == 0
    result = done.json
    assert result["value"] == 3
    assert 0 <= result["confidence"] <= 1
    assert len(result["curve"]) == len(result["curve_spread"]) == 32
    assert sum(candidate["weight"] for candidate in result["candidates"]) == pytest.approx(1)
    text = call("clusters", example.model, "--constraints", example.numbered_pairs).out
    assert result["explanation"] in text
    assert "candidates  3 (" in text
    assert "<- 3 clusters" in text


def test_pairs_of_the_fit_are_used_when_none_are_given(call, example):
    given = call("clusters", example.model, "-h").out
    assert "[default: (those of the fit)]" in " ".join(given.replace("│", " ").split())
    mine = call("clusters", example.model, "--json").json
    theirs = call("clusters", example.model, "--constraints", example.numbered_pairs, "--json").json
    assert mine == theirs


def test_ids_are_looked_up_in_the_data(call, example):
    named = call(
        *("clusters", example.model, "--constraints", example.pairs),
        *("--data", example.rows, "--id", "name", "--json"),
    )
    assert named.json == call("clusters", example.model, "--json").json
    alone = call("clusters", example.model, "--constraints", example.pairs)
    assert alone.code == 2
    assert "Give --id COLUMN if the file names rows by an id." in alone.err


@pytest.mark.parametrize("method", ["tail-angle", "silhouette", "lifetime"])
def test_every_method_draws_its_curve(call, example, tmp_path, method):
    picture = tmp_path / "curve.png"
    done = call("clusters", example.model, "--method", method, "--plot", picture)
    assert done.code == 0
    assert "<- 3 clusters" in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_picture_of_an_unknown_kind_is_refused(call, example, tmp_path):
    done = call("clusters", example.model, "--plot", tmp_path / "curve.gif")
    assert done.code == 2
    assert "must end in .png, .svg, .pdf" in done.err


def test_pairs_beyond_the_fitted_rows_are_refused(call, example, tmp_path):
    (tmp_path / "pairs.csv").write_text("left,right,link\n0,120,cannot\n")
    done = call("clusters", example.model, "--constraints", tmp_path / "pairs.csv")
    assert done.code == 2
    assert "there are only 120 rows" in done.err


def test_bars_are_as_long_as_their_values():
    lines = bar_chart(["a", "b", "c"], [2.0, 1.0, -1.0], width=10)
    assert [line.count("█") for line in lines] == [10, 5, 0]
    assert bar_chart(["a"], [0.0]) == ["a   0.0 "]
    assert bar_chart([], []) == []
    assert np.all([len(line) <= 24 for line in lines])


@pytest.fixture
def report(call, example, tmp_path):
    """Run the command on the example with other options."""

    def run(*arguments, data=None, out=None):
        target = tmp_path / "report.html" if out is None else out
        rows = example.rows if data is None else data
        return call("report", example.model, "--data", rows, "--out", target, *arguments)

    return run


@pytest.fixture
def texts(example, tmp_path):
    """The rows of the example with a column of texts."""
    columns = {"name": example.ids, "words": [f"<b>text</b> of {name}" for name in example.ids]}
    path = tmp_path / "texts.csv"
    pa_csv.write_csv(pa.table({**columns, **{f"f{k}": example.X[:, k] for k in range(5)}}), path)
    return path


def test_page_is_written_from_files(call, example, tmp_path):
    out = tmp_path / "report.html"
    done = call(
        *("report", example.model, "--data", example.rows, "--id", "name"),
        *("--constraints", example.pairs, "--out", out, "--title", "My rows"),
    )
    assert (done.code, done.err) == (0, "")
    assert f"report      {out}" in done.out
    assert "of 300 satisfied" in done.out
    page = out.read_text(encoding="utf-8")
    assert "<h1>My rows</h1>" in page
    assert "row-000" in page
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_json_has_the_numbers(report):
    result = report("--id", "name", "--json").json
    assert (result["n_rows"], result["n_pairs"], result["n_clusters"]) == (120, 300, 3)
    assert sum(result["cluster_sizes"]) == 120
    assert result["share_kept"] == pytest.approx(1 - result["n_violated"] / 300)
    assert all(name.startswith("row-") for pair in result["to_label"] for name in pair)


def test_array_of_rows_and_numbered_pairs_work(array_fit, example, call, tmp_path):
    assert array_fit.code == 0
    out, pairs = tmp_path / "r.html", ("-c", example.numbered_pairs)
    done = call("report", example.array_model, "--data", example.array, *pairs, "--out", out, "-q")
    assert (done.code, done.out) == (0, "")
    assert "row 0" in out.read_text(encoding="utf-8")


def test_texts_are_shown_as_text(report, texts, tmp_path):
    done = report("--id", "name", "--text", "words", "--json", data=texts)
    assert (done.code, done.json["shown_as"]) == (0, "text")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;text&lt;/b&gt; of row-0" in page
    assert "<b>text" not in page


def test_map_is_sampled_on_request(report, tmp_path):
    assert report("--id", "name", "--points", 100, "--json").json["n_rows_drawn"] == 100
    assert "A sample: 100 of 120 rows" in (tmp_path / "report.html").read_text(encoding="utf-8")


BAD_OPTIONS = {
    "text column": (("--text", "words"), "has no column 'words'; it has 'name', 'f0'"),
    "id column": (("--id", "who"), "has no column 'who'"),
    "image size": (("--image", "3x4"), "has 12 values, but rows have 5 features"),
    "image words": (("--image", "huge"), "got 'huge' instead"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_wrong_options_are_one_sentence_and_exit_2(report, tmp_path, case):
    arguments, message = BAD_OPTIONS[case]
    done = report(*arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_cannot_be_written_are_refused_first(report, example, tmp_path):
    for out, message in [
        (tmp_path / "nowhere" / "r.html", "does not exist"),
        (tmp_path, "must end in .html"),
        (tmp_path / "r.pdf", "must end in .html"),
    ]:
        done = report(out=out)
        assert (done.code, message in done.err) == (2, True)


def test_rows_that_cannot_be_used_are_exit_2(report, call, example, tmp_path):
    spoilt = example.X.copy()
    spoilt[7, 2] = np.nan
    for name, X, message in [
        ("wide", np.zeros((9, 4)), "4 features"),
        ("nan", spoilt, "the first at row 7"),
        ("flat", np.zeros(5), "of shape (5,)"),
    ]:
        np.save(tmp_path / f"{name}.npy", X)
        done = report(data=tmp_path / f"{name}.npy")
        assert done.code == 2
        assert message in done.err
        assert "Traceback" not in done.err
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("f0,f1\n1,2\n3,4\n")
    assert "lacks 3 of the 5 columns" in report(data=lacking).err
    assert not (tmp_path / "report.html").exists()


def test_pairs_beyond_the_rows_and_unknown_ids_are_exit_2(report, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("left,right,link\n0,900,must\n")
    numbered = report("-c", pairs)
    assert (numbered.code, "only 120 rows" in numbered.err) == (2, True)
    pairs.write_text("left,right,link\nrow-000,stranger,must\n")
    named = report("-c", pairs, "--id", "name")
    assert (named.code, "'stranger'" in named.err) == (2, True)


def test_text_needs_named_columns(report, example):
    done = report("--text", "words", data=example.array)
    assert done.code == 2
    assert "--text needs a file with named columns" in done.err


def test_many_files_are_reported_like_one(call, example, many, tmp_path):
    asked = ("report", example.model, "--id", "name", "--constraints", example.pairs, "--json")
    one = call(*asked, "--data", example.rows, "--out", tmp_path / "one.html")
    done = call(*asked, "--data", many, "--out", tmp_path / "many.html", "--text", "name")
    assert done.code == 0, done.err
    assert done.json | {"report": "", "shown_as": ""} == one.json | {"report": "", "shown_as": ""}
    assert all(name in example.ids for pair in done.json["to_label"] for name in pair)


def test_ids_are_looked_up_in_many_files(call, example, many):
    asked = ("clusters", example.model, "--constraints", example.pairs, "--id", "name", "--json")
    done = call(*asked, "--data", many)
    assert done.code == 0, done.err
    assert done.json == call(*asked, "--data", example.rows).json
