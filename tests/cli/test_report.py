"""``spherepair report``: files in, one page out, and one sentence for whatever is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest


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


def test_page_is_written_from_files(shell, example, tmp_path):
    out = tmp_path / "report.html"
    done = shell(
        *("report", example.model, "--data", example.rows, "--id", "name"),
        *("--constraints", example.pairs, "--out", out, "--title", "My rows"),
    )
    assert (done.code, done.err) == (0, "")
    assert f"written      {out}" in done.out
    assert "of 300 kept" in done.out
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


def test_array_of_rows_and_numbered_pairs_work(report, example, call, tiny, tmp_path):
    model = tmp_path / "model"
    pairs = ("-c", example.numbered_pairs)
    assert call("fit", example.array, *pairs, "-o", model, *tiny, "-q").code == 0
    out = tmp_path / "r.html"
    done = call("report", model, "--data", example.array, *pairs, "--out", out, "-q")
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
