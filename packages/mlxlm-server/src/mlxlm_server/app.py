"""The application: routes, error handlers, and what starts and ends with it."""

import asyncio
import logging
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
from mlxlm_server.errors import ApiError, of_request
from mlxlm_server.pool import Load, Pool
from mlxlm_server.routes import chat, completions, service, tokens
from mlxlm_server.server import Server
from mlxlm_server.settings import ServerSettings

log = logging.getLogger(__name__)


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
    for routes in (service, completions, chat, tokens):
        app.include_router(routes.router)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(
        Access,
        keys=settings.api_keys,
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
    except ApiError:
        log.error("the first model is not there: /ready stays 503, and requests try again")


def _respond(error: ApiError) -> JSONResponse:
    return JSONResponse(error.body, error.status, headers=error.headers)


async def _api_error(request: Request, error: Any) -> JSONResponse:
    return _respond(error)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    if first["type"] == "json_invalid":
        return _respond(ApiError(400, "The body is no JSON.", code="invalid_json"))
    message = f"{where}: {first['msg']}." if where else f"{first['msg']}."
    return _respond(ApiError(422, message, code="invalid_field", param=where or None))


async def _http_error(request: Request, error: Any) -> JSONResponse:
    return _respond(ApiError(error.status_code, f"{error.detail}.", headers=error.headers))


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _respond(of_request(RuntimeError()))
