"""Who may talk to the server: a token in the link, a password, or a proxy that has checked already.

A person has a signed cookie that scripts cannot read and other sites cannot send. Requests that change
something also need a value that only the page can know. Every reply forbids scripts from elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import os
import secrets
import unicodedata
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spherepair import __version__
from spherepair.app.database import LONGEST_NAME
from spherepair.errors import InvalidParameterError, bug_sentence, quoted

logger = logging.getLogger(__name__)

COOKIE, CSRF_HEADER, PERSON_HEADER = "spherepair", "X-CSRF", "X-Person"
#: Bodies that are not uploads are small.
MOST_JSON = 2**20
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the first link holds the token
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_UPLOADS = ("/api/projects", "/api/preview")


@dataclass(frozen=True)
class Door:
    """What lets people in.

    Parameters
    ----------
    host : str
        Address that the server listens on.
    token : str
        Of the link that is printed.
    secret : bytes
        Signs cookies; kept between starts, so that nobody has to log in again.
    password : str, optional
    proxy_header : str, optional
        Header in which a proxy says who it let in.
    upload_limit : int
        Bytes of one upload.
    """

    host: str = "127.0.0.1"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    password: str | None = None
    proxy_header: str | None = None
    upload_limit: int = 2**30

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.password and not self.proxy_header:
            raise InvalidParameterError(
                f"host {self.host} can be reached from other machines: give a password (or the header in "
                "which a proxy names who it let in), or leave the host out to listen on this machine only."
            )

    def session(self, request: Request) -> Session | None:
        """Who asks; ``None`` for a stranger."""
        if self.proxy_header is not None:
            name = clean_name(request.headers.get(self.proxy_header, ""))
            return Session(sid=f"proxy {name}", person=name, is_fixed=True) if name else None
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and same_text(given.strip(), self.token):
            return Session("bearer", clean_name(request.headers.get(PERSON_HEADER, "")) or None, is_api=True)
        return self.read_cookie(request.cookies.get(COOKIE, ""))

    def read_cookie(self, value: str) -> Session | None:
        """The session in a cookie that this server has signed."""
        body, _, signature = value.partition(".")
        if not same_text(signature, self._sign("cookie", body)):
            return None
        content = json.loads(urlsafe_b64decode(body))
        return Session(str(content["sid"]), content["person"])

    def cookie(self, session: Session) -> str:
        """A signed cookie."""
        content = json.dumps({"sid": session.sid, "person": session.person})
        body = urlsafe_b64encode(content.encode()).decode()
        return f"{body}.{self._sign('cookie', body)}"

    def csrf(self, session: Session) -> str:
        """The value that requests of this session have to carry when they change something."""
        return self._sign("csrf", session.sid)

    def is_forged(self, request: Request, session: Session) -> bool:
        """Whether a request that changes something may come from another site."""
        if request.method in ("GET", "HEAD") or session.is_api:
            return False
        return not same_text(request.headers.get(CSRF_HEADER, ""), self.csrf(session))

    def enter(self, request: Request) -> Session:
        """Who asks; strangers and forged requests are refused."""
        session = self.session(request)
        if session is None:
            raise HTTPException(
                401, "log in first: use the link that was printed, or send its token as Bearer."
            )
        if self.is_forged(request, session):
            raise HTTPException(
                403, "the header X-CSRF is missing or wrong; GET /api/session gives its value."
            )
        return session

    def _sign(self, purpose: str, text: str) -> str:
        return sign(self.secret, purpose, text)


@dataclass(frozen=True)
class Session:
    """One browser or program, and the person in front of it.

    Attributes
    ----------
    sid : str
    person : str or None
    is_api : bool
        Came with the token in a header, as programs do.
    is_fixed : bool
        A proxy says who it is.
    """

    sid: str
    person: str | None = None
    is_api: bool = False
    is_fixed: bool = False

    @property
    def name(self) -> str:
        """Who answers; a browser without a name is a guest of its own."""
        return self.person or f"guest {hashlib.sha256(self.sid.encode()).hexdigest()[:4]}"


class Guard:
    """Adds the headers to every reply; refuses foreign names of the host and bodies that are too large.

    Uploads of strangers are refused before they are read. A mistake of ours is one sentence, here and on the
    terminal.
    """

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, reply = Request(scope), _Reply(send)
        limit = self.door.upload_limit if _is_upload(scope["path"]) else MOST_JSON
        refusal = self._refusal(request, limit)
        if refusal is None:
            reply.body = body = _Limited(receive, limit)
            try:
                await self.app(scope, body, reply)
            except Exception as error:
                if not body.is_over:
                    refusal = self._fail(error, request)
            if body.is_over:
                refusal = 413, _too_large(limit)
            reply.body = None
        if refusal is not None and not reply.has_begun:
            await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, reply)

    def _refusal(self, request: Request, limit: int) -> tuple[int, str] | None:
        """Status and sentence, where nothing of the body has to be read to know."""
        if not self._is_own_name(request.headers.get("host", "")):
            return 400, "this server does not go by that name."
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > limit:
            return 413, _too_large(limit)
        if request.method == "POST" and _is_upload(request.url.path):
            try:
                self.door.enter(request)
            except HTTPException as refused:
                return refused.status_code, refused.detail
        return None

    def _fail(self, error: Exception, request: Request) -> tuple[int, str]:
        sentence = bug_sentence(error, f"{__version__}: {request.method} {quoted(request.url.path)}")
        logger.error("%s", sentence)
        return 500, "something went wrong in the server; its terminal says what."

    def _is_own_name(self, host: str) -> bool:
        """Another site may point its own name to this machine (DNS rebinding)."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if not is_loopback(self.door.host):
            return True
        return name in ("localhost", "testserver") or is_loopback(name.strip("[]"))


class _Reply:
    """Adds the headers to a reply, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send, self.has_begun = send, False
        self.body: _Limited | None = None

    async def __call__(self, message: Message) -> None:
        if self.body is not None and self.body.is_over:
            return  # what the application made of half a body
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


class _Limited:
    """Counts the bytes of a body as they come in; one that turns out too long is cut off."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit
        self.is_over = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.is_over = True
            return {"type": "http.disconnect"}
        return message


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def sign(secret: bytes, purpose: str, text: str) -> str:
    """What only those who know the secret can write under a text."""
    return hmac.new(secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def same_text(given: str, expected: str) -> bool:
    """Comparison that takes as long whatever is given."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def clean_name(text: Any) -> str:
    r"""A name that is safe to keep: no control characters, no direction marks, not too long.

    Examples
    --------
    >>> clean_name(" ann\x00\u202e ")
    'ann'
    """
    plain = str(text).encode("utf-8", "replace").decode()
    kept = (mark if not mark.isspace() else " " for mark in plain if not _steers(mark))
    return "".join(kept).strip()[:LONGEST_NAME]


def read_secret(home: Path) -> bytes:
    """The key that signs cookies; made on the first start."""
    file = home / "secret"
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        found = file.read_bytes()
        if len(found) >= 32:
            return found
        file.unlink()
        return read_secret(home)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(secrets.token_bytes(32))
    return file.read_bytes()


def _steers(mark: str) -> bool:
    """Control and format characters, among them those that turn the direction of what follows."""
    return unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Co", "Cn") and not mark.isspace()


def _is_upload(path: str) -> bool:
    return path in _UPLOADS or path.endswith("/predict")


def _too_large(limit: int) -> str:
    return f"that is more than the {max(1, limit // 2**20):,} MiB that this server takes."
