"""The page: data never becomes markup, 32 clusters can be told apart, and it stays small and quick."""

from __future__ import annotations

import copy
import json
import re
import time

import numpy as np
import pyarrow as pa
import pytest

from spherepair import Constraints, SpherePair, load
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError
from spherepair.report import _DARK_COLORS, ReportOptions, build_report, render_report, write_report

ALL = ReportOptions(n_violated=10_000)
#: What the clusters contain comes before how many there are.
SECTIONS = ["overview", "clusters", "map", "constraints", "again", "number", "next", "settings"]
NASTY = "</script><script>window.harm=1</script><img src=x onerror=window.harm=2>"


def data_of(page):
    """The JSON that the page's script reads."""
    return json.loads(re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)[1])


def text_of(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def named(X, model, names):
    """The same rows and model with names for the columns."""
    same = copy.copy(model)
    same.feature_names_in_ = np.array(names, dtype=object)
    same.transform = lambda table: model.transform(np.asarray(table))
    return pa.table(dict(zip(names, X.T, strict=True))), same


@pytest.fixture(scope="module")
def report(digits):
    return build_report(digits.model, digits.X, digits.other_pairs, options=ALL)


@pytest.fixture(scope="module")
def page(report):
    return render_report(report)


def test_every_section_is_there_once(page):
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS


def test_data_never_becomes_markup(blobs):
    X, _, model = blobs
    table, model = named(X, model, [NASTY, "f1", "f2", "f3", "f4"])
    for texts in (None, [f"{NASTY} {place}" for place in range(90)]):
        page = render_report(
            build_report(
                model, table, ids=[NASTY] * 90, texts=texts, options=ReportOptions(title=NASTY, n_violated=9)
            )
        )
        assert "<script>window" not in page
        assert "<img src=x" not in page
        assert page.count("<script") == page.count("</script>") == 2
        assert data_of(page)["names"][0] == NASTY


def test_policy_allows_the_script_of_the_page_and_nothing_else(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_sampled_map_says_so(digits):
    few = build_report(digits.model, digits.X, options=ReportOptions(n_points=350))
    said = text_of(render_report(few))
    assert f"A sample: {len(few.points.rows)} of 500 rows are drawn" in said
    assert "A sample" not in text_of(render_report(build_report(digits.model, digits.X)))


def test_sixty_thousand_images_make_a_small_page_in_seconds(plain_model, tmp_path):
    rng = np.random.default_rng(0)
    centers = 100 * np.eye(10, 196)[:, :20]
    labels = np.arange(60_000) % 10
    X = rng.integers(0, 60, (60_000, 196)).astype(np.uint8)
    X[:, :20] += centers[labels].astype(np.uint8)
    pairs = Constraints.from_labels((labels + (rng.random(60_000) < 0.05)) % 10, 8000, random_state=0)
    model = plain_model().fit(X, labels, centers=centers, constraints=pairs)
    started = time.process_time()
    found = write_report(model, X, pairs, tmp_path / "r.html", options=ReportOptions(image="14x14"))
    assert time.process_time() - started < 20
    assert (tmp_path / "r.html").stat().st_size < 1_500_000
    assert len(found.points.rows) == 3000
    assert found.satisfaction.n_more > 0


def test_same_input_gives_the_same_file(digits, page):
    assert render_report(build_report(digits.model, digits.X, digits.other_pairs, options=ALL)) == page


def test_bad_input_is_refused_and_nothing_is_written(digits, tmp_path):
    out = tmp_path / "r.html"
    spoilt = digits.X.copy()
    spoilt[7, 2] = np.nan
    for X, pairs, error, message in [
        (digits.X[:, :9], None, InvalidDataError, "9 features"),
        (spoilt, None, InvalidDataError, "row 7"),
        (digits.X, Constraints.from_pairs(must_link=[(0, 900)]), InvalidConstraintsError, "only 500 rows"),
    ]:
        with pytest.raises(error, match=message):
            write_report(digits.model, X, pairs, out)
    with pytest.raises(InvalidParameterError, match="does not exist"):
        write_report(digits.model, digits.X, None, tmp_path / "nowhere" / "r.html")
    with pytest.raises(InvalidParameterError, match="is a folder"):
        write_report(digits.model, digits.X, None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_loaded_model_gives_the_same_page(digits, page, tmp_path):
    digits.model.save(tmp_path / "model")
    loaded = build_report(load(tmp_path / "model"), digits.X, digits.other_pairs, options=ALL)
    ours = re.sub(r"<dt>device</dt><dd>.*?</dd>", "", page)
    theirs = re.sub(r"<dt>device</dt><dd>.*?</dd>", "", render_report(loaded))
    assert data_of(theirs) == data_of(ours)
    assert text_of(theirs.split('id="settings"')[0]) == text_of(ours.split('id="settings"')[0])


def test_inferred_number_shows_curve_and_confidence(digits):
    auto = SpherePair(hidden_dims=(32,), pretraining=None, max_epochs=5, random_state=0, progress=False)
    auto.fit(digits.X, constraints=digits.pairs)
    found = build_report(auto, digits.X)
    assert found.number.inferred == auto.cluster_number_.value
    assert not found.number.was_given
    page = render_report(found)
    assert f"confidence {auto.cluster_number_.confidence:.2f}" in page
    assert page.count('class="dot') == len(found.number.curve.dots) >= 12
    # New rows without pairs of their own say nothing about the number.
    assert build_report(auto, digits.X[100:200]).number == found.number
    assert len(repr(found)) < 300


def test_numbers_are_those_of_the_model(digits, report, page):
    labels, pairs = digits.model.labels_, digits.other_pairs
    satisfied = (labels[pairs.left] == labels[pairs.right]) == pairs.is_must_link
    assert report.satisfaction.total.n_satisfied == satisfied.sum()
    assert report.satisfaction.total.n_violated == (~satisfied).sum() > 0
    assert [card.n_rows for card in report.clusters] == np.bincount(labels, minlength=10).tolist()
    said = text_of(page)
    assert "500 rows of 64 values in 10 clusters, found by SpherePair with 700 constraints." in said
    assert f"{report.satisfaction.total.n_violated} constraint" in said
    assert "You asked for 10 clusters." in said
    assert report.number.explanation in said.replace("&#39;", "'")


def test_list_of_violated_constraints_is_capped_and_says_how_many_more(digits):
    few = build_report(digits.model, digits.X, digits.other_pairs, options=ReportOptions(n_violated=2))
    assert len(few.satisfaction.violated) == 2
    assert f"{few.satisfaction.total.n_violated - 2} more are not." in text_of(render_report(few))


def test_thirty_two_clusters_differ_in_color_or_shape(many_clusters):
    page = render_report(many_clusters)
    names = re.findall(
        r'#cluster-(\d+)"><span class="name"><svg class="mark (c\d+)"[^>]*><use href="#(mark-\d)"',
        page,
    )
    assert len(names) == 32
    assert len({(color, shape) for _, color, shape in names}) == 32
    assert len({color for _, color, _ in names}) == 16
    assert len({tuple(style) for style in data_of(page)["styles"]}) == 32
    defined = set(re.findall(r"\.(c\d+) \{ color: ", page)) & {color for _, color, _ in names}
    assert len(defined) == len(set(_DARK_COLORS)) == 16


def test_few_of_three_hundred_questions_are_shown_and_the_rest_is_folded_into_a_box(many_clusters):
    assert len(many_clusters.questions) == 300
    section = render_report(many_clusters).split('<section id="next"')[1].split("</section>")[0]
    shown, folded = section.split('<details class="more">')
    assert (shown.count('<article class="pair"'), folded.count('<article class="pair"')) == (6, 294)
    assert 'class="pairs box"' in folded
    assert "Show 294 more" in folded


def test_cards_of_many_clusters_are_folded_and_of_few_are_open(many_clusters, page):
    assert render_report(many_clusters).count('<details class="card">') == 32
    assert page.count('<details class="card" open>') == 10


def test_page_says_nothing_of_angles_between_the_rows_of_a_pair(page):
    section = page.split('<section id="constraints"')[1].split("</section>")[0]
    assert "but in one cluster" in section
    assert "°" not in section
    assert "apart" not in text_of(section)


def test_card_of_texts_says_what_sets_the_cluster_apart(blobs):
    X, _, model = blobs
    page = render_report(build_report(model, X, texts=["some text"] * 90))
    card = page.split('<article class="cluster" id="cluster-0"')[1].split("</article>")[0]
    assert 'class="traits always"' in card
    assert "▲ column 0" in card
