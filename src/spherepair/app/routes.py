"""Routes of one open project: cards, answers, groups, the map, gestures, disagreements, exports.

They are plain functions, which FastAPI runs in threads: the event loop never waits for one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Header, Query, Request, UploadFile
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from spherepair.app import schemas
from spherepair.app.exports import export_labels, export_model, export_pairs, export_report, predict_groups
from spherepair.app.open_project import Labeling
from spherepair.app.payloads import Payloads, count_links
from spherepair.app.project_rows import PICTURE_TYPES, Source, picture_type, read_source
from spherepair.app.security import Door, Session, clean_name
from spherepair.asking.conversation import answer_from_dict
from spherepair.files.columns import TABLE_SUFFIXES

#: Rows that one request may ask for, and lines of the log.
MOST_ITEMS, MOST_LINES, MOST_FOUND = 500, 500, 500
UPLOAD_SUFFIXES = (*TABLE_SUFFIXES, ".zip")
#: Why a request is not answered, by status; the body says it in one sentence.
REFUSALS = {
    400: "The request cannot be read, or it goes to a host of another name.",
    401: "Neither the token nor a cookie of this server came with the request.",
    403: "A change came with a cookie, but without the header X-CSRF.",
    404: "There is no such project, row or group.",
    409: "The card is no longer open, or a proxy says who the person is.",
    413: "The body is larger than this server takes.",
    422: "Something in the request is wrong.",
    503: "The log of answers can be neither read nor written.",
}
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/jsonl",
    "zip": "application/zip",
    "html": "text/html; charset=utf-8",
}


def who_asks(request: Request) -> Session:
    """The session of a request; strangers and forged requests are refused."""
    door: Door = request.app.state.door
    return door.enter(request)


def open_project(request: Request, project: str, who: Who) -> Labeling:
    """The project of a request."""
    try:
        found: Labeling = request.app.state.projects.get(project)
    except KeyError:
        raise HTTPException(404, "there is no such project.") from None
    return found


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How routes refuse, for the description of the API."""
    return {one: {"model": schemas.Problem, "description": REFUSALS[one]} for one in statuses}


def contents(*types: str) -> dict[int | str, dict[str, Any]]:
    """What a route sends that is no JSON, for the description of the API."""
    return {200: {"content": {one: {} for one in types}}}


Who = Annotated[Session, Depends(who_asks)]
Opened = Annotated[Labeling, Depends(open_project)]
router = APIRouter(prefix="/api/projects/{project}", responses=refusals(404))


@router.get("", response_model=schemas.ProjectDetails)
def get_project(opened: Opened) -> Any:
    """A project and where it stands."""
    return JSONResponse(
        {
            "id": opened.id,
            "name": opened.name,
            "rows": len(opened.rows),
            "kind": opened.rows.layout.kind,
            "columns": opened.rows.columns,
            "state": opened.state(),
        }
    )


@router.get("/items", response_model=list[schemas.Item])
def get_items(opened: Opened, rows: Annotated[str, Query(max_length=20_000, examples=["1,2,3"])]) -> Any:
    """Several rows: ``rows=1,2,3``."""
    wanted = [one.strip() for one in rows.split(",")]
    if len(wanted) > MOST_ITEMS or not all(one.isdecimal() and len(one) < 20 for one in wanted):
        raise HTTPException(422, f"rows must be up to {MOST_ITEMS} numbers with commas between them.")
    return JSONResponse(Payloads(opened).items(_row(opened, int(one)) for one in wanted))


@router.get("/items/{row}", response_model=schemas.Item)
def get_item(opened: Opened, row: int) -> Any:
    """One row, long texts whole."""
    return JSONResponse(Payloads(opened).item(_row(opened, row), whole=True))


@router.get("/images/{row}", response_class=Response, responses=contents(*PICTURE_TYPES.values()))
def get_image(opened: Opened, row: int) -> Response:
    """The picture of a row; its type is what it is, not what it was called."""
    if opened.rows.layout.kind != "image":
        raise HTTPException(404, "the rows are no pictures.")
    content = opened.rows.picture(_row(opened, row))
    return Response(
        bytes(content),
        media_type=picture_type(content, row),
        headers={"Cache-Control": "private, max-age=86400"},
    )


@router.get("/question", response_model=schemas.Card)
def get_question(opened: Opened, who: Who) -> Any:
    """The person's card: the same one until it is answered."""
    return JSONResponse(Payloads(opened).card(opened.card(who.name)))


@router.post("/answers", response_model=schemas.Answered, responses=refusals(409))
def post_answer(opened: Opened, who: Who, body: schemas.Reply) -> Any:
    """Answer a card; it is on the disk when this returns. The same ticket again changes nothing."""
    shown = Payloads(opened)
    with opened.lock:
        before = len(opened.interview.groups.contradictions)
        event = opened.answer(who.name, body.ticket, body.reply, body.seconds)
        links = answer_from_dict(event.body).links
        found = opened.interview.groups.contradictions
        contradiction = shown.contradiction(found[-1]) if len(found) > before else None
    return JSONResponse(
        {
            "number": event.place,
            "links": count_links(links),
            "contradiction": contradiction,
            "state": opened.state(),
            "question": shown.card(opened.card(who.name)),
        }
    )


@router.post("/undo", response_model=schemas.UndoneReply)
def post_undo(opened: Opened, who: Who, body: schemas.Number) -> Any:
    """Take an answer or gesture back, by default the person's latest; its card comes again."""
    shown = Payloads(opened)
    gone = opened.undo(who.name, body.number)
    undone = None
    if gone is not None:
        undone = {"number": gone.number, "summary": shown.summary(gone), "by": gone.by, "time": gone.time}
    question = shown.card(opened.card(who.name))
    return JSONResponse({"undone": undone, "state": opened.state(), "question": question})


@router.post("/take-back", response_model=schemas.State)
def post_take_back(opened: Opened, who: Who, body: schemas.TakeBack) -> Any:
    """Take one answer back, whoever gave it."""
    opened.undo(who.name, body.number)
    return JSONResponse(opened.state())


@router.get("/answers", response_model=schemas.AnswerLines)
def get_answers(
    opened: Opened,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_LINES)] = 50,
    by: str | None = None,
) -> Any:
    """The log of answers, newest first."""
    with opened.lock:
        standing = {answer.number for answer in opened.interview.answers}
        events = [one for one in opened.record.events if one.body.get("event") == "answer"]
    events = [one for one in reversed(events) if by is None or one.person == by]
    shown = Payloads(opened)
    lines = [
        shown.answer_line(answer_from_dict(one.body), is_undone=one.place not in standing)
        for one in events[offset : offset + limit]
    ]
    return JSONResponse({"total": len(events), "answers": lines})


@router.get("/events", response_class=StreamingResponse, responses=contents("text/event-stream"))
def get_events(opened: Opened, last_event_id: Annotated[str | None, Header()] = None) -> StreamingResponse:
    """What happens, as server-sent events: ``state``, ``model`` and ``answer``."""
    stream = opened.stream
    first = stream.message("state", opened.state())
    return StreamingResponse(
        stream.listen(last_event_id, first),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


@router.get("/map", response_class=Response, responses=contents("application/octet-stream"))
def get_map(opened: Opened, version: int | None = None) -> Response:
    """All rows with places, groups and confidence, as little-endian binary."""
    return Response(Payloads(opened).map(), media_type="application/octet-stream")


@router.get("/groups", response_model=list[schemas.GroupDetails])
def get_groups(opened: Opened) -> Any:
    """All groups, the largest first."""
    return JSONResponse(Payloads(opened).groups())


@router.get("/search", response_model=list[schemas.Found])
def get_search(
    opened: Opened,
    q: Annotated[str, Query(max_length=500)],
    limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 50,
) -> Any:
    """Rows that hold some words."""
    if not q.strip():
        return JSONResponse([])
    shown, view = Payloads(opened), opened.view
    rows = opened.rows.search(q, limit)
    return JSONResponse([{"item": shown.item(row), "group": shown.group(view.group_of(row))} for row in rows])


@router.post("/groups/{group}/name", response_model=schemas.GroupDetails)
def post_name(opened: Opened, who: Who, group: str, body: schemas.Name) -> Any:
    """Name a group; the name stays with it from model to model."""
    view, name = opened.view, clean_name(body.name)
    place = view.position(group)
    if place is None:
        raise HTTPException(404, "that group is not there any more.")
    if not name:
        raise HTTPException(422, "a name needs at least one letter.")
    opened.give_name(group, name, person=who.name)
    return JSONResponse(Payloads(opened).group_details(view, place))


@router.post("/gestures/preview", response_model=schemas.GesturePreview)
def preview_gesture(opened: Opened, body: schemas.GestureBody) -> Any:
    """What a gesture will write."""
    plan, shown = opened.plan(body.fields()), Payloads(opened)
    taken = [{"number": one.number, "summary": shown.summary(one)} for one in plan.takes_back]
    return JSONResponse({"sentence": plan.sentence, **count_links(plan.stated), "takes_back": taken})


@router.post("/gestures", response_model=schemas.GestureDone)
def post_gesture(opened: Opened, who: Who, body: schemas.GestureBody) -> Any:
    """Merge, separate, split, remove or move; one undo takes it back."""
    with opened.lock:
        known = opened.record.find(body.ticket) if body.ticket else None
        if known is None:
            plan = opened.plan(body.fields())
            taken = [one.number for one in plan.takes_back]
            known = opened.gesture(who.name, plan.gesture, takes_back=taken, ticket=body.ticket)
    return JSONResponse({"number": known.place, "state": opened.state()})


@router.post("/train", response_model=schemas.State)
def post_train(opened: Opened) -> Any:
    """Train now, on all that was answered."""
    opened.want_training()
    return JSONResponse(opened.state())


@router.get("/disagreements", response_model=schemas.Disagreements)
def get_disagreements(opened: Opened) -> Any:
    """Contradictions, suspected answers, people and how often they agree."""
    return JSONResponse(Payloads(opened).disagreements())


@router.get("/export/{what}", response_class=Response, responses=contents(*_TYPES.values()))
def get_export(
    opened: Opened,
    what: Literal["labels", "pairs", "model", "report"],
    format: Literal["csv", "parquet", "jsonl"] = "csv",
    escape: bool = True,
) -> Response:
    """Labels and pairs as csv, parquet or jsonl; the model as a zip; the report as html."""
    if what == "labels":
        return _file(export_labels(opened, format, escape=escape), f"labels.{format}")
    if what == "pairs":
        return _file(export_pairs(opened, format, escape=escape), f"pairs.{format}")
    if what == "model":
        return _file(export_model(opened), "model.zip")
    return _file(export_report(opened), "report.html")


@router.post("/predict", response_class=Response, responses=contents(_TYPES["csv"]))
def post_predict(opened: Opened, file: Annotated[UploadFile, File()]) -> Response:
    """The groups of new rows as csv."""
    layout = opened.rows.layout
    with uploaded(file, text=[name for name in (layout.text, layout.id) if name]) as source:
        return _file(predict_groups(opened, source), "groups.csv")


@contextmanager
def uploaded(file: UploadFile, *, text: list[str] | None = None) -> Iterator[Source]:
    """An upload as rows; the name that it came with says what it is, and nothing more."""
    given = (file.filename or "").lower()
    suffix = next((one for one in UPLOAD_SUFFIXES if given.endswith(one)), None)
    if suffix is None:
        raise HTTPException(
            422, f"send a file whose name ends in {', '.join(UPLOAD_SUFFIXES)}; pictures in a zip."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{suffix}"
        with path.open("wb") as target:
            shutil.copyfileobj(file.file, target)
        yield read_source(path, text=text or [], trusted=False)


def _row(opened: Labeling, row: int) -> int:
    if not 0 <= row < len(opened.rows):
        raise HTTPException(404, f"rows go from 0 to {len(opened.rows) - 1}.")
    return row


def _file(content: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)
