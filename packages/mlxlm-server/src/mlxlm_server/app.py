"""The application: routes, error handlers, and what starts and ends with it."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from mlxlm_generate import BatchGenerator
from starlette.exceptions import HTTPException

from mlxlm_server.access import Access
from mlxlm_server.errors import ApiError, body_for, is_anthropic, of_request
from mlxlm_server.pool import Load, Pool
from mlxlm_server.routes import chat, completions, embeddings, messages, responses, service, tokens
from mlxlm_server.server import Server
from mlxlm_server.settings import ServerSettings

log = logging.getLogger(__name__)

_NAME_OF_TYPE = re.compile(r"\[|^(str|int|float|bool)$|^[A-Z]")
"""In the place of an error: not a field, but one of the types that it may have."""


def create_app(
    settings: ServerSettings,
    load: Load | None = None,
    make_generator: Callable[..., BatchGenerator] = BatchGenerator,
) -> FastAPI:
    """Return the ASGI application. The first model is loaded once it starts; see `/ready`.

    `load` takes the place of `mlxlm_models.load`: from a name and an adapter to a model and
    its tokenizer.
    """
    server = Server(settings, Pool(settings, load, make_generator))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.ensure_future(_preload(server)) if settings.models else None
        try:
            yield
        finally:
            if loading is not None:
                loading.cancel()
                await asyncio.gather(loading, return_exceptions=True)
            await server.pool.close()

    app = FastAPI(title="mlxlm", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.server = server
    for routes in (service, completions, chat, messages, responses, embeddings, tokens):
        app.include_router(routes.router)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(
        Access,
        keys=settings.api_keys,
        origins=settings.allowed_origins,
        hosts=settings.allowed_hosts,
        max_body_bytes=settings.max_body_bytes,
    )
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allowed_origins),
            allow_methods=["*"],
            allow_headers=["*"],
        )
    return app


async def _preload(server: Server) -> None:
    try:
        await server.pool.get(None)
    except ApiError as error:
        server.failure = error.__cause__ or error
        if not server.must_load:
            log.error(
                "the first model is not there (%s): /ready stays 503, and requests try again",
                server.failure,
            )


def _respond(request: Request, error: ApiError) -> JSONResponse:
    body = body_for(error, request.url.path, request.scope.get("request_id"))
    return JSONResponse(body, error.status, headers=error.headers)


async def _api_error(request: Request, error: Any) -> JSONResponse:
    if error.code in ("load_failed", "model_not_found") and error.__cause__ is not None:
        log.error("%s (%s)", error, error.__cause__)
        log.debug("where it failed:", exc_info=error.__cause__)
    return _respond(request, error)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    # Of the ways in which a field could be read, the one that got furthest was meant.
    first = max(error.errors(), key=lambda each: len(each["loc"]))
    if first["type"] == "json_invalid":
        return _respond(request, ApiError(400, "The body is no JSON.", code="invalid_json"))
    parts = [str(part) for part in first["loc"] if part != "body"]
    where = ".".join(part for part in parts if not _NAME_OF_TYPE.search(part))
    message = f"{where}: {first['msg']}." if where else f"{first['msg']}."
    status = 400 if is_anthropic(request.url.path) else 422
    return _respond(request, ApiError(status, message, code="invalid_field", param=where or None))


async def _http_error(request: Request, error: Any) -> JSONResponse:
    told = ApiError(error.status_code, f"{error.detail}.", headers=error.headers)
    return _respond(request, told)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _respond(request, of_request(RuntimeError()))
