"""Serving over a socket."""

import asyncio
import ipaddress
import logging
import math
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn

from mlxlm_server.app import create_app
from mlxlm_server.listen import check_certificate, listen, shown
from mlxlm_server.server import Server
from mlxlm_server.settings import ServerSettings

_LOCAL = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE = 5  # seconds for what has been told to end to say so


def serve(
    settings: ServerSettings,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    patience: float = 30.0,
) -> None:
    """Serve until a signal (SIGINT, SIGTERM), and return once all is put away.

    Then no more is taken; requests under way have `patience` seconds, and status 503 after
    that; prefixes are written to the disk cache. A second signal ends the process at once,
    with status 128 and the signal's number. `certificate` and `key` are PEM files for TLS.

    Raises OSError for an address that can't be had, ValueError for a certificate that is
    none, and RuntimeError where the first model can't be loaded. Logs a warning where
    others than this machine can ask and no API key is set; where none can, and none of
    `allowed_hosts` is given, requests have to name this machine (localhost, 127.0.0.1, ::1).
    """
    check_certificate(certificate, key)
    sockets = listen(host, port)
    if not settings.api_keys and not is_loopback(host):
        log.warning("%s can be reached from other machines, and no API key is set", host)
    if not settings.api_keys and not settings.allowed_hosts and is_loopback(host):
        # A page whose name was made to mean this machine is no longer of another origin.
        settings = replace(settings, allowed_hosts=(*_LOCAL, host.lower()))
    app = create_app(settings)
    state: Server = app.state.server
    config = uvicorn.Config(
        app,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=math.ceil(patience) + _GRACE,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
    )
    scheme = "http" if certificate is None else "https"
    log.info("listening on %s", ", ".join(f"{scheme}://{shown(each)}" for each in sockets))
    process = _Process(config, state, patience)
    in_main = threading.current_thread() is threading.main_thread()  # others can't have handlers
    before = {each: signal.getsignal(each) for each in (_SIGNALS if in_main else ())}
    try:
        for each in before:
            signal.signal(each, process.handle_exit)
        process.run(sockets)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for listening in sockets:
            listening.close()
    if state.failure is not None:
        name = settings.models[0]
        raise RuntimeError(f"the model {name!r} can't be loaded: {state.failure}") from (
            state.failure
        )


class _Process(uvicorn.Server):
    """uvicorn's server, which ends as `serve` says."""

    def __init__(self, config: uvicorn.Config, state: Server, patience: float) -> None:
        super().__init__(config)
        self._state = state
        self._patience = patience
        self._asked = False
        state.must_load = True

    async def serve(self, sockets: Any = None) -> None:
        # uvicorn's own would set its handlers, and raise the signal once more at the end.
        await self._serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._asked:
            _leave(128 + sig)
        self._asked = self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._state.failure is not None

    async def shutdown(self, sockets: Any = None) -> None:
        if self._state.runs:
            log.info(
                "stopping: %d requests under way have %g s; a second signal stops at once",
                len(self._state.runs),
                self._patience,
            )
        expiry = asyncio.get_running_loop().call_later(self._patience, self._state.end_runs)
        try:
            await super().shutdown(sockets)
        finally:
            expiry.cancel()


def _leave(status: int) -> NoReturn:
    # Anything gentler waits for threads, and one of them may be loading a model.
    os._exit(status)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address; names but localhost count as open."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
