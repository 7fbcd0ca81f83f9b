"""What goes over the wire, for checking what comes in and for the description at /api/openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictFloat, StrictInt

Row = Annotated[int, Field(ge=0, description="Position of a row, from 0.")]
Word = Annotated[str, Field(json_schema_extra={"enum": ["same", "different", "none", "unsure", "skip"]})]
Two = Annotated[list[str], Field(min_length=2, max_length=2)]


class Problem(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="One sentence.")


class Item(BaseModel):
    """A row as a person sees it."""

    row: Row
    id: str = Field(description="Its ID, or its position.")
    text: str | None
    image: str | None = Field(description="Address of its picture.")
    fields: list[Two] = Field(description="Names and values of its columns.")
    cut: bool = Field(description="Whether something was left out; /items/{row} has it whole.")


class GroupName(BaseModel):
    """A group in short."""

    id: str
    name: str


class Exemplar(BaseModel):
    """A row that stands for a group."""

    item: Item
    group: GroupName | None


class ChoiceCard(BaseModel):
    """Which of the exemplars does the item belong with? Reply: the row of one, "none", "unsure", "skip"."""

    ticket: str
    kind: Literal["choice"]
    item: Item
    exemplars: list[Exemplar]
    check: bool = Field(description="Whether it is asked a second time.")
    guess: int | None = Field(description="Position of the exemplar that the model expects.")


class PairCard(BaseModel):
    """Do the two belong together? Reply: "same", "different", "unsure", "skip"."""

    ticket: str
    kind: Literal["pair"]
    left: Item
    right: Item
    check: bool
    guess: Literal["same", "different"] | None


class GroupCard(BaseModel):
    """Which items do not belong with the first? Reply: their rows, "none", "unsure", "skip"."""

    ticket: str
    kind: Literal["group"]
    group: GroupName | None
    items: list[Item]
    check: bool


class NoCard(BaseModel):
    """Nothing is left to ask."""

    ticket: None
    kind: Literal["done"]


Card = ChoiceCard | PairCard | GroupCard | NoCard


class Training(BaseModel):
    """The training beside the questions."""

    status: Literal["idle", "waiting", "running", "failed"]
    epoch: int | None
    epochs: int | None
    message: str | None
    version: int


class Changed(BaseModel):
    """What the latest ``answers`` answers changed: at least twenty, all those since some training."""

    answers: int
    rows_moved: int
    groups_new: int


class State(BaseModel):
    """Where the interview stands."""

    answers: int
    minutes: float
    groups: int
    rows_placed: int
    answers_since_new_group: int
    chance_of_new_group: float
    accuracy: float | None
    gain: float | None
    worth_going_on: bool
    sentence: str
    contradictions: int
    changed_lately: Changed | None
    training: Training


class Links(BaseModel):
    """How many pairs were stated."""

    must: int
    cannot: int


class Statement(BaseModel):
    """One link of a contradiction, and the answer that states it."""

    left: Item
    right: Item
    says: Literal["same", "different"]
    number: int | None
    by: str
    time: str


class Contradiction(BaseModel):
    """Statements that cannot all be right."""

    triangle: list[Statement]


class Person(BaseModel):
    """Who sits in front of the page."""

    person: str = Field(max_length=1000)


class SessionState(BaseModel):
    """The person in this browser."""

    person: str | None
    csrf: str = Field(description="To be sent as X-CSRF with everything but GET.")
    version: str


class ProjectLine(BaseModel):
    """A project in the list."""

    id: str
    name: str
    rows: int
    answers: int
    groups: int
    opened: str
    kind: Literal["text", "image", "table"]


class DamagedProject(BaseModel):
    """A project in the list that cannot be opened."""

    id: str
    problem: str = Field(description="What is wrong with it, in one sentence.")


class ProjectDetails(BaseModel):
    """A project."""

    id: str
    name: str
    rows: int
    kind: Literal["text", "image", "table"]
    columns: list[str]
    state: State


class Column(BaseModel):
    """A column of an upload."""

    name: str
    kind: Literal["text", "picture", "number", "other"]
    examples: list[str]


class Suggested(BaseModel):
    """Which column seems to be what."""

    text: str | None
    images: str | None
    id: str | None


class Preview(BaseModel):
    """What a project of an upload would look like."""

    columns: list[Column]
    suggested: Suggested
    items: list[Item]


class Reply(BaseModel):
    """An answer to a card."""

    ticket: str = Field(max_length=1000)
    reply: StrictInt | Word | list[StrictInt] = Field(description="See the kinds of cards.")
    seconds: StrictFloat = Field(default=0.0, ge=0.0, description="How long it took.")


class Answered(BaseModel):
    """What an answer did, and the next card."""

    number: int
    links: Links
    contradiction: Contradiction | None
    state: State
    question: Card


class Number(BaseModel):
    """Of an answer."""

    number: StrictInt | None = Field(default=None, description="By default the person's latest answer.")


class TakeBack(BaseModel):
    """Of an answer."""

    number: StrictInt


class Undone(BaseModel):
    """An answer that was taken back."""

    number: int
    summary: str
    by: str
    time: str


class UndoneReply(BaseModel):
    """After an undo; the card is the one that was taken back, where there was one."""

    undone: Undone | None
    state: State
    question: Card


class AnswerLine(BaseModel):
    """One answer of the log."""

    number: int
    kind: str
    summary: str
    by: str
    time: str
    seconds: float
    rows: list[int]
    links: Links
    undone: bool
    gesture: str | None


class AnswerLines(BaseModel):
    """A part of the log, newest first."""

    total: int
    answers: list[AnswerLine]


class Change(BaseModel):
    """What the latest training changed in a group."""

    since: int
    came: int = Field(alias="in")
    out: int
    note: str | None


class GroupDetails(BaseModel):
    """A group."""

    id: str
    name: str
    named_by_person: bool
    size: int
    placed: int = Field(description="Rows that people have placed.")
    typical: list[Item]
    unsure: list[Item]
    odd: list[Item]
    change: Change


class Found(BaseModel):
    """A row that was searched for."""

    item: Item
    group: GroupName | None


class Name(BaseModel):
    """Of a group."""

    name: str = Field(max_length=1000)


class GestureBody(BaseModel):
    """Merge or separate ``groups``, split ``group`` at ``seeds``, remove ``rows``, move ``rows`` ``to``."""

    action: Literal["merge", "separate", "split", "remove", "move"]
    groups: list[str] | None = None
    group: str | None = None
    seeds: list[StrictInt] | None = None
    rows: list[StrictInt] | None = None
    to: str | None = None
    ticket: str | None = Field(
        default=None, max_length=80, description="Chosen by the sender: the same one again writes nothing."
    )

    def fields(self) -> dict[str, Any]:
        """What the gesture is made of."""
        return self.model_dump(exclude={"ticket"})


class Replaced(BaseModel):
    """An answer that a gesture takes back."""

    number: int
    summary: str


class GesturePreview(BaseModel):
    """What a gesture will write."""

    sentence: str
    must: int
    cannot: int
    takes_back: list[Replaced]


class GestureDone(BaseModel):
    """After a gesture."""

    number: int
    state: State


class Suspect(BaseModel):
    """An answer that looks wrong."""

    left: Item
    right: Item
    says: Literal["same", "different"]
    number: int | None
    by: str
    time: str
    probability: float
    reason: str


class PersonLine(BaseModel):
    """Somebody who answered."""

    person: str
    answers: int
    minutes: float
    reliability: float | None = Field(description="Share of second answers that agree with the first.")


class Agreement(BaseModel):
    """How often two people agree."""

    people: Two
    shared: int = Field(description="Pairs that the answers of both decide.")
    agree: int


class Disagreements(BaseModel):
    """What does not fit together."""

    contradictions: list[Contradiction]
    suspects: list[Suspect]
    people: list[PersonLine]
    agreement: list[Agreement]
