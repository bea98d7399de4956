"""What a client is told when something is wrong: a status, and a body as OpenAI's (R34)."""

from collections.abc import Mapping
from typing import Any

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    499: "request_cancelled",
    503: "service_unavailable_error",
}


class ApiError(Exception):
    """An answer that is an error. `code` is a word for programs, `param` the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "api_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def is_anthropic(path: str) -> bool:
    """Tell whether clients of Anthropic's API ask at a path."""
    return path == "/v1/messages" or path.startswith("/v1/messages/")


def body_for(error: ApiError, path: str, request_id: str | None) -> dict[str, Any]:
    """Return an error in the form that clients of a path expect."""
    return anthropic_body(error, request_id) if is_anthropic(path) else error.body


def anthropic_body(error: ApiError, request_id: str | None) -> dict[str, Any]:
    kind = _ANTHROPIC_TYPES.get(error.status, "api_error")
    where = f"{error.param}: " if error.param and error.param not in error.message else ""
    told = {"type": kind, "message": where + error.message}
    return {"type": "error", "error": told, "request_id": request_id}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def unavailable(message: str, code: str) -> ApiError:
    return ApiError(503, message, code=code, headers={"Retry-After": "1"})


def of_request(error: Exception) -> ApiError:
    """Return what a client is told of an exception that its own request met."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValueError):  # the packages' errors of usage are all ValueErrors
        return invalid(" ".join(str(error).split()))
    return ApiError(500, "The request failed inside the server; its log says why.", code="internal")
