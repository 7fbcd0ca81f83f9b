"""``spherepair label``: the page on which people group their rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from spherepair.cli import options
from spherepair.cli.terminal import command_terminal
from spherepair.errors import InvalidParameterError, MissingDependencyError
from spherepair.files.places import is_many

#: The password may come from here, so that no list of processes shows it.
PASSWORD_VARIABLE = "SPHEREPAIR_PASSWORD"
#: A token of one's own, for programs that start the server.
TOKEN_VARIABLE = "SPHEREPAIR_TOKEN"
LABEL_KINDS = "csv or parquet, a folder, glob or URI of these; jsonl; a folder or zip of pictures"


def label(
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help=f"Rows: {LABEL_KINDS}.", show_default="the projects there are"),
    ] = None,
    *,
    text: Annotated[str | None, typer.Option("--text", metavar="COLUMN", help="Column with texts.")] = None,
    images: Annotated[
        str | None, typer.Option("--images", metavar="COLUMN", help="Column with picture files.")
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="ID column.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Try it on pictures of digits.")] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port.", show_default="8765 or next"),
    ] = None,
    password: Annotated[
        str | None,
        typer.Option("--password", envvar=PASSWORD_VARIABLE, help="Password, needed for other hosts."),
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option("--proxy-header", metavar="NAME", help="Header in which a proxy says who it let in."),
    ] = None,
    projects: Annotated[
        Path | None,
        typer.Option("--projects", metavar="DIR", help="Folder of projects.", show_default="the user's"),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="Database for the answers.", show_default="a file"),
    ] = None,
    upload_limit: Annotated[
        int, typer.Option("--upload-limit", metavar="MB", min=1, help="Largest upload.")
    ] = 1024,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    seed: options.SeedOption = 0,
    quiet: options.QuietOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Group rows in a browser: answer questions, look at the groups, mend and name them.

    Nothing leaves this machine. Run the same command again to go on.
    """
    kept = "interrupted; all answers are kept. Run the same command again to go on."
    with command_terminal("label", as_json=as_json, quiet=quiet, interrupted=kept) as terminal:
        server = _import_server()
        folder = projects or server.default_home()
        limit = upload_limit * 2**20
        door = _door(
            folder, host=host, password=password or None, proxy_header=proxy_header, upload_limit=limit
        )
        with terminal.spinner("opening"):
            home = server.Projects(folder, database=database, seed=seed)
            project = _project(home, data, text=text, images=images, id_column=id_column, demo=demo)
            if project is not None:
                home.get(project)
        server.serve(
            home,
            door,
            port=port,
            project=project,
            announce=lambda link: terminal.print_result({"link": link}, [f"open        {link}"]),
            open_browser=not no_browser,
        )


def _import_server() -> Any:
    try:
        from spherepair.app import server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("spherepair"):
            raise
        raise MissingDependencyError(
            f'spherepair label needs {error.name}; pip install "spherepair[label]".'
        ) from error
    return server


def _door(home: Path, **settings: Any) -> Any:
    """Who may come in; refused before anything is opened."""
    from spherepair.app.security import Door, read_secret

    Door(**settings)
    home.mkdir(parents=True, exist_ok=True)
    if TOKEN_VARIABLE in os.environ:
        settings["token"] = os.environ[TOKEN_VARIABLE]
    return Door(secret=read_secret(home), **settings)


def _project(
    home: Any, data: str | None, *, text: str | None, images: str | None, id_column: str | None, demo: bool
) -> str | None:
    """The project to open: that of the data, made on the first call."""
    from spherepair.app.project_rows import read_source
    from spherepair.app.projects import demo_source, origin_of

    if demo and data is not None:
        raise InvalidParameterError("give data or --demo, not both.")
    if data is None and not demo:
        return None
    origin = "demo" if demo or data is None else origin_of(data, (text, images, id_column))
    found = home.find(origin)
    if found is None:
        if demo or data is None:
            found = home.create(demo_source(), name="Digits", origin=origin)
        else:
            source = read_source(data, text=[name for name in (text, id_column) if name])
            found = home.create(
                source, name=_name_of(data), text=text, images=images, id_column=id_column, origin=origin
            )
    return str(found.id)


def _name_of(data: str) -> str:
    """A name for a project: that of the file, or of the folder with many.

    Examples
    --------
    >>> _name_of("messages.csv"), _name_of("s3://bucket/rows?region=eu-west-1"), _name_of("rows/*.csv")
    ('messages', 'rows', 'rows')
    """
    if not is_many(data):
        return Path(data).stem
    parts = [part for part in Path(data.partition("?")[0]).parts if not any(mark in part for mark in "*[")]
    return Path(parts[-1]).stem if parts else "rows"
