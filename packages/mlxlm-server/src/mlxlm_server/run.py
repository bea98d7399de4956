"""Serving over a socket."""

import ipaddress
import logging
from pathlib import Path

from mlxlm_server.settings import ServerSettings

log = logging.getLogger(__name__)


def serve(
    settings: ServerSettings,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    patience: float = 30.0,
) -> None:
    """Serve until a signal ends it; requests then have `patience` seconds to finish.

    A second signal ends it at once. `certificate` and `key` are PEM files for TLS. Logs a
    warning where others than this machine can ask and no API key is set.
    """
    import uvicorn

    from mlxlm_server.app import create_app

    if not settings.api_keys and not is_loopback(host):
        log.warning("%s can be reached from other machines, and no API key is set", host)
    uvicorn.run(
        create_app(settings),
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=round(patience),
        log_config=None,
        access_log=False,
        server_header=False,
    )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address; names but localhost count as open."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
