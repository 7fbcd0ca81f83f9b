"""``spherepair ask``: questions about the rows of a file, answered by a person or a program."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from spherepair.asking import Gesture, GroupQuestion, Interview
from spherepair.asking.questions import Answer, Link, Question
from spherepair.asking.situation import InterviewState
from spherepair.cli import options
from spherepair.cli.answerers import Command, Keyboard, Program, parse_keys, program_name, split_command
from spherepair.cli.model_commands import build_model
from spherepair.cli.options import (
    Preset,
    check_label_file,
    check_model_folder,
    check_output,
    refuse_within,
)
from spherepair.cli.question_cards import CardView, Items, card_of, read_items, read_known
from spherepair.cli.raw_rows import ColumnChoice
from spherepair.cli.terminal import InterruptedCommand, Terminal, command_terminal
from spherepair.encoders import TableEncoder
from spherepair.errors import InvalidAnswerError, InvalidParameterError, SpherePairError
from spherepair.estimators.job import attach_encoder
from spherepair.estimators.spherepair import SpherePair
from spherepair.files.data_tables import Table
from spherepair.files.label_files import write_labels
from spherepair.files.places import Source

RECORD_SUFFIXES = (".jsonl", ".ndjson")
#: A question that stays on the screen for longer counts as so many seconds: the person was away.
LONGEST_SECONDS = 120.0

HELP = """\
1-5   the item belongs with this one        0  with none of them
s     the two belong together               d  they do not
3 5   on a group card: these do not belong; then Enter. Only Enter: all belong
u     unsure      k  skip      z  take the last answer back
g     groups      ?  help      q  stop; every answer is on the disk already
"""


def ask(
    data: options.DataArgument,
    *,
    out: options.RecordOption,
    text: options.TextOption = None,
    images: options.ImagesOption = None,
    as_: options.AsOption = None,
    id_column: options.IdOption = None,
    drop: options.DropOption = None,
    keep_empty: options.KeepEmptyOption = False,
    constraints: options.KnownPairsOption = None,
    again: options.AgainOption = None,
    by: options.ByOption = None,
    answerer: options.AnswererOption = None,
    answer_seconds: options.AnswerSecondsOption = 60.0,
    answers: options.AnswersOption = None,
    minutes: options.MinutesOption = None,
    stop_when_settled: options.SettledOption = False,
    strategy: options.StrategyOption = "cards",
    model: options.FinalModelOption = None,
    labels: options.FinalLabelsOption = None,
    escape: options.EscapeOption = False,
    preset: options.PresetOption = Preset.DEFAULT,
    hidden_dims: options.HiddenOption = None,
    max_epochs: options.EpochsOption = None,
    pretraining: options.PretrainingOption = None,
    device: options.DeviceOption = "auto",
    seed: options.SeedOption = 0,
    quiet: options.QuietOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Ask a person or a program which rows belong together.

    Every answer is on the disk before the next question. Run the same command again to go on.
    """
    with command_terminal("ask", as_json=as_json, quiet=quiet) as terminal:
        _check_paths(out, inputs=[data, constraints, again], model=model, labels=labels)
        if answerer is not None:
            split_command(answerer)
        with terminal.spinner(f"reading {data}"):
            choice = ColumnChoice.of(text=text, images=images, as_=as_, drop=drop, keep_empty=keep_empty)
            table, items, encoder = read_items(data, choice, id_column=id_column, terminal=terminal)
            known, first = read_known(constraints, again, table)
        given = {"hidden_dims": hidden_dims, "max_epochs": max_epochs, "pretraining": pretraining}
        template = _model_of(preset, given, device=device, seed=seed, is_encoded=encoder is not None)
        with terminal.spinner("preparing the first question"):
            interview = Interview(
                table.X,
                strategy=strategy,
                model=template,
                constraints=known,
                record=out,
                questions=first,
                background=answerer is None,
                random_state=seed,
            )
        limits = Limits(answers, minutes, stop_when_settled)
        with _closing(interview, out, terminal):
            if interview.answers:
                terminal.note(f"going on with the {_counted(interview.answers)} in {out}")
            if answerer is None:
                person = Person(interview, items, out, by=by or "", quiet=quiet)
                reason = person.converse(limits)
            else:
                with Program(answerer, items.content, timeout=answer_seconds) as program:
                    reason = _run(
                        interview, program, limits, by=by or program_name(answerer), terminal=terminal
                    )
            state = interview.state
            if model is not None or labels is not None:
                _finish(
                    interview, table, encoder, model=model, labels=labels, escape=escape, terminal=terminal
                )
        fields = {
            "out": str(out),
            "stopped": reason,
            **asdict(state),
            "model": None if model is None else str(model),
            "labels": None if labels is None else str(labels),
        }
        command = _next_command(data, out, id_column, choice)
        terminal.print_result(fields, _result_lines(state, reason, out, command))


@dataclass(frozen=True)
class Limits:
    """When to stop by itself."""

    answers: int | None
    minutes: float | None
    is_until_settled: bool

    def reached(self, state: InterviewState) -> str | None:
        """Why to stop now; ``None`` to go on."""
        if self.answers is not None and state.answers >= self.answers:
            return f"{state.answers} answers"
        if self.minutes is not None and state.minutes >= self.minutes:
            return f"{state.minutes:.0f} minutes"
        return "going on is not worth it" if self.is_until_settled and not state.worth_going_on else None


class Person:
    """An interview with a person at a terminal.

    Parameters
    ----------
    interview : Interview
    items : Items
    out : Path
        The record; the page with pictures stands beside it.
    by : str
    quiet : bool
        Whether to leave out the line that says where the interview stands.
    """

    def __init__(self, interview: Interview, items: Items, out: Path, *, by: str, quiet: bool) -> None:
        self.interview, self.items, self._by, self._quiet = interview, items, by, quiet
        self.console = Console(stderr=True)
        page = out.with_name(f"{out.stem}-question.html")
        self.view = CardView(items, page, in_color=self.console.color_system is not None)
        self.keyboard = Keyboard(sys.stderr)
        self._tolerated = set(interview.groups.contradictions)

    def converse(self, limits: Limits) -> str:
        """Ask until the person stops or a limit is reached; returns why it ended."""
        self.interview.start_refit()
        again: Question | None = None
        while (reason := limits.reached(self.interview.state)) is None:
            question = again if again is not None else self.interview.next(by=self._by)
            if question is None:
                return "every pair of rows is settled"
            started = time.monotonic()
            reply = self.ask(question)
            if reply is Command.STOP:
                return "you stopped"
            if reply is Command.UNDO:
                gone = self.interview.undo()
                again = question
                if gone is not None and not isinstance(gone.question, Gesture):
                    again = self.interview.ask(gone.question, by=self._by)
                continue
            seconds = min(time.monotonic() - started, LONGEST_SECONDS)
            self.interview.answer(question, reply, by=self._by, seconds=seconds)
            again = self.resolve_contradictions()
        return reason

    def ask(self, question: Question) -> Any:
        """A reply that fits the question, or the wish to undo or to stop."""
        card = card_of(question, self._position)
        self._show(question)
        while True:
            keys = self.keyboard.read(several=isinstance(question, GroupQuestion))
            reply = parse_keys(question, card, keys)
            if reply is Command.GROUPS:
                self.console.print(self.view.groups(self._groups()))
                self.console.print("any key goes back to the question", style="dim")
                self.keyboard.read(several=False)
                self._show(question)
            elif reply is Command.HELP:
                self.console.print(Text(HELP))
            elif reply is None:
                self.console.print(
                    Text(f"{keys!r} is no answer here: {card.keys}; ? for help"), style="yellow"
                )
            else:
                return reply

    def resolve_contradictions(self) -> Question | None:
        """Show what the latest answer contradicts and let the person take one back.

        Returns the question of the latest answer if it was that one.
        """
        latest = self.interview.answers[-1]
        while (link := self._open_contradiction()) is not None:
            gone = self._choose_to_take_back(link, latest)
            if gone is None:
                self._tolerated.add(link)
                continue
            self.interview.take_back(gone.number)
            if gone is latest and not isinstance(gone.question, Gesture):
                return self.interview.ask(gone.question, by=self._by)
        return None

    def _open_contradiction(self) -> Link | None:
        found = self.interview.groups.contradictions
        return next((link for link in found if link not in self._tolerated), None)

    def _choose_to_take_back(self, link: Link, latest: Answer) -> Answer | None:
        stated = next((a for a in reversed(self.interview.answers) if link in a.links), None)
        steps = [*self.interview.proof_against(link), (link, stated)]
        offered = list({answer.number: answer for _, answer in steps if answer is not None}.values())
        self.console.print("\nThis contradicts what was answered before:", style="bold yellow")
        for step, answer in steps:
            self.console.print(Text(self._statement(step, answer, latest, offered)))
        self.console.print("number of the answer to take back (Enter: leave all as they are): ", end="")
        typed = self.keyboard.read_line()
        if typed.isdecimal() and 1 <= int(typed) <= len(offered):
            return offered[int(typed) - 1]
        return None

    def _statement(self, link: Link, answer: Answer | None, latest: Answer, offered: list[Answer]) -> str:
        left, right = (self.items.brief(row) for row in link[:2])
        what = f"{left} {'belongs with' if link[2] else 'differs from'} {right}"
        if answer is None:
            return f"     {what} (known before)"
        who = "just now" if answer is latest else " ".join(part for part in (answer.by, answer.time) if part)
        return f"  {offered.index(answer) + 1}  {what} ({who})"

    def _show(self, question: Question) -> None:
        card = card_of(question, self._position)
        if self.console.is_terminal:
            self.console.clear()
        if not self._quiet:
            self.console.print(Text(str(self.interview.state)), style="dim")
        again = " (asked a second time, to see how reliable answers are)" if question.is_check else ""
        self.console.print(Text(f"\n{card.sentence}{again}\n", style="bold"))
        self.console.print(self.view.card(card))
        if self.items.has_images:
            self.console.print(Text(f"pictures: {self.view.page}"), style="dim")
        self.console.print(
            Text(f"\n{card.keys} · u unsure, k skip, z undo, g groups, ? help, q stop"), style="dim"
        )

    def _position(self, row: int) -> tuple[int, int]:
        """Where the group of a row first stood in the record: groups keep their order from card to card."""
        members = set(self.interview.groups.members(row))
        for place, answer in enumerate(self.interview.answers):
            if named := members.intersection(answer.question.rows):
                return place, min(answer.question.rows.index(member) for member in named)
        return len(self.interview.answers), row

    def _groups(self) -> list[list[int]]:
        groups = self.interview.groups
        return [groups.members(root) for root in sorted(groups.roots, key=self._position)]


def _check_paths(out: Path, *, inputs: list[Source | None], model: Path | None, labels: Path | None) -> None:
    """Refuse wrong names before anything is read."""
    if not out.name.lower().endswith(RECORD_SUFFIXES):
        raise InvalidParameterError(f"{out}: the name of a record must end in .jsonl.")
    check_output(out, inputs)
    if model is not None:
        check_model_folder(model)
        refuse_within(out, model, option="--out")
    if labels is not None:
        check_label_file(labels, [*inputs, out])
        if model is not None:
            refuse_within(labels, model, option="--labels")


def _model_of(
    preset: Preset, given: dict[str, Any], *, device: str, seed: int, is_encoded: bool
) -> SpherePair | None:
    """The model of every refit; ``None`` leaves it to the interview."""
    if is_encoded:  # the encoder has weighed the columns
        given = {"scaling": "none", **given}
    elif preset is Preset.DEFAULT and device == "auto" and not any(given.values()):
        return None
    settings = {"embedding_dim": "auto", "device": device, "random_state": seed, "progress": False, **given}
    return build_model("auto", preset, wrong_answers="none", **settings)


@contextmanager
def _closing(interview: Interview, out: Path, terminal: Terminal) -> Iterator[None]:
    """Close the interview at the end; Ctrl-C and a bad answer say that no earlier one is lost."""
    try:
        yield
    except KeyboardInterrupt as error:
        kept = f"{_counted(interview.answers)} in {out}"
        raise InterruptedCommand(f"interrupted; {kept}; run the same command to go on.") from error
    except InvalidAnswerError as error:
        kept = f"{_counted(interview.answers)} in {out}"
        raise InvalidAnswerError(f"{error} Earlier answers are kept: {kept}.") from error
    finally:
        try:
            interview.close(wait=False)
        except (SpherePairError, MemoryError, RuntimeError) as error:
            terminal.warn(f"no model could be fitted beside the questions: {error}")


def _run(interview: Interview, program: Program, limits: Limits, *, by: str, terminal: Terminal) -> str:
    """Let a program answer; models are fitted between its answers. Returns why it ended."""
    with terminal.progress_bar("starting") as bar:
        interview.refit()
        while (reason := limits.reached(interview.state)) is None:
            question = interview.next(by=by)
            if question is None:
                return "every pair of rows is settled"
            started = time.monotonic()
            n_answers = len(interview.answers)
            reply = program(question, n_answers + 1)
            interview.answer(question, reply, by=by, seconds=time.monotonic() - started)
            bar.show("answers", n_answers + 1, total=limits.answers or n_answers + 1)
            if interview.is_refit_due:
                interview.refit()
    return reason


def _finish(
    interview: Interview,
    table: Table,
    encoder: TableEncoder | None,
    *,
    model: Path | None,
    labels: Path | None,
    escape: bool,
    terminal: Terminal,
) -> None:
    """Fit on all answers, and write what was asked for."""
    if not len(interview.constraints):
        raise InvalidAnswerError("there is no answer to fit a model on, so nothing was written.")
    with terminal.spinner("fitting a model on all answers"):
        fitted = interview.refit().model
    attach_encoder(fitted, encoder)
    if model is not None:
        fitted.save(model)
        terminal.wrote(model)
    if labels is not None:
        write_labels(labels, fitted.labels_, ids=table.ids, id_name=table.id_name, escape=escape)
        terminal.wrote(labels)


def _counted(answers: list[Answer]) -> str:
    return "1 answer" if len(answers) == 1 else f"{len(answers)} answers"


def _next_command(data: str, out: Path, id_column: str | None, choice: ColumnChoice) -> str:
    words = ["spherepair", "fit", data, "--constraints", str(out)]
    words += [] if id_column is None else ["--id", id_column]
    words += choice.as_options()
    return shlex.join([*words, "--out", "model/"])


def _result_lines(state: InterviewState, reason: str, out: Path, command: str) -> list[str]:
    quiet = state.answers_since_new_group
    lines = [
        f"answers     {state.answers} in {out}, {state.minutes:.0f} min ({reason})",
        f"groups      {state.groups} found, {state.rows_placed:,} rows placed; "
        f"none new in the last {quiet} answers",
    ]
    if state.accuracy is not None:
        lines.append(f"accuracy    about {state.accuracy:.0%} of the rows right, as far as the answers tell")
    if state.contradictions:
        lines.append(f"conflicts   {state.contradictions}; spherepair check {out} lists them")
    return [*lines, f"next        {command}"]
