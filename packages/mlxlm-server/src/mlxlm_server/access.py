"""Who may ask what: keys, origins, hosts, the size of bodies; request ids."""

import hashlib
import hmac
import json
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlxlm_server.errors import ApiError, body_for
from mlxlm_server.requestlog import CURRENT, Entry

OPEN_PATHS = ("/health",)
"""What needs no key."""


class Access:
    """Checks a request before anything reads it, and gives it an id (`X-Request-Id`)."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: tuple[str, ...],
        max_body_bytes: int,
        origins: tuple[str, ...] = (),
        hosts: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._keys = [_digest(key.encode()) for key in keys]
        self._most = max_body_bytes
        self._origins = frozenset(origins)
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        request_id = uuid4().hex
        scope["request_id"] = request_id
        entry = Entry(request_id, scope["method"], scope["path"])
        CURRENT.set(entry)
        begun = False
        status: int | None = None
        over: list[ApiError] = []

        async def tagged(message: Message) -> None:
            nonlocal begun, status
            if message["type"] == "http.response.start":
                begun, status = True, message["status"]
                # Anthropic's clients look for the second.
                extra = [(name, request_id.encode()) for name in (b"x-request-id", b"request-id")]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        async def checked(message: Message) -> None:
            """Send what the application answers, but of a body over the limit just that."""
            if not over:
                await tagged(message)
            elif not begun:  # whoever read the body took the error for its own
                await answer(over[0], scope, tagged)

        try:
            self._check_host(headers)
            self._check_origin(headers)
            self._check_key(scope, headers)
            self._check_length(_length(headers))
            await self._app(scope, self._bounded(receive, over), checked)
        except ApiError as error:
            if begun:
                raise
            await answer(error, scope, tagged)
        finally:
            entry.answered(status)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a name that a page has made this machine's, to ask as if from there."""
        host = _host(headers.get(b"host", b"").decode("latin-1"))
        if self._hosts and "*" not in self._hosts and host not in self._hosts:
            raise ApiError(
                403,
                "The header Host names none of this server's hosts (--allowed-hosts).",
                code="host_not_allowed",
            )

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse pages of other origins: some may ask without a browser's leave (CORS)."""
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or "*" in self._origins or origin in self._origins:
            return
        if origin.partition("://")[2] != headers.get(b"host", b"").decode("latin-1"):
            raise ApiError(
                403,
                "Pages of this origin may not ask here (--allowed-origins).",
                code="origin_not_allowed",
            )

    def _check_key(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if not self._keys or scope["path"] in OPEN_PATHS:
            return
        given = headers.get(b"x-api-key", b"")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer":
            given = token.strip()
        # Every key is compared, in a time that says nothing of how much of it is right.
        right = [hmac.compare_digest(_digest(given), key) for key in self._keys]
        if not any(right):
            raise ApiError(
                401,
                "A key is needed: send Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _check_length(self, length: int) -> None:
        if length > self._most:
            raise ApiError(
                413, f"The body is larger than {self._most} bytes.", code="body_too_large"
            )

    def _bounded(self, receive: Receive, over: list[ApiError]) -> Receive:
        size = 0

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                try:
                    self._check_length(size)
                except ApiError as error:
                    over.append(error)
                    raise
            return message

        return bounded


def _digest(key: bytes) -> bytes:
    """Return as many bytes for every key, so that their number says nothing either."""
    return hashlib.sha256(key).digest()


def _length(headers: dict[bytes, bytes]) -> int:
    given = headers.get(b"content-length", b"0")
    if not given.isdigit():
        raise ApiError(400, "The header Content-Length is no number.")
    return int(given)


def _host(header: str) -> str:
    """Return the header Host without its port, and without the brackets of an IPv6."""
    name = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    return name.lower()


async def answer(error: ApiError, scope: Scope, send: Send) -> None:
    body = json.dumps(body_for(error, scope["path"], scope["request_id"])).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    headers |= {name.lower(): value for name, value in error.headers.items()}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
