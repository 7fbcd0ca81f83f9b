"""The way through the page, with the real server behind it: by keyboard, by mouse, by two people at once."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

COUNTED = "n => +document.querySelector('.counter strong').textContent === n"
N_GROUPS = "n => document.querySelectorAll('.group').length === n"
ELEMENTS = "() => document.querySelectorAll('*').length"


def test_an_answer_is_taken_back_after_a_refit(person):
    ann = person()
    ann.answer()
    ann.wait_for_groups()
    count = ann.answers
    ann.page.keyboard.press("z")
    ann.page.get_by_text("Taken back").wait_for()
    assert ann.answers == count - 1


def test_whole_way_by_keyboard(person):
    ann = person()
    before = ann.answers
    for _ in range(8):
        ann.answer()
    assert ann.answers == before + 8
    ann.page.keyboard.press("z")
    ann.page.get_by_text("Taken back").wait_for()
    assert ann.answers == before + 7
    ann.page.keyboard.press("u")
    ann.page.keyboard.press("?")
    ann.page.get_by_role("dialog").wait_for()
    ann.page.keyboard.press("Escape")
    ann.page.get_by_role("link", name="Groups").focus()
    ann.page.keyboard.press("Enter")
    ann.page.get_by_role("heading", name="The groups").wait_for()
    ann.page.locator(".group h3 button").first.press("Enter")
    ann.page.get_by_label(re.compile("Choose item")).first.press("Space")
    ann.page.get_by_role("button", name="Not in this group").press("Enter")
    ann.page.locator("dialog .primary:focus").press("Enter")
    ann.page.get_by_role("button", name="Undo").press("Enter")
    ann.page.get_by_text("Undone.").wait_for()
    ann.page.get_by_role("link", name="Take away").focus()
    ann.page.keyboard.press("Enter")
    with ann.page.expect_download() as saved:
        ann.page.get_by_role("link", name=re.compile("as a table")).press("Enter")
    assert len(Path(saved.value.path()).read_text(encoding="utf-8").splitlines()) == 121
    assert ann.complaints == []


def test_whole_way_by_mouse(person, server):
    ben = person("ben")
    before = ben.answers
    for _ in range(4):
        ben.answer(by="mouse")
    assert ben.answers == before + 4
    ben.page.get_by_text("Take back the last answer").click()
    ben.page.get_by_text("Taken back").wait_for()
    ben.wait_for_groups()
    ben.see("look")
    page = ben.page
    first = page.locator(".group").first
    first.get_by_role("button", name=re.compile("Rename")).click()
    page.keyboard.type("About <b>cards</b>")
    page.get_by_role("button", name="Keep").click()
    page.locator(".group h3", has_text="About <b>cards</b>").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.locator(".group h3", has_text="About <b>cards</b>").wait_for(state="detached")
    first.get_by_role("button", name=re.compile("Rename")).click()
    page.keyboard.type("About <b>cards</b>")
    page.keyboard.press("Enter")
    page.locator(".group h3", has_text="About <b>cards</b>").wait_for()
    page.locator(".group h3 button", has_text="About").click()
    page.get_by_role("button", name="Merge the two").click()
    page.get_by_role("dialog").get_by_text(re.compile(r"writes .* “belong together”")).wait_for()
    page.get_by_role("button", name="Do it").click()
    page.get_by_text("Done.", exact=True).wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Undone.").wait_for()
    page.locator("#search").fill("mortgage")
    page.get_by_role("button", name="Find").click()
    page.get_by_label(re.compile("Choose item m")).first.check()
    page.get_by_text("1 item chosen").wait_for()
    ben.see("take")
    with page.expect_download() as saved:
        page.locator("input[type=file]").set_input_files(server.data)
    assert len(Path(saved.value.path()).read_text(encoding="utf-8").splitlines()) == 121
    assert ben.complaints == []


def test_cards_are_answered_and_items_chosen_by_touch_on_a_telephone(person):
    tom = person("tom", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    before = tom.answers
    for _ in range(3):
        tom.answer(by="touch")
    assert tom.answers == before + 3
    tom.wait_for_groups()
    tom.see("look")
    page = tom.page
    page.get_by_role("button", name="Choose items").tap()
    page.locator("canvas").scroll_into_view_if_needed()
    x, y = middle_of(page.locator(".names bdi").first)
    tom.touch([(x - 50, y - 50), (x + 50, y - 50), (x + 50, y + 50), (x - 50, y + 50)])
    page.get_by_text(re.compile(r"\d+ items? chosen")).wait_for()
    assert page.locator(".selection").bounding_box()["y"] < 740  # seen without scrolling
    assert tom.complaints == []


def middle_of(place):
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_group_is_split_around_chosen_items_and_is_whole_again_after_undo(person):
    ann = person()
    ann.wait_for_groups()
    ann.see("look")
    page = ann.page
    page.locator(".group h3 button").first.click()
    before = page.locator(".group").count()
    for place in range(2):
        page.get_by_label(re.compile("Choose item")).nth(place).check()
    page.get_by_role("button", name=re.compile("Split the group")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("is split into 2 parts").wait_for()
    dialog.get_by_text(re.compile(r"writes \d+ times? “do not belong together”")).wait_for()
    page.get_by_role("button", name="Do it").click()
    page.wait_for_function(N_GROUPS, arg=before + 1)
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function(N_GROUPS, arg=before)


def test_keys_pressed_faster_than_cards_come_write_every_answer_once(large_server, person):
    """The same with 10,000 answers: bench/label_page.py --rapid."""
    ann = person("quick", at=large_server)
    page, size = ann.page, ann.page.evaluate(ELEMENTS)
    deadline = time.monotonic() + 120
    while ann.answers < 25:  # a key between two cards means none: a slow machine needs more of them
        assert time.monotonic() < deadline
        for _ in range(100):
            page.keyboard.press("u")
    before = -1
    while before != ann.answers:  # until the last one has arrived
        before = ann.answers
        page.wait_for_timeout(1000)
    project = page.url.partition("#/")[2].partition("/")[0]
    log = page.request.get(f"http://127.0.0.1:{large_server.port}/api/projects/{project}/answers?by=quick")
    assert log.json()["total"] == ann.answers
    assert page.evaluate(ELEMENTS) < 2 * size
    ann.answer()  # there is still a card, and keys mean it
    assert ann.complaints == []


def test_two_people_at_once_have_cards_of_their_own_and_meet_among_the_people(person):
    ann, ben = person("ann"), person("ben")
    assert ann.ticket != ben.ticket
    before = ann.answers
    for one in (ann, ben, ann, ben):
        one.answer()
    ann.page.wait_for_function(COUNTED, arg=before + 4)
    ann.see("disagreements")
    table = ann.page.locator("table").inner_text()
    assert "ann" in table
    assert "ben" in table


def test_reload_in_the_middle_shows_the_same_card(person):
    ann = person()
    ann.answer()
    ticket, words = ann.ticket, ann.page.locator(".card").inner_text()
    ann.page.reload()
    ann.page.locator(f".card[data-ticket='{ticket}']").wait_for()
    assert ann.page.locator(".card .words").all_inner_texts()[0] in words


def test_the_guess_is_hidden_until_it_is_asked_for(person):
    ann = person()
    ann.wait_for_groups()
    for _ in range(12):
        if ann.page.locator(".card").get_attribute("data-kind") == "choice":
            ann.page.keyboard.press("g")
            if ann.page.locator(".card .guess").count():
                break
            ann.page.keyboard.press("g")
        assert ann.page.locator(".card .guess").count() == 0
        ann.answer()
    else:
        pytest.fail("no card came with a guess")
    ann.page.keyboard.press("g")
    assert ann.page.locator(".card .guess").count() == 0


def test_the_page_says_what_the_last_answers_changed(person):
    ann = person()
    while ann.answers < 22:
        ann.answer()
    told = ann.page.locator(".progress .lately")
    told.wait_for(timeout=60_000)  # until a model has been trained, on a busy machine
    assert re.fullmatch(r"The last \d+ answers .*(item|group)s?( to another group)?\.", told.inner_text())


def test_answer_given_while_the_server_is_gone_is_written_once_or_asked_again(person, server):
    ann = person()
    ticket, before = ann.ticket, ann.answers
    server.kill()
    ann.page.keyboard.press("u")
    ann.page.get_by_text("The program does not answer.").wait_for()
    ann.page.keyboard.press("u")
    server.start()
    ann.wait_for_another_card(ticket, timeout=40_000)
    ann.page.get_by_text("The program does not answer.").wait_for(state="hidden")
    refused = ann.page.get_by_text("nothing was written").count()
    ann.page.wait_for_function(COUNTED, arg=before + 1 - refused)
