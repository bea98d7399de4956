"""One line of the log for each request."""

import json
import logging
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

log = logging.getLogger("mlxlm_server.requests")

_PROBES = ("/health", "/ready", "/metrics")
"""Asked by machines every few seconds."""


@dataclass
class Entry:
    """A request, from its first byte on. What generates has a line of its own when it ends."""

    id: str
    method: str
    path: str
    arrived: float = field(default_factory=monotonic)
    generates: bool = False

    def answered(self, status: int | None) -> None:
        """Write the line of a request that has not come to generate."""
        if self.generates:
            return
        seconds = round(monotonic() - self.arrived, 4)
        probe = self.path in _PROBES and status == 200
        write(
            {"request_id": self.id, "method": self.method, "path": self.path}
            | {"status": status or "none", "seconds": seconds},
            logging.DEBUG if probe else logging.INFO,
        )


CURRENT: ContextVar[Entry | None] = ContextVar("request", default=None)


def arrival() -> float:
    """Return when the current request arrived, or now where there is none."""
    entry = CURRENT.get()
    return monotonic() if entry is None else entry.arrived


def generates() -> None:
    """Say that the current request's line is written by whoever ends its answers."""
    if (entry := CURRENT.get()) is not None:
        entry.generates = True


def path() -> str | None:
    """Return the current request's path."""
    entry = CURRENT.get()
    return None if entry is None else entry.path


def write(fields: dict[str, Any], level: int = logging.INFO) -> None:
    """Write `fields` as one line; handlers find them as the record's `fields`."""
    shown = (f"{name}={_plain(value)}" for name, value in fields.items() if value is not None)
    log.log(level, "%s", " ".join(shown), extra={"fields": fields})


def _plain(value: Any) -> str:
    """Quote what would break the line: clients choose paths."""
    text = str(value)
    simple = text.isascii() and text.isprintable() and not set(text) & set(' "=\\')
    return text if simple else json.dumps(text)
