"""``spherepair ask``: a program or a person answers, and no answer is ever lost."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from sklearn.datasets import load_digits
from tests.forked_command import ForkedCommand, run_and_leave

from spherepair import Constraints, SpherePair
from spherepair.asking import ChoiceQuestion, GroupQuestion, Interview, PairQuestion
from spherepair.cli.answerers import Command, parse_keys
from spherepair.cli.ask_command import Limits, Person
from spherepair.cli.question_cards import CardView, Items, card_of, draw_in_color

#: Refits of a fraction of a second.
SMALL = ("--hidden-dims", "8", "--max-epochs", "2", "--pretraining", "none")

RIGHT = """
import json, sys, time
labels, pause = json.loads(sys.argv[1]), float(sys.argv[2])
for line in sys.stdin:
    question = json.loads(line)
    label = lambda item: labels[item["row"]]
    if question["kind"] == "choice":
        same = (e for e in question["exemplars"] if label(e) == label(question["item"]))
        reply = next((e["row"] for e in same), "none")
    elif question["kind"] == "pair":
        reply = "same" if label(question["left"]) == label(question["right"]) else "different"
    else:
        first, *others = question["items"]
        reply = [e["row"] for e in others if label(e) != label(first)]
    time.sleep(pause)
    print(json.dumps({"number": question["number"], "answer": reply}), flush=True)
"""


@pytest.fixture
def right(example, tmp_path):
    """The command of a program that knows the true clusters; it pauses before each answer."""
    script = tmp_path / "right.py"
    script.write_text(RIGHT)
    labels = json.dumps(example.y.tolist()).replace(" ", "")

    def command(pause: float = 0.0) -> str:
        return f"{sys.executable} {script} {labels} {pause}"

    return command


@pytest.fixture
def answerer(tmp_path):
    """The command of a program that answers two questions with "skip" and then goes on as told."""

    def command(then: str) -> str:
        script = tmp_path / "answerer.py"
        lines = ["import sys, json", "for _ in range(2):", "    sys.stdin.readline()"]
        lines += ["    print(json.dumps({'answer': 'skip'}), flush=True)", "sys.stdin.readline()", then]
        script.write_text("\n".join(lines))
        return f"{sys.executable} {script}"

    return command


@pytest.fixture
def person(monkeypatch, call, example, tmp_path):
    """Ask a person who types these lines."""

    def ask(lines: str, *extra: object):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        return call("ask", example.rows, "--id", "name", "-o", tmp_path / "a.jsonl", *SMALL, *extra)

    return ask


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def is_right(pairs, y):
    return bool((pairs.is_must_link == (y[pairs.left] == y[pairs.right])).all())


def wait_for_answers(path, count, process):
    deadline = time.monotonic() + 100
    while not path.exists() or path.read_bytes().count(b"\n") <= count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


# A program answers.


def test_program_answers_and_the_record_model_and_labels_can_be_used(shell, call, example, right, tmp_path):
    out, model, labels = tmp_path / "a.jsonl", tmp_path / "model", tmp_path / "labels.csv"
    wanted = ("-o", out, "--model", model, "--labels", labels, "--answers", 24, "--by", "rule", "--json")
    done = shell("ask", example.rows, "--id", "name", "--answerer", right(), *wanted, *SMALL)
    assert done.code == 0, done.err
    assert (done.json["answers"], done.json["groups"], done.json["stopped"]) == (24, 3, "24 answers")
    pairs = Constraints.read(out)
    assert is_right(pairs, example.y)
    assert set(pairs.by) == {"rule"}
    predicted = call("predict", model, example.rows, "--id", "name", "-o", tmp_path / "again.csv")
    assert predicted.code == 0, predicted.err
    again = [line.rsplit(",", 1)[0] for line in (tmp_path / "again.csv").read_text().splitlines()]
    assert again == labels.read_text().splitlines()  # without the confidence
    assert labels.read_text().startswith("name,label\nrow-000,")


def test_the_same_command_goes_on_and_a_killed_process_loses_no_answer(call, example, right, tmp_path):
    out = tmp_path / "a.jsonl"
    common = ("ask", example.rows, "--id", "name", "-o", out, *SMALL, "--answerer")
    process = ForkedCommand(*common, right(0.05))
    wait_for_answers(out, 8, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    whole = out.read_bytes()[: out.read_bytes().rindex(b"\n") + 1]
    out.write_bytes(whole + b'{"event": "answer", "num')  # as a cut-off write would leave it
    before = events_of(whole)
    done = call(*common, right(), "--answers", len(before) + 5)
    assert done.code == 0, done.err
    assert f"going on with the {len(before)} answers in {out}" in done.err
    after = events(out)
    assert after[: len(before)] == before
    assert [event["number"] for event in after] == list(range(len(before) + 5))
    assert is_right(Constraints.read(out), example.y)


def events_of(content: bytes):
    return [json.loads(line) for line in content.splitlines()[1:]]


def test_ctrl_c_is_130_with_a_sentence_and_a_second_process_is_told(call, example, right, tmp_path):
    out = tmp_path / "a.jsonl"
    process = ForkedCommand("ask", example.array, "-o", out, *SMALL, "--answerer", right(0.1))
    wait_for_answers(out, 3, process)
    second = call("ask", example.array, "-o", out, *SMALL, "--answerer", right(), "--answers", 3)
    assert second.code == 2
    assert second.err.strip().endswith(
        f"error: {out} is in use by another process; close it there first, or give another file."
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.poll() == 130
    n_answers = len(events(out))
    assert err.splitlines()[-1] == (
        f"interrupted; {n_answers} answers in {out}; run the same command to go on."
    )


BAD = {
    "dies": ("sys.exit(7)", "the answerer ended with exit code 7 at question 3."),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "the answerer was ended by signal 9 at question 3."),
    "hangs": ("import time; time.sleep(60)", "no answer to question 3 within 1 seconds; give it more with"),
    "no json": (
        "print('well', flush=True)",
        "line 3 of the answerer, 'well', does not answer question 3: it is",
    ),
    "no answer": ("print('{}', flush=True)", 'it has no "answer"'),
    "other question": ('print(\'{"number": 9, "answer": "skip"}\', flush=True)', "it answers question 9."),
    "other row": ("print('{\"answer\": 119000}', flush=True)", "the answer must be one of ["),
    "other word": ('print(\'{"answer": "perhaps"}\', flush=True)', "got 'perhaps' instead."),
    "not a row": ("print('{\"answer\": 1.5}', flush=True)", "an answer is a row, a word or a list of rows"),
    "half a line": (
        "sys.stdout.write('{\"answer\"'); sys.stdout.flush(); sys.exit()",
        "ended with exit code 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_program_is_exit_2_with_a_sentence_and_earlier_answers_are_kept(
    call, example, answerer, tmp_path, case
):
    then, message = BAD[case]
    out = tmp_path / "a.jsonl"
    limit = ("--answer-seconds", 1) if case == "hangs" else ()
    ended = call("ask", example.array, "-o", out, *SMALL, "--answerer", answerer(then), *limit, "--json")
    assert ended.code == 2
    assert message in ended.err
    assert f"Earlier answers are kept: 2 answers in {out}." in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert ended.json["error"]["type"] == "InvalidAnswerError"
    assert [event["answer"] for event in events(out)] == ["skip", "skip"]
    assert {event["by"] for event in events(out)} == {os.path.basename(sys.executable)}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program --fast", "there is no program 'no-such-program'"),
        ("'unfinished", "cannot be read: No closing quotation"),
        ("", "there is no program ''"),
    ],
)
def test_program_that_is_not_there_is_refused_before_anything_is_written(
    call, example, tmp_path, command, message
):
    ended = call("ask", example.array, "-o", tmp_path / "a.jsonl", "--answerer", command)
    assert ended.code == 2
    assert message in ended.err
    assert not (tmp_path / "a.jsonl").exists()


def test_program_sees_contents_and_may_answer_with_ids(call, tmp_path):
    words = [
        "my card was stolen",
        "card stolen today",
        "exchange rate of euros",
        "what is the exchange rate",
    ] * 6
    pa_csv.write_csv(
        pa.table({"key": [f"m{k}" for k in range(24)], "message": words}), tmp_path / "messages.csv"
    )
    script = tmp_path / "rule.py"
    script.write_text(
        "import sys, json\n"
        "for line in sys.stdin:\n"
        "    question = json.loads(line)\n"
        "    sys.stderr.write(line)\n"
        "    same = [e['id'] for e in question['exemplars']\n"
        "            if ('card' in e['text']) == ('card' in question['item']['text'])]\n"
        "    print(json.dumps({'answer': same[0] if same else 'none'}), flush=True)\n"
    )
    out = tmp_path / "a.jsonl"
    ended = call(
        *("ask", tmp_path / "messages.csv", "--text", "message", "--id", "key", "-o", out, *SMALL),
        *(
            "--answerer",
            f"{sys.executable} {script}",
            "--answers",
            8,
            "--json",
            "--labels",
            tmp_path / "l.csv",
        ),
    )
    assert ended.code == 0, ended.err
    pairs, is_card = Constraints.read(out), np.array(["card" in text for text in words])
    assert is_right(pairs, is_card)
    assert pairs.is_must_link.any()
    assert (tmp_path / "l.csv").read_text().startswith("key,label\nm0,")


# Bad input.


def test_record_of_other_rows_is_refused(call, example, person, tmp_path):
    assert person("u\nq\n").code == 0
    np.save(tmp_path / "other.npy", example.X + 1)
    ended = call("ask", tmp_path / "other.npy", "-o", tmp_path / "a.jsonl")
    assert ended.code == 2
    assert ended.err == (
        f"error: {tmp_path / 'a.jsonl'} is a record of other rows; give the table it was made with, or "
        "another file.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "a.csv"), "the name of a record must end in .jsonl."),
        (("-o", "no/a.jsonl"), "the folder no does not exist"),
        (("-o", "a.jsonl", "--strategy", "magic"), "strategy must be one of cards"),
        (("-o", "a.jsonl", "--text", "words"), "rows.csv has no column 'words'"),
        (("-o", "a.jsonl", "--images", "name"), "none of the pictures in column 'name' is there"),
        (("-o", "a.jsonl", "--labels", "l.txt", "--id", "name"), "the name of a label file must end in"),
    ],
)
def test_wrong_options_are_one_sentence(call, example, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    extra = ("--id", "name") if "--strategy" in arguments else ()
    ended = call("ask", example.rows, *arguments, *extra)
    assert ended.code == 2
    assert message in ended.err
    assert not (tmp_path / "a.jsonl").exists()


def test_values_that_are_no_numbers_are_refused_before_the_first_question(call, tmp_path):
    np.save(tmp_path / "rows.npy", np.array([[0.0, 1.0], [np.nan, 1.0], [2.0, 3.0]]))
    ended = call("ask", tmp_path / "rows.npy", "-o", tmp_path / "a.jsonl")
    assert ended.code == 2
    assert "NaN" in ended.err
    assert not (tmp_path / "a.jsonl").exists()


# A person answers.


def test_person_answers_looks_around_undoes_and_stops(person, tmp_path):
    done = person("1\nx\n?\ng\n\nz\n0\nu\nk\nq\n", "--by", "ann", "--json")
    assert done.code == 0, done.err
    assert done.json["stopped"] == "you stopped"
    assert (done.json["answers"], done.json["groups"]) == (3, 2)
    kinds = [event.get("answer", "undo") for event in events(tmp_path / "a.jsonl")]
    assert isinstance(kinds[0], int)
    assert kinds[1:] == ["undo", "none", "unsure", "skip"]
    first, _, again, *_ = events(tmp_path / "a.jsonl")
    assert (first["item"], first["exemplars"]) == (again["item"], again["exemplars"])
    assert first["by"] == "ann"
    assert "'x' is no answer here: 1 yes, 0 no; ? for help" in done.err
    assert "group 1: 2 rows" in done.err
    assert "every answer is on the disk already" in done.err


def test_end_of_the_input_stops_and_the_same_command_goes_on(person, tmp_path):
    first = person("0\n")
    assert first.code == 0, first.err
    assert f"answers     1 in {tmp_path / 'a.jsonl'}" in first.out
    assert "next        spherepair fit" in first.out
    second = person("u\n", "--answers", 2)
    assert "going on with the 1 answer in" in second.err
    assert second.out.startswith(f"answers     2 in {tmp_path / 'a.jsonl'}, 0 min (2 answers)")
    assert person("u\n", "--answers", 2).code == 0
    assert len(events(tmp_path / "a.jsonl")) == 2


def test_nothing_is_fitted_on_no_answer(person, tmp_path):
    ended = person("q\n", "--labels", tmp_path / "labels.csv")
    assert ended.code == 2
    assert "there is no answer to fit a model on" in ended.err
    assert not (tmp_path / "labels.csv").exists()


def test_table_shows_names_and_the_columns_that_differ_most(person, example, tmp_path):
    ended = person("q\n")
    assert ended.code == 0
    assert "Do they belong together?" in ended.err
    assert ended.err.count("row-") == 2
    assert all(f"f{place}" in ended.err for place in range(5))


def test_keys_in_a_terminal_need_no_enter_and_ctrl_c_loses_nothing(example, tmp_path):
    out = tmp_path / "a.jsonl"
    command = ["ask", str(example.array), "-o", str(out), *SMALL]
    shown = type_in_terminal(command, [(b"1 yes, 0 no", b"0"), (b"1 to 2 that one", b"\x03")], code=130)
    assert f"interrupted; 1 answer in {out}; run the same command to go on." in shown
    assert [event["answer"] for event in events(out)] == ["none"]


def type_in_terminal(command, script, *, code):
    """Run a command in a terminal and type each key once its words have appeared.

    A key that comes before the program has turned to the keyboard is lost: it is typed again after a while.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        run_and_leave(command, TERM="xterm", COLUMNS="100")
    shown, key, deadline = b"", b"", time.monotonic() + 100
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 3)[0]:
            os.write(terminal, b"" if key == b"\x03" else key)  # a signal where it is no key
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        shown += part
        if script and script[0][0] in shown:
            shown, key = b"", script.pop(0)[1]
            time.sleep(0.1)  # the program turns to the keyboard
            os.write(terminal, key)
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == code, shown.decode()
    return shown.decode()


@pytest.fixture
def interview():
    X = np.random.default_rng(0).normal(size=(30, 3))
    return Interview(
        X, model=SpherePair(hidden_dims=(8,), max_epochs=1, pretraining=None, progress=False), random_state=0
    )


def resolve(interview, typed, monkeypatch, capsys, tmp_path):
    """Answer that 0 and 2 differ, though 0, 1 and 2 belong together, and type something."""
    items = Items(interview.X, texts=[f"text {row}" for row in range(30)])
    interview.answer(interview.ask(PairQuestion(0, 1)), "same", by="ann")
    interview.answer(interview.ask(PairQuestion(1, 2)), "same", by="bob")
    talk = Person(interview, items, tmp_path / "a.jsonl", by="ann", quiet=False)
    interview.answer(interview.ask(PairQuestion(0, 2)), "different", by="ann")
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    again = talk.resolve_contradictions()
    return again, capsys.readouterr().err, talk


def test_contradiction_shows_the_chain_and_any_answer_of_it_can_be_taken_back(
    interview, monkeypatch, capsys, tmp_path
):
    again, shown, _ = resolve(interview, "2\n", monkeypatch, capsys, tmp_path)
    assert again is None
    lines = [line.split(" (")[0].split() for line in shown.splitlines() if line.startswith("  ")]
    assert [" ".join(line) for line in lines] == [
        "1 “text 0” belongs with “text 1”",
        "2 “text 1” belongs with “text 2”",
        "3 “text 0” differs from “text 2”",
    ]
    assert "(just now)" in shown
    assert [answer.number for answer in interview.answers] == [0, 2]
    assert not interview.contradictions()


def test_taking_back_the_latest_answer_asks_it_again(interview, monkeypatch, capsys, tmp_path):
    again, _, _ = resolve(interview, "3\n", monkeypatch, capsys, tmp_path)
    assert again == PairQuestion(0, 2)
    assert [answer.number for answer in interview.answers] == [0, 1]


def test_contradiction_that_is_left_is_not_shown_again(interview, monkeypatch, capsys, tmp_path):
    again, _, talk = resolve(interview, "\n", monkeypatch, capsys, tmp_path)
    assert again is None
    assert len(interview.answers) == 3
    interview.answer(interview.ask(PairQuestion(5, 6)), "same")
    assert talk.resolve_contradictions() is None
    assert "contradicts" not in capsys.readouterr().err
    assert interview.state.contradictions == 1


def test_limits_stop_for_the_first_reason(interview):
    interview.answer(interview.ask(PairQuestion(0, 1)), "same", seconds=90)
    assert Limits(None, None, True).reached(interview.state) is None
    assert Limits(1, None, False).reached(interview.state) == "1 answers"
    assert Limits(5, 1.5, False).reached(interview.state) == "2 minutes"
    assert Limits(5, 1.6, False).reached(interview.state) is None


CHOICE, PAIR, GROUP = ChoiceQuestion(9, (4, 7)), PairQuestion(4, 9), GroupQuestion((3, 8, 5, 6))


@pytest.mark.parametrize(
    ("question", "keys", "reply"),
    [
        (CHOICE, "1", 4),
        (CHOICE, "2", 7),
        (CHOICE, "0", "none"),
        (CHOICE, "3", None),
        (CHOICE, "s", None),
        (PAIR, "S", "same"),
        (PAIR, "d", "different"),
        (PAIR, "1", None),
        (GROUP, "", ()),
        (GROUP, "13", (8, 6)),
        (GROUP, "1, 3", (8, 6)),
        (GROUP, "4", None),
        (GROUP, "U", "unsure"),
        (CHOICE, "k", "skip"),
        (PAIR, "z", Command.UNDO),
        (GROUP, "?", Command.HELP),
        (CHOICE, "Q", Command.STOP),
    ],
)
def test_keys_mean_what_the_card_says(question, keys, reply):
    assert parse_keys(question, card_of(question, lambda row: row), keys) == reply


def test_exemplars_stand_in_the_order_of_their_groups_not_of_the_guess():
    card = card_of(ChoiceQuestion(9, (7, 4)), {4: 0, 7: 1}.__getitem__)
    assert card.rows == (("item", 9), ("1", 4), ("2", 7))


# Pictures.


def test_digits_are_drawn_and_stand_on_a_page_that_loads_nothing(call, monkeypatch, tmp_path):
    X = load_digits().data[:60]
    np.save(tmp_path / "digits.npy", X)
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    ended = call("ask", tmp_path / "digits.npy", "-o", tmp_path / "a.jsonl", *SMALL)
    assert ended.code == 0, ended.err
    page = tmp_path / "a-question.html"
    assert "██" in ended.err
    assert f"pictures:{page}" in "".join(ended.err.split())  # a narrow terminal breaks long paths
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 2
    assert "default-src 'none'" in text
    assert "http:" not in text
    assert "https:" not in text
    assert "<script" not in text


def test_names_on_the_page_are_escaped(tmp_path):
    names = ['<script>alert("x")</script>', "b"]
    items = Items(np.zeros((2, 1)), ids=names, pictures=[str(tmp_path / '"><b>.png'), "b.png"])
    view = CardView(items, tmp_path / "page.html", in_color=False)
    view.card(card_of(PairQuestion(0, 1), lambda row: row))
    text = (tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert '"><b>' not in text
    assert "&lt;script&gt;" in text


def test_drawing_in_color_has_two_pixels_a_character():
    assert draw_in_color(np.zeros((28, 28))).plain.splitlines() == ["▀" * 28] * 14
    assert draw_in_color(np.zeros((8, 8))).plain.splitlines() == ["▀" * 16] * 8


# Commands around it.


def test_fit_without_pairs_works_and_points_to_ask(call, example, brief, tmp_path):
    done = call("fit", example.array, "-o", tmp_path / "model", "-k", 3, *brief, "--json")
    assert done.code == 0, done.err
    assert done.json["n_pairs"] == 0
    assert "no constraints were given" in done.err
    assert "`spherepair ask`" in done.err


def test_check_counts_the_people_of_a_record(person, call, tmp_path):
    assert person("0\n0\nq\n", "--by", "ann").code == 0
    assert person("0\nq\n", "--by", "bob").code == 0
    pairs = Constraints.read(tmp_path / "a.jsonl")
    checked = call("check", tmp_path / "a.jsonl", "--json")
    n_ann = int((pairs.by == "ann").sum())
    assert checked.json["people"] == {"ann": n_ann, "bob": len(pairs) - n_ann}
    assert f"given by        2: ann ({n_ann})" in call("check", tmp_path / "a.jsonl").out


def test_answers_to_look_at_again_are_asked_first_and_no_longer_known(call, example, right, tmp_path):
    y, again, pairs = example.y, tmp_path / "again.csv", tmp_path / "pairs.csv"
    other = int(np.flatnonzero(y != y[0])[0])
    pairs.write_text(f"left,right,link\n0,{other},must-link\n")
    again.write_text(f"left,right,link,reason\n0,{other},must-link,doubtful\n")
    out = tmp_path / "record.jsonl"
    options = ("--out", out, "-c", pairs, "--again", again, "--answerer", right(), "--answers", "1")
    done = call("ask", example.array, *options, *SMALL, "--json")
    assert done.code == 0, done.err
    (said,) = Constraints.read(out)
    assert (said.left, said.right, said.is_must_link) == (0, other, False)
    assert done.json["contradictions"] == 0


def test_many_files_are_the_rows_of_one(call, example, many, right, tmp_path):
    asked = ("--id", "name", "-o", tmp_path / "a.jsonl", "--answerer", right(), *SMALL)
    done = call("ask", many, *asked, "--answers", 3, "--labels", tmp_path / "l.csv", "--json")
    assert done.code == 0, done.err
    assert pa_csv.read_csv(tmp_path / "l.csv")["name"].to_pylist() == example.ids
    further = call("ask", example.rows, *asked, "--answers", 5)
    assert further.code == 0, further.err
    assert "going on with the 3 answers" in further.err
    assert f"next        spherepair fit {example.rows}" in further.out
    refused = call("ask", many, *asked, "--labels", example.folder / "split" / "part-9.csv")
    assert refused.code == 2
    assert "would be read as rows the next time" in refused.err
