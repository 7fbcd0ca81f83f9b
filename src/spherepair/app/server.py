"""The server of ``spherepair label``: who comes in, the page, projects and uploads; started and stopped here.

Routes of one open project are in :mod:`spherepair.app.routes`. The API describes itself at
``/api/openapi.json``.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import mimetypes
import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import torch
import uvicorn
from fastapi import Depends, FastAPI, File, Form, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.exceptions import HTTPException
from threadpoolctl import threadpool_limits

from spherepair import __version__
from spherepair.app import routes, schemas
from spherepair.app.open_project import ClosedCardError
from spherepair.app.project_rows import Layout, Rows, Source, column_kinds, picture_type, suggest_layout
from spherepair.app.projects import Projects
from spherepair.app.security import COOKIE, Door, Guard, Session, clean_name, is_loopback, same_text
from spherepair.errors import InvalidParameterError, RecordError, SpherePairError

DEFAULT_PORT = 8765
PAGE = Path(__file__).parent / "page"
#: Seconds that a wrong password costs.
WRONG_PASSWORD_SECONDS = 1.0
#: How long a connection stays open between two requests: people think before they answer.
THINKING_SECONDS = 75
_COOKIE_DAYS = 90
#: What comes with a request, for the description of the API; :class:`Door` looks at it.
_TOKEN = HTTPBearer(auto_error=False, description="The token of the link.")
_COOKIE = APIKeyCookie(
    name=COOKIE, auto_error=False, description="Set by the link. Changes need the header X-CSRF too."
)
_STRANGER = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>spherepair label</title>
</head><body><h1>spherepair label</h1>{}</body></html>"""
_USE_LINK = "<p>Use the link that was printed when the server was started: it holds a token.</p>"
_LOG_IN = """<form method="post" action="/login"><p>{}<label>Password
<input type="password" name="password" autocomplete="current-password" autofocus></label>
<button>Log in</button></p></form>"""
_NO_PAGE = (
    "<p>The page is not part of this installation; the API is at /api, described at /api/openapi.json.</p>"
)


def default_home() -> Path:
    """Where projects lie unless another folder is given: the user's folder for data on this system."""
    if "SPHEREPAIR_PROJECTS" in os.environ:
        return Path(os.environ["SPHEREPAIR_PROJECTS"])
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "spherepair" / "projects"


def serve(
    projects: Projects,
    door: Door,
    *,
    port: int | None,
    project: str | None,
    announce: Callable[[str], None],
    open_browser: bool,
) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    projects : Projects
    door : Door
    port : int, optional
        A free one near the default if not given.
    project : str, optional
        Project that the link leads to.
    announce : callable
        Gets the link.
    open_browser : bool
    """
    connection = bind(door.host, port)
    address = connection.getsockname()
    host = "127.0.0.1" if is_loopback(door.host) else door.host
    shown = f"[{host}]" if ":" in host else host
    link = f"http://{shown}:{address[1]}/"
    if door.password is None and door.proxy_header is None:
        link += f"?token={door.token}"
    link += f"#/{project}" if project is not None else ""
    config = uvicorn.Config(
        create_app(projects, door),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=THINKING_SECONDS,
        timeout_graceful_shutdown=2,
    )
    torch.set_num_threads(1)  # many small questions: threads that wait for each other only delay them
    threadpool_limits(1)
    give_back_memory()
    # Nobody should wait while what was imported is searched for garbage, or for a thread that computes.
    gc.freeze()
    sys.setswitchinterval(0.0005)
    announce(link)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [link]).start()
    uvicorn.Server(config).run(sockets=[connection])


def give_back_memory() -> None:
    """What reading a file took, and no longer needs, goes back to the machine."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if trim is not None:
            trim(0)


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens on a port; without one, on the first free one from the default on."""
    wanted = range(DEFAULT_PORT, DEFAULT_PORT + 50) if port is None else [port]
    for one in wanted:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            connection.bind((host, one))
            connection.listen(2048)  # whoever comes now waits until the server is up
            return connection
        except OSError as error:
            connection.close()
            reason = error.strerror
    raise InvalidParameterError(
        f"the server cannot listen on {host} port {port} ({reason}); give another port."
    )


def create_app(projects: Projects, door: Door) -> FastAPI:
    """The server as an ASGI application.

    Parameters
    ----------
    projects : Projects
    door : Door
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        projects.close()

    app = FastAPI(
        title="spherepair label",
        version=__version__,
        summary="Questions about rows, answers, groups.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(_TOKEN), Depends(_COOKIE)],
        responses=routes.refusals(400, 401, 403, 413, 422, 503),
    )
    app.state.projects, app.state.door = projects, door
    app.add_middleware(Guard, door=door)
    _add_errors(app)
    _add_page(app)
    _add_session(app)
    _add_projects(app)
    app.include_router(routes.router)
    return app


def _add_errors(app: FastAPI) -> None:
    """Every error is one sentence."""

    @app.exception_handler(SpherePairError)
    async def ours(request: Request, error: SpherePairError) -> JSONResponse:
        status = 422
        if isinstance(error, ClosedCardError):
            status = 409
        elif isinstance(error, RecordError):
            status = 503
        return JSONResponse({"error": str(error)}, status)

    @app.exception_handler(RequestValidationError)
    async def bad_body(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"error": f"{place or 'the body'}: {first['msg']}."}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


def _add_page(app: FastAPI) -> None:
    files = _page_files()

    @app.get("/", include_in_schema=False)
    def index(request: Request, token: str | None = None) -> Response:
        door: Door = app.state.door
        session = door.session(request)
        if token is not None and same_text(token, door.token) and door.proxy_header is None:
            reply: Response = RedirectResponse("/", 303)
            return _with_cookie(reply, request, session or _new_session())
        if session is None:
            body = _LOG_IN.format("") if door.password else _USE_LINK
            return HTMLResponse(_STRANGER.format(body), 401)
        content = files.get("index.html")
        return HTMLResponse(content if content is not None else _STRANGER.format(_NO_PAGE))

    @app.post("/login", include_in_schema=False)
    def log_in(request: Request, password: Annotated[str, Form()] = "") -> Response:
        door: Door = app.state.door
        if not door.password or not same_text(password, door.password):
            time.sleep(WRONG_PASSWORD_SECONDS)
            return HTMLResponse(_STRANGER.format(_LOG_IN.format("That was not it. ")), 401)
        return _with_cookie(RedirectResponse("/", 303), request, _new_session())

    @app.get("/assets/{name:path}", include_in_schema=False)
    def asset(name: str) -> Response:
        content = files.get(f"assets/{name}")
        if content is None:
            raise HTTPException(404, "there is no such file.")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    @app.get("/api/openapi.json", include_in_schema=False)
    def description(_: routes.Who) -> JSONResponse:
        return JSONResponse(app.openapi())


def _add_session(app: FastAPI) -> None:
    @app.get("/api/session")
    def get_session(who: routes.Who) -> schemas.SessionState:
        """The person in this browser, and the value that changes have to carry."""
        door: Door = app.state.door
        return schemas.SessionState(person=who.person, csrf=door.csrf(who), version=__version__)

    @app.post("/api/session", response_model=schemas.SessionState, responses=routes.refusals(409))
    def set_session(body: schemas.Person, request: Request, who: routes.Who) -> Response:
        """Say who sits in front of the page."""
        if who.is_fixed:
            raise HTTPException(409, "the proxy says who you are.")
        session = Session(
            who.sid if not who.is_api else secrets.token_hex(8), clean_name(body.person) or None
        )
        door: Door = app.state.door
        state = {"person": session.person, "csrf": door.csrf(session), "version": __version__}
        return _with_cookie(JSONResponse(state), request, session)


def _add_projects(app: FastAPI) -> None:
    projects: Projects = app.state.projects

    @app.get("/api/projects")
    def list_projects(_: routes.Who) -> list[schemas.ProjectLine | schemas.DamagedProject]:
        """All projects, the newest first; at the end those that cannot be read."""
        found, damaged = projects.list_all()
        return [
            *(schemas.ProjectLine(**projects.summary(one)) for one in found),
            *(schemas.DamagedProject(id=name, problem=problem) for name, problem in damaged.items()),
        ]

    @app.post("/api/projects")
    def upload(
        _: routes.Who,
        file: Annotated[UploadFile, File()],
        *,
        name: Annotated[str, Form()] = "",
        text: Annotated[str | None, Form()] = None,
        images: Annotated[str | None, Form()] = None,
        id: Annotated[str | None, Form()] = None,
        chosen: Annotated[bool, Form()] = False,
    ) -> schemas.ProjectLine:
        """Make a project of a csv, json lines or parquet file, or of a zip of pictures.

        Columns that are not given are guessed, unless they are ``chosen``.
        """
        with routes.uploaded(file, text=[one for one in (text, id) if one]) as source:
            details = projects.create(
                source,
                name=name or Path(file.filename or "").stem,
                text=text,
                images=images,
                id_column=id,
                guess=not chosen,
            )
        return schemas.ProjectLine(**projects.summary(details))

    @app.post("/api/preview", response_model=schemas.Preview)
    def preview(
        _: routes.Who,
        file: Annotated[UploadFile, File()],
        *,
        text: Annotated[str | None, Form()] = None,
        images: Annotated[str | None, Form()] = None,
        id: Annotated[str | None, Form()] = None,
        chosen: Annotated[bool, Form()] = False,
    ) -> Any:
        """What a project of a file would look like; nothing is kept."""
        with routes.uploaded(file, text=[one for one in (text, id) if one]) as source:
            layout = suggest_layout(source, text=text, images=images, id_column=id, guess=not chosen)
            return {
                "columns": [
                    {"name": column, "kind": kind, "examples": _examples(source.table, column)}
                    for column, kind in column_kinds(source.table).items()
                ],
                "suggested": {"text": layout.text, "images": layout.images, "id": layout.id},
                "items": _preview_items(source, layout),
            }


def _examples(table: pa.Table, column: str) -> list[str]:
    values = table[column].slice(0, 3).to_pylist()
    return [str(value)[:80] for value in values if value is not None]


def _preview_items(source: Source, layout: Layout, count: int = 5) -> list[dict[str, Any]]:
    """The first rows as cards, pictures inside them."""
    rows = Rows(Path(), layout, source.table.slice(0, count))
    items = [rows.item(row, url="") for row in range(len(rows))]
    for row, item in enumerate(items):
        content = None if source.pictures is None else source.pictures[row]
        item["image"] = None if content is None else _data_uri(content, row)
    return items


def _data_uri(content: bytes, row: int) -> str:
    return f"data:{picture_type(content, row)};base64,{base64.b64encode(content).decode()}"


def _new_session() -> Session:
    return Session(secrets.token_hex(8))


def _with_cookie(reply: Response, request: Request, session: Session) -> Response:
    door: Door = request.app.state.door
    reply.set_cookie(
        COOKIE,
        door.cookie(session),
        max_age=_COOKIE_DAYS * 86400,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return reply


def _page_files() -> dict[str, bytes]:
    """The page that was built ahead; only these files are ever served."""
    if not PAGE.is_dir():
        return {}
    return {
        file.relative_to(PAGE).as_posix(): file.read_bytes() for file in PAGE.rglob("*") if file.is_file()
    }
