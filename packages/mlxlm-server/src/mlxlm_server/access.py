"""Who may ask what: keys, the size of bodies, request ids."""

import hmac
import json
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlxlm_server.errors import ApiError, body_for

OPEN_PATHS = ("/health",)
"""What needs no key."""


class Access:
    """Checks a request before anything reads it, and gives it an id (`X-Request-Id`)."""

    def __init__(self, app: ASGIApp, *, keys: tuple[str, ...], max_body_bytes: int) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._most = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        request_id = uuid4().hex
        scope["request_id"] = request_id
        begun = False
        over: list[ApiError] = []

        async def tagged(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
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
            self._check_key(scope, headers)
            self._check_length(int(headers.get(b"content-length", b"0") or b"0"))
            await self._app(scope, self._bounded(receive, over), checked)
        except ApiError as error:
            if begun:
                raise
            await answer(error, scope, tagged)
        except ValueError:
            if begun:
                raise
            wrong = ApiError(400, "The header Content-Length is no number.")
            await answer(wrong, scope, tagged)

    def _check_key(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        preflight = scope["method"] == "OPTIONS" and b"origin" in headers
        if not self._keys or scope["path"] in OPEN_PATHS or preflight:
            return
        given = headers.get(b"x-api-key", b"")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer":
            given = token.strip()
        # Every key is compared, in a time that says nothing of how much of it is right.
        right = [hmac.compare_digest(given, key) for key in self._keys]
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


async def answer(error: ApiError, scope: Scope, send: Send) -> None:
    body = json.dumps(body_for(error, scope["path"], scope["request_id"])).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    headers |= {name.lower(): value for name, value in error.headers.items()}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
