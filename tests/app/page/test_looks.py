"""How the page looks: every view is accessible, narrow, light and dark; the map; rows that mean harm."""

from __future__ import annotations

import csv
import re

import pytest

NASTY = "<script>window.harm=1</script><img src=x onerror=window.harm=2>"


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1200, "light"), (1200, "dark")])
def test_every_view_is_accessible_and_does_not_scroll_sideways(person, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    ann = person(viewport={"width": width, "height": 740}, color_scheme=scheme, reduced_motion="reduce")
    ann.wait_for_groups()
    for view in ann.views:
        ann.see(view)
        if view == "look":
            ann.page.locator(".group h3 button").first.click()
            ann.page.get_by_label(re.compile("Choose item")).first.check()
            ann.page.locator(".selection").wait_for()
        found = axe.run(ann.page)
        assert found.violations_count == 0, found.generate_report()
        assert ann.page.evaluate("document.documentElement.scrollWidth") <= width, view
    paper = ann.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 28)" if scheme == "dark" else "rgb(250, 249, 247)")


def test_the_preview_of_a_file_is_accessible_and_fits_a_telephone(person, server):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    ann = person(viewport={"width": 360, "height": 740}, reduced_motion="reduce")
    ann.see("open")
    ann.page.locator("input[type=file]").set_input_files(server.data)
    ann.page.locator(".new-project .thumbs .item").first.wait_for()
    assert axe.run(ann.page).violations_count == 0
    assert ann.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_light_and_dark_can_be_chosen_and_stay(person):
    ann = person(color_scheme="light")
    ann.page.get_by_role("button", name="Dark").click()
    paper = "getComputedStyle(document.body).backgroundColor"
    assert ann.page.evaluate(paper) == "rgb(20, 23, 28)"
    ann.page.reload()
    ann.page.get_by_role("button", name="Light").wait_for()
    assert ann.page.evaluate(paper) == "rgb(20, 23, 28)"


@pytest.mark.parametrize("painter", ["webgl", "plain"])
def test_items_are_chosen_on_the_map_and_dragged_to_another_group(person, painter):
    ann = person(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    if painter == "webgl":
        # The browser of the tests has no graphics card; the page paints without WebGL unless told otherwise.
        ann.page.add_init_script("WebGL2RenderingContext.prototype.getParameter = () => 'a card'")
        ann.page.reload()
    ann.wait_for_groups()
    ann.see("look")
    page, canvas = ann.page, ann.page.locator("canvas")
    assert canvas.get_attribute("data-painter") == painter
    page.get_by_role("button", name="Choose items").click()
    page.locator(".names bdi").nth(1).wait_for()
    start, end = (page.locator(".names bdi").nth(k).bounding_box() for k in range(2))
    middle = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in (start, end)]
    (x, y), there = middle
    page.mouse.move(x - 60, y - 60)
    page.mouse.down()
    for corner in ((x + 60, y - 60), (x + 60, y + 60), (x - 60, y + 60)):
        page.mouse.move(*corner, steps=3)
    page.mouse.up()
    page.locator(".selection").wait_for()
    carry_from = ann.place_of_an_item(x, y)
    page.mouse.move(*carry_from)
    page.mouse.down()
    page.mouse.move(*there, steps=5)
    page.locator(".carry").wait_for()
    page.mouse.up()
    page.get_by_role("dialog").get_by_text(re.compile("Move .* items? to")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    assert ann.complaints == []


def test_hostile_rows_are_shown_as_text_and_execute_nothing(person, tmp_path):
    path = tmp_path / f"{'x' * 20}.csv"
    rows = [f"{NASTY} {k}" for k in range(30)] + [f"\u202eevil {k}" for k in range(30)] + ["long " * 200_000]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([NASTY])
        writer.writerows([row] for row in rows)
    ann = person("<i>eve</i>")
    page = ann.page
    page.get_by_role("link", name="spherepair").click()
    page.locator("input[type=file]").set_input_files(path)
    page.locator(".new-project .thumbs .item").first.wait_for()
    assert NASTY in page.locator(".new-project .thumbs").inner_text()
    page.locator(".new-project input").fill(NASTY)
    page.get_by_label("Text to read").select_option(NASTY)
    page.get_by_role("button", name="Start").click()
    page.locator(".card .item").first.wait_for(timeout=30_000)
    assert page.locator(".project-name").inner_text() == NASTY
    for _ in range(3):
        ticket = ann.ticket
        page.keyboard.press("u")
        ann.wait_for_another_card(ticket)
    assert page.evaluate("window.harm") is None
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert ann.complaints == []
