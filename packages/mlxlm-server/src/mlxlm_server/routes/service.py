"""What the server says of itself."""

import re
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from mlxlm_server.errors import ApiError, unavailable
from mlxlm_server.server import server_of

router = APIRouter()


@router.get("/health")
async def health(http: Request) -> dict[str, str]:
    """Say that the process answers; 503 while an engine that died or stalled is not back."""
    if not server_of(http).pool.healthy:
        raise unavailable("An engine died or stalled and is not back.", "engine_failed")
    return {"status": "ok"}


@router.get("/ready")
async def ready(http: Request) -> dict[str, str]:
    """Say whether a request would be served now; 503 where not."""
    if not server_of(http).pool.ready:
        raise unavailable("No engine is ready.", "engine_not_ready")
    return {"status": "ready"}


@router.get("/metrics")
async def metrics(http: Request) -> Response:
    """Return counts in Prometheus' text format."""
    server = server_of(http)
    return Response(
        server.metrics.page(server.pool), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


@router.get("/v1/models")
async def models(http: Request) -> dict[str, Any]:
    """List the names that requests may ask for."""
    pool = server_of(http).pool
    created = {loaded.name: loaded.created for loaded in pool.loaded}
    data = [
        {"id": name, "object": "model", "created": created.get(name, 0), "owned_by": "mlxlm"}
        for name in pool.names
    ]
    return {"object": "list", "data": data}


class Cancel(BaseModel):
    """The id of an answer, as its chunks have it, or of a request (`X-Request-Id`)."""

    id: str


@router.post("/v1/cancel")
async def cancel(http: Request, body: Cancel) -> dict[str, Any]:
    """End a request within one step of its engine."""
    if not server_of(http).cancel(re.split("[-_]", body.id)[-1]):
        raise ApiError(404, "No request of this id is under way.", code="not_under_way", param="id")
    return {"id": body.id, "cancelled": True}
