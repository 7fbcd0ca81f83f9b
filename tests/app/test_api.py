from __future__ import annotations

import hashlib
import io
import json
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from tests.app.conftest import TOKEN, as_person, text_source, topic_texts
from tests.fuzz.uploads import zip_of_pictures

from spherepair.app.open_project import Card
from spherepair.app.payloads import Payloads
from spherepair.app.projects import read_encoder
from spherepair.app.security import Door, clean_name, is_loopback
from spherepair.app.server import PAGE, create_app
from spherepair.app.versions import Group, Version
from spherepair.asking.questions import Gesture, PairQuestion
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError


@pytest.fixture
def ann(client, project):
    return Person(client, project, "ann")


class Person:
    """Somebody who answers right; texts are of three topics in turn."""

    def __init__(self, client: TestClient, project: str, name: str) -> None:
        self.client, self.url, self.headers = client, f"/api/projects/{project}", as_person(client, name)

    def get(self, path: str, **kwargs):
        return self.client.get(self.url + path, headers=self.headers, **kwargs)

    def post(self, path: str, body=None, **kwargs):
        return self.client.post(self.url + path, json=body, headers=self.headers, **kwargs)

    def card(self) -> dict:
        return self.get("/question").json()

    def answer(self, card: dict, reply=None):
        reply = right_reply(card) if reply is None else reply
        return self.post("/answers", {"ticket": card["ticket"], "reply": reply, "seconds": 4.0})

    def answer_many(self, count: int) -> dict:
        card = self.card()
        for _ in range(count):
            card = self.answer(card).json()["question"]
        return card


def right_reply(card: dict):
    if card["kind"] == "choice":
        rows = [exemplar["item"]["row"] for exemplar in card["exemplars"]]
        return next((row for row in rows if row % 3 == card["item"]["row"] % 3), "none")
    if card["kind"] == "pair":
        return "same" if card["left"]["row"] % 3 == card["right"]["row"] % 3 else "different"
    first, *rows = [item["row"] for item in card["items"]]
    return [row for row in rows if row % 3 != first % 3]


# Cards and answers.


def test_a_card_stays_until_it_is_answered(ann):
    card = ann.card()
    assert ann.card() == card
    reply = ann.answer(card).json()
    assert reply["number"] == 0
    assert reply["links"]["must"] + reply["links"]["cannot"] >= 1
    assert reply["state"]["answers"] == 1
    assert reply["question"]["ticket"] != card["ticket"]
    assert ann.card() == reply["question"]


def test_the_same_ticket_again_writes_nothing(ann):
    card = ann.card()
    first, second = ann.answer(card).json(), ann.answer(card).json()
    assert second["number"] == first["number"]
    assert second["state"]["answers"] == 1
    assert ann.get("/answers").json()["total"] == 1


def test_two_people_have_different_cards(client, project):
    ann, bob = Person(client, project, "ann"), Person(client, project, "bob")
    ann.answer_many(4)
    one, other = ann.card(), bob.card()
    assert one["item"]["row"] != other["item"]["row"]
    assert bob.answer(one).status_code == 409
    bob.answer(other)
    assert {line["by"] for line in ann.get("/answers").json()["answers"]} == {"ann", "bob"}


@pytest.mark.parametrize(("left", "right", "guess"), [(0, 3, "same"), (0, 4, "different")])
def test_a_pair_comes_with_the_guess_of_the_model_unless_it_is_a_check(ann, home, left, right, guess):
    labeling = home.get(ann.url.rpartition("/")[2])

    def guess_of(question: PairQuestion) -> str | None:
        return Payloads(labeling).card(Card("a ticket", "ann", question))["guess"]

    question = PairQuestion(left, right)
    assert guess_of(question) is None  # no model yet
    labels = (np.arange(60) % 3).astype(np.uint16)
    version = Version(1, 0, 60, groups=tuple(Group(f"g{number}", number) for number in range(3)))
    version.__dict__["labels"] = labels
    labeling.version = version
    assert guess_of(question) == guess
    assert guess_of(PairQuestion(left, right, is_check=True)) is None


def test_undo_takes_the_persons_own_answer_and_brings_the_card_back(client, project):
    ann, bob = Person(client, project, "ann"), Person(client, project, "bob")
    card = ann.card()
    ann.answer(card)
    bob.answer(bob.card(), "unsure")
    reply = ann.post("/undo", {"number": None}).json()
    assert reply["undone"]["number"] == 0
    assert reply["undone"]["by"] == "ann"
    assert reply["question"]["item"]["row"] == card["item"]["row"]
    assert reply["question"]["ticket"] != card["ticket"]
    assert reply["state"]["answers"] == 1
    assert ann.answer(reply["question"]).is_success
    assert ann.post("/undo", {"number": 99}).status_code == 422


def test_what_does_not_fit_is_refused_and_nothing_written(ann):
    card = ann.card()
    for reply in (10**9, "perhaps", [1, 2], True):
        assert ann.answer(card, reply).status_code == 422
    assert ann.post("/answers", {"ticket": "made up", "reply": "none"}).status_code == 409
    assert ann.post("/answers", {"reply": "none"}).json()["error"].startswith("ticket:")
    assert ann.get("/answers").json()["total"] == 0


def test_answers_survive_a_new_start(client, home, project):
    ann = Person(client, project, "ann")
    last = ann.answer_many(5)
    before = ann.get("/answers").json()
    home.close()
    assert ann.get("/answers").json() == before
    assert ann.card()["ticket"] == last["ticket"]
    assert ann.answer(last).json()["number"] == 5


def test_a_card_can_be_answered_after_a_new_start_whatever_would_be_asked_now(client, home, project):
    ann, bob = Person(client, project, "ann"), Person(client, project, "bob")
    ann.answer_many(4)
    card, other = ann.card(), bob.card()
    home.close()
    bob.answer_many(6)  # bob comes back first, and gets another card than before
    reply = ann.answer(card)
    assert reply.status_code == 200
    assert ann.answer(card).json()["number"] == reply.json()["number"]
    assert bob.answer(other).status_code == 409  # bob has gone on since
    assert ann.answer(bob.card()).status_code == 409  # not hers
    body, _, signed = card["ticket"].partition(".")
    assert ann.post("/answers", {"ticket": f"{body[::-1]}.{signed}", "reply": "none"}).status_code == 409
    lines = ann.get("/answers").json()["answers"]
    assert sorted(line["number"] for line in lines) == list(range(11))


def test_a_contradiction_is_shown_with_its_chain(ann):
    ann.answer_many(12)
    groups = ann.get("/groups").json()
    placed = [group["typical"][0]["row"] for group in groups[:2]]
    labeling = ann.client.app.state.projects.get(ann.url.rpartition("/")[2])
    event = labeling.gesture("bob", Gesture("claim", ((*placed, True),)), takes_back=[])
    shown = ann.get("/disagreements").json()
    triangle = shown["contradictions"][0]["triangle"]
    assert triangle[-1]["number"] == event.place
    assert triangle[-1]["by"] == "bob"
    assert sorted(one["says"] for one in triangle).count("different") == 1
    assert [one["person"] for one in shown["people"]] == ["ann", "bob"]
    assert shown["agreement"] == [{"people": ["ann", "bob"], "shared": 1, "agree": 0}]
    ann.post("/take-back", {"number": event.place})
    assert ann.get("/disagreements").json()["contradictions"] == []


# Groups, map, search.


def test_the_state_says_what_the_last_twenty_answers_changed(ann, home):
    ann.answer_many(19)
    assert ann.get("").json()["state"]["changed_lately"] is None
    ann.answer_many(1)
    labeling = home.get(ann.url.rpartition("/")[2])
    labeling._state_due = 0.0
    told = labeling.state()["changed_lately"]
    assert told == {"answers": 20, "rows_moved": 0, "groups_new": 3}


def test_groups_map_and_search_agree(ann):
    ann.answer_many(12)
    groups = ann.get("/groups").json()
    assert len(groups) == 3
    content = ann.get("/map").content
    length = struct.unpack("<I", content[:4])[0]
    header = json.loads(content[4 : 4 + length])
    start = 4 + length
    assert start % 4 == 0
    n = header["n"]
    assert len(content) == start + 11 * n
    labels = np.frombuffer(content, "<u2", n, start + 8 * n)
    sizes = {group["id"]: group["size"] for group in groups}
    assert sizes == {g["id"]: g["size"] for g in header["groups"] if g["size"]}
    assert (labels < 65535).sum() == sum(sizes.values())
    found = ann.get("/search", params={"q": "STOLEN", "limit": 100}).json()
    assert [one["item"]["row"] for one in found] == list(range(0, 60, 3))


def test_a_name_stays_after_answers_and_a_new_start(ann, home):
    ann.answer_many(12)
    group = ann.get("/groups").json()[0]
    named = ann.post(f"/groups/{group['id']}/name", {"name": " Cards \u0000\u202e"}).json()
    assert named["name"] == "Cards"
    assert named["named_by_person"] is True
    ann.answer_many(5)
    home.close()
    names = {one["id"]: one["name"] for one in ann.get("/groups").json()}
    assert names[group["id"]] == "Cards"
    assert ann.post("/groups/nothing/name", {"name": "x"}).status_code == 404


def test_events_tell_the_state_and_answers(ann):
    labeling = ann.client.app.state.projects.get(ann.url.rpartition("/")[2])
    import asyncio

    async def listen() -> list[bytes]:
        stream = labeling.stream.listen(None, b"event: state\n\n")
        first = await anext(stream)
        await asyncio.to_thread(ann.answer, ann.card())
        second = await anext(stream)
        last = second.split(b"\n")[0].removeprefix(b"id: ").decode()
        await asyncio.to_thread(ann.answer, ann.card())
        await stream.aclose()
        again = labeling.stream.listen(last, b"")
        missed = await anext(again)
        await again.aclose()
        return [first, second, missed]

    with ThreadPoolExecutor(1) as thread:  # a browser of other tests may have a loop in this one
        first, second, missed = thread.submit(asyncio.run, listen()).result()
    assert first.startswith(b"event: state")
    assert b"event: answer" in second
    assert b'"number": 0' in second
    assert b"event: " in missed
    assert missed != second


# Exports.


def test_labels_and_pairs_can_be_taken_away(ann, tmp_path):
    ann.answer_many(12)
    labels = pq.read_table(io.BytesIO(ann.get("/export/labels?format=parquet").content))
    assert labels.column_names == ["row", "id", "cluster", "name", "confidence", "placed_by_people"]
    assert labels["id"].to_pylist()[:2] == ["m0", "m1"]
    assert sum(labels["placed_by_people"].to_pylist()) == sum(g["placed"] for g in ann.get("/groups").json())
    (tmp_path / "pairs.csv").write_bytes(ann.get("/export/pairs?format=csv").content)
    pairs = Constraints.read(tmp_path / "pairs.csv", ids=[f"m{n}" for n in range(60)])
    assert (pairs.is_must_link == (pairs.left % 3 == pairs.right % 3)).all()
    assert ann.get("/export/pairs?format=exe").status_code == 422
    assert ann.get("/export/model").status_code == 422


def test_formulas_and_markup_are_harmless_in_exports(client, home):
    bad = ["=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(A1)", "\t=1", "<script>alert(1)</script>", "\u202eevil"]
    texts, _ = topic_texts(60)
    source = text_source()
    table = pa.table({"id": bad + [f"m{n}" for n in range(53)], "text": pa.array(texts, pa.large_string())})
    project = home.create(type(source)(table), name="=1+1").id
    ann = Person(client, project, "=HYPERLINK(1)")
    ann.answer_many(8)
    group = ann.get("/groups").json()[0]
    ann.post(f"/groups/{group['id']}/name", {"name": "=1+1 <b>"})
    for path in ("/export/labels", "/export/pairs"):
        content = ann.get(path).text
        assert not [
            cell for cell in content.replace("\n", ",").split(",") if cell.strip('"')[:1] in "=+@\t" and cell
        ]
        assert ann.get(path).headers["content-disposition"].startswith("attachment")
    assert ann.get("/items/5").json()["id"] == "<script>alert(1)</script>"
    assert ann.get("/items/5").headers["content-type"] == "application/json"


# Uploads.


def test_an_upload_becomes_a_project(client):
    texts, _ = topic_texts(30)
    content = "id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts))
    headers = as_person(client, "ann")
    files = {"file": ("../../etc/rows.csv", content.encode())}
    preview = client.post("/api/preview", files=files, headers=headers).json()
    assert preview["suggested"] == {"text": "text", "images": None, "id": "id"}
    assert [item["text"] for item in preview["items"]] == texts[:5]
    made = client.post("/api/projects", files=files, headers=headers).json()
    assert made["rows"] == 30
    assert made["name"] == "rows"
    assert client.get("/api/projects", headers=headers).json() == [made]
    assert Person(client, made["id"], "ann").card()["kind"] == "choice"


def test_chosen_columns_are_respected_and_the_others_are_left_alone(client):
    lines = [f"{n},a text of some length {n},another one of some length {n},{n % 3}" for n in range(30)]
    files = {"file": ("rows.csv", "\n".join(["id,first,second,size", *lines]).encode())}
    headers = as_person(client, "ann")

    def shown(**fields):
        return client.post("/api/preview", files=files, data=fields, headers=headers).json()

    assert shown()["suggested"]["text"] == "second"
    assert shown(text="first", chosen="true")["suggested"] == {"text": "first", "images": None, "id": None}
    assert shown(text="first", chosen="true")["items"][1]["text"] == "a text of some length 1"
    assert shown(chosen="true")["suggested"]["text"] is None
    made = client.post("/api/projects", files=files, data={"text": "first"}, headers=headers).json()
    assert made["kind"] == "text"
    folder = client.app.state.projects.home / made["id"]
    encoder = read_encoder(folder)
    assert encoder.used_columns() == ["first"]
    fields = {"id": "id", "chosen": "true"}
    table = client.post("/api/projects", files=files, data=fields, headers=headers).json()
    assert table["kind"] == "table"
    used = read_encoder(client.app.state.projects.home / table["id"]).used_columns()
    assert set(used) == {"first", "second", "size"}


@pytest.mark.parametrize(
    ("name", "content"),
    [("rows.exe", b"MZ"), ("rows.csv", b""), ("rows.csv", b"name,age\nJos\xe9,3\nAnn,4\n"), ("a.zip", b"PK")],
)
def test_bad_uploads_are_one_sentence(client, name, content):
    reply = client.post("/api/projects", files={"file": (name, content)}, headers=as_person(client, "ann"))
    assert reply.status_code == 422
    assert reply.json()["error"].endswith(".")


def test_uploads_have_a_limit_with_and_without_a_length(home):
    client = TestClient(create_app(home, Door(token=TOKEN, upload_limit=1000)), raise_server_exceptions=False)
    headers = as_person(client, "ann")
    body = b"text\n" + b"x" * 5000
    assert client.post("/api/projects", files={"file": ("a.csv", body)}, headers=headers).status_code == 413

    def chunks():
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        for _ in range(10):
            yield b"x" * 500
        yield b"\r\n--b--\r\n"

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    reply = client.post("/api/projects", content=chunks(), headers=headers | kind)
    assert reply.status_code == 413
    assert "takes" in reply.json()["error"]


def test_a_zip_of_pictures_is_served_with_its_true_type(client):
    files = {"file": ("p.zip", zip_of_pictures("JPEG"))}
    reply = client.post("/api/projects", files=files, headers=as_person(client, ""))
    shown = client.post("/api/preview", files=files, headers=as_person(client, ""))
    assert shown.json()["items"][0]["image"].startswith("data:image/jpeg;base64,")
    ann = Person(client, reply.json()["id"], "ann")
    picture = ann.get("/images/3")
    assert picture.headers["content-type"] == "image/jpeg"
    assert picture.headers["x-content-type-options"] == "nosniff"
    assert ann.get("/images/9").status_code == 404


def test_a_card_that_was_never_asked_cannot_be_answered(client, project):
    ann = Person(client, project, "ann")
    digest, _, body = ann.card()["ticket"].partition(".")
    question = json.loads(urlsafe_b64decode(body))
    made_up = {"kind": "pair", "left": 0, "right": 7}
    for content in (b"not json", json.dumps([question[0], made_up]).encode()):
        other = urlsafe_b64encode(content).decode()
        guessed = hashlib.sha256(f"{project} ann {other}".encode()).hexdigest()[:32]
        for signature in (digest, guessed, ""):
            sent = {"ticket": f"{signature}.{other}", "reply": "same", "seconds": 1.0}
            assert ann.post("/answers", sent).status_code == 409
    assert ann.get("/answers").json()["total"] == 0


# Who may come in.


def test_strangers_get_nothing(client, project):
    assert client.get("/").status_code == 401
    assert "link that was printed" in client.get("/").text
    for path in ("/api/projects", f"/api/projects/{project}/question", "/api/openapi.json", "/api/session"):
        assert client.get(path).status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/api/session", headers={"Authorization": "Bearer wrong"}).status_code == 401
    client.cookies.set("spherepair", "e30=.0000")
    assert client.get("/api/session").status_code == 401


def test_the_link_sets_a_cookie_and_changes_need_the_csrf_value(client, project):
    reply = client.get(f"/?token={TOKEN}", follow_redirects=False)
    assert reply.status_code == 303
    assert reply.headers["location"] == "/"
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    session = client.get("/api/session").json()
    assert session["person"] is None
    url = f"/api/projects/{project}/undo"
    assert client.post(url, json={"number": None}).status_code == 403
    csrf = {"X-CSRF": session["csrf"]}
    assert client.post(url, json={"number": None}, headers=csrf).is_success
    named = client.post("/api/session", json={"person": "ann"}, headers=csrf).json()
    assert named["person"] == "ann"
    assert client.get("/api/session").json()["person"] == "ann"


def test_every_reply_forbids_foreign_scripts(client):
    for path in ("/", "/api/nothing", "/assets/nothing.js"):
        headers = client.get(path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_fault_of_ours_is_one_sentence_and_its_details_are_in_a_file(client, monkeypatch, tmp_path, caplog):
    def fail(_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("spherepair.app.projects.Projects.list_all", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reply = client.get("/api/projects", headers=as_person(client, "ann"))
    assert reply.status_code == 500
    assert reply.json() == {"error": "something went wrong in the server; its terminal says what."}
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    (details,) = tmp_path.glob("spherepair-bug-*.txt")
    assert caplog.messages == [f"this is a bug of spherepair (ZeroDivisionError); details in {details}."]
    assert all(record.exc_info is None for record in caplog.records)
    assert "GET '/api/projects'" in details.read_text()


@pytest.mark.parametrize("route", ["/api/projects", "/api/preview", "/api/projects/any/predict"])
def test_uploads_of_strangers_are_not_read(client, route):
    sent = []

    def chunks():
        for _ in range(100):
            sent.append(1)
            yield b"x" * 1000

    reply = client.post(route, content=chunks(), headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert reply.status_code == 401
    assert not sent
    body = {"file": ("rows.csv", b"text\na\n")}
    client.get("/", params={"token": TOKEN})
    assert client.post(route, files=body).status_code == 403  # another site can send the cookie, not X-CSRF


def test_another_name_of_the_host_is_refused(client):
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/", headers={"Host": "localhost:8765"}).status_code == 401


@pytest.mark.parametrize("name", ["..", "../x", "%2e%2e", "a" * 100, ".new-x", "A B"])
def test_only_ids_of_projects_reach_the_disk(client, name):
    reply = client.get(f"/api/projects/{name}/question", headers=as_person(client, "ann"))
    assert reply.status_code == 404


def test_a_page_file_outside_of_the_page_is_not_served(client):
    """The server and the start page are there, and both have a name from the folder of assets."""
    assert (PAGE.parent / "server.py").is_file()
    assert client.get("/assets/app.css").status_code == 200
    for name in (
        "..%2f..%2fserver.py",
        "../../server.py",
        "..%2findex.html",
        "%2fetc%2fpasswd",
        "..%5cindex.html",
    ):
        assert client.get(f"/assets/{name}").status_code == 404, name


def test_another_host_needs_a_password_or_a_proxy():
    with pytest.raises(InvalidParameterError, match="give a password"):
        Door(host="0.0.0.0")
    assert Door(host="0.0.0.0", password="x").password == "x"
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_password_lets_people_in(home, monkeypatch):
    monkeypatch.setattr("spherepair.app.server.WRONG_PASSWORD_SECONDS", 0.0)
    client = TestClient(create_app(home, Door(host="0.0.0.0", password="open sesame", token=TOKEN)))
    assert "Password" in client.get("/").text
    assert client.post("/login", data={"password": "guess"}).status_code == 401
    assert client.post("/login", data={"password": "open sesame"}, follow_redirects=False).status_code == 303
    assert client.get("/api/session").is_success


def test_a_proxy_says_who_it_is(home, project):
    client = TestClient(create_app(home, Door(host="0.0.0.0", proxy_header="X-User")))
    assert client.get("/api/session").status_code == 401
    session = client.get("/api/session", headers={"X-User": "ann"}).json()
    assert session["person"] == "ann"
    headers = {"X-User": "ann", "X-CSRF": session["csrf"]}
    assert client.post("/api/session", json={"person": "bob"}, headers=headers).status_code == 409


def test_names_are_cleaned():
    assert clean_name("a\ud800b\n\x1b[2J" + "x" * 500).startswith("a?b [2J")
    assert len(clean_name("x" * 500)) == 200


def test_a_number_of_any_length_is_no_fault(ann):
    assert ann.get("/items", params={"rows": "9" * 5000}).status_code == 422
    assert ann.get("/items/" + "9" * 5000).status_code == 422


def test_a_method_that_a_route_does_not_have_is_told_which_it_has(ann):
    reply = ann.post("/question")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET")


def test_the_api_describes_itself(client):
    content = client.get("/api/openapi.json", headers=as_person(client, "")).json()
    assert "/api/projects/{project}/answers" in content["paths"]
    assert content["components"]["schemas"]["Reply"]["properties"]["seconds"]["description"]
    refused = content["paths"]["/api/projects/{project}/answers"]["post"]["responses"]["409"]
    assert refused["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
