"""The page in headless Chromium: it opens quietly, hovering and filtering work, data stays text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spherepair.report import ReportOptions, render_report, write_report

NASTY = "</script><script>window.harm=1</script><img src=x onerror=window.harm=2>"


class Visit:
    """An open page with everything it complained about or asked for."""

    def __init__(self, browser, path, **options):
        self.page = browser.new_page(**options)
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def point_at_something(self):
        """Move the mouse over the map until a row answers."""
        canvas = self.page.locator("#map-canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        for x in np.linspace(0.1, 0.9, 17):
            for y in np.linspace(0.2, 0.8, 13):
                self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
                if self.page.locator("#map-tip").is_visible():
                    return self.page.locator("#map-tip").inner_text()
        return ""


@pytest.fixture(scope="module")
def written(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return path, write_report(
        digits.model, digits.X, digits.other_pairs, path, options=ReportOptions(n_violated=999)
    )


@pytest.fixture
def visit(browser):
    """Open pages, and close them."""
    opened = []

    def go(path, **options):
        opened.append(Visit(browser, path, **options))
        return opened[-1]

    yield go
    for one in opened:
        one.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_opens_without_complaint_and_without_network(visit, written, scheme):
    seen = visit(written[0], color_scheme=scheme)
    seen.page.wait_for_timeout(100)
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.page.locator("#map-count").inner_text() == "500 of 500 rows"


def test_hovering_shows_the_row(visit, written):
    seen = visit(written[0])
    assert not seen.page.locator("#map-tip").is_visible()
    tip = seen.point_at_something()
    assert "row " in tip
    assert "Cluster " in tip
    assert seen.page.locator("#map-tip .tile-image").is_visible()
    seen.page.mouse.move(2, 2)
    assert not seen.page.locator("#map-tip").is_visible()
    assert seen.complaints == []


def test_arrow_keys_step_through_the_rows(visit, written):
    seen = visit(written[0])
    seen.page.locator("#map-canvas").focus()
    names = []
    for _ in range(2):
        seen.page.keyboard.press("ArrowRight")
        names.append(seen.page.locator("#map-tip b").inner_text())
    assert names == ["row 0", "row 1"]


def test_filter_by_cluster_acts_on_map_lists_and_cards(visit, written):
    path, report = written
    seen = visit(path)
    seen.page.select_option("#filter-cluster", "3")
    size = report.clusters[3].n_rows
    assert seen.page.locator("#map-count").inner_text() == f"{size} of 500 rows"
    assert seen.page.locator("article.cluster:visible").count() == 1
    wanted = sum(3 in (pair.left.cluster, pair.right.cluster) for pair in report.satisfaction.violated)
    assert seen.page.locator("#constraints article.pair:visible").count() == wanted
    seen.page.click('[data-pick="3"]')
    assert seen.page.locator("article.cluster:visible").count() == 10
    assert seen.page.locator("#map-count").inner_text() == "500 of 500 rows"


def test_filter_shows_only_rows_of_violated_constraints(visit, written):
    path, report = written
    seen = visit(path)
    seen.page.select_option("#filter-rows", "violated")
    rows = {end.row for pair in report.satisfaction.violated for end in (pair.left, pair.right)}
    assert seen.page.locator("#map-count").inner_text() == f"{len(rows)} of 500 rows"
    seen.page.select_option("#filter-rows", "borderline")
    assert seen.page.locator("#map-count").inner_text() == f"{report.n_borderline} of 500 rows"


def test_pairs_to_label_are_saved_as_csv(visit, written):
    path, report = written
    seen = visit(path)
    with seen.page.expect_download() as saved:
        seen.page.click("#download")
    lines = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "left,right,link"
    first = report.questions[0]
    assert lines[1] == f"{first.left.row},{first.right.row},"
    assert len(lines) == 1 + len(report.questions)


def test_text_of_the_data_is_shown_as_text(visit, blobs, tmp_path):
    X, _, model = blobs
    path = tmp_path / "nasty.html"
    write_report(
        model,
        X,
        None,
        path,
        ids=[f"{NASTY} {k}" for k in range(90)],
        texts=[NASTY] * 90,
        options=ReportOptions(title=NASTY),
    )
    seen = visit(path)
    assert NASTY in seen.point_at_something()
    assert seen.page.locator("h1").inner_text() == NASTY
    assert seen.page.evaluate("window.harm") is None
    assert seen.page.locator("img").count() == 0
    assert seen.complaints == []


def test_three_hundred_questions_and_thirty_two_clusters_make_a_page_of_bounded_height(
    visit, many_clusters, tmp_path
):
    path = tmp_path / "many.html"
    path.write_text(render_report(many_clusters), encoding="utf-8")
    seen = visit(path, viewport={"width": 1200, "height": 900})
    height = "document.documentElement.scrollHeight"
    folded = seen.page.evaluate(height)
    assert folded < 8000
    seen.page.click("#next details.more > summary")
    assert seen.page.locator("#next article.pair:visible").count() == 300
    assert seen.page.evaluate(height) < folded + 800
    assert seen.complaints == []


def test_link_to_a_folded_cluster_opens_it(visit, many_clusters, tmp_path):
    path = tmp_path / "many.html"
    path.write_text(render_report(many_clusters), encoding="utf-8")
    seen = visit(path)
    assert not seen.page.locator("#cluster-5 table").is_visible()
    seen.page.click('.sizes a[href="#cluster-5"]')
    assert seen.page.locator("#cluster-5 table").is_visible()
    assert not seen.page.locator("#cluster-6 table").is_visible()
    seen.page.select_option("#filter-cluster", "7")
    assert seen.page.locator("#cluster-7 table").is_visible()


def test_mark_of_the_chart_stands_above_its_number_on_the_axis(visit, written):
    path, report = written
    seen = visit(path)
    mark = seen.page.locator(".decided").first
    line, label = mark.locator("line").bounding_box(), mark.locator(".tick").bounding_box()
    assert mark.locator(".tick").text_content() == str(report.number.n_clusters)
    assert abs(line["x"] - (label["x"] + label["width"] / 2)) < 3
    assert 0 <= label["y"] - (line["y"] + line["height"]) < 12


@pytest.mark.parametrize("width", [360, 400, 1200])
def test_page_does_not_scroll_sideways(visit, written, width):
    seen = visit(written[0], viewport={"width": width, "height": 700})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_printing_takes_filters_away_and_shows_everything_on_white(visit, written):
    path, report = written
    seen = visit(path, color_scheme="dark")
    seen.page.select_option("#filter-cluster", "3")
    background = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(background) == "rgb(20, 23, 28)"
    seen.page.emulate_media(media="print")
    seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert seen.page.evaluate(background) == "rgb(255, 255, 255)"
    assert seen.page.locator("article.cluster:visible").count() == 10
    assert seen.page.locator("#constraints article.pair:visible").count() == len(report.satisfaction.violated)
    assert not seen.page.locator("#filter-cluster").is_visible()
    assert len(seen.page.pdf()) > 10_000
