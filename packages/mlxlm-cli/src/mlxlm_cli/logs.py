"""Notices on stderr: ours from the level asked for, other libraries' from warnings up."""

import json
import logging
import sys
import warnings
from datetime import UTC, datetime
from typing import Any


class _Plain(logging.Formatter):
    """The message alone for notices, with its level in front where it is a warning."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


class _Timed(_Plain):
    """With the time in front (UTC), for what runs for days."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {super().format(record)}"


class _Json(logging.Formatter):
    """An object a line: time, level, logger, message, and the record's `fields` if any."""

    def format(self, record: logging.LogRecord) -> str:
        shown: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "fields", None)
        shown |= {"message": record.getMessage()} if fields is None else fields
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        return json.dumps(shown, ensure_ascii=False, default=str)


_FORMATTERS = {"plain": _Plain, "text": _Timed, "json": _Json}


def set_up(level: str, form: str = "plain") -> None:
    """Send log records and Python warnings to stderr. Replaces what was set up before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTERS[form]("%(message)s"))
    everything = level == "DEBUG"
    logging.basicConfig(
        level=level if everything else max(logging.getLevelName(level), logging.WARNING),
        handlers=[handler],
        force=True,
    )
    for name in ("cache", "sample", "models", "generate", "server", "cli"):
        logging.getLogger(f"mlxlm_{name}").setLevel(level)
    logging.captureWarnings(True)
    warnings.formatwarning = _message_only
    if not sys.warnoptions and not everything:
        warnings.filterwarnings("ignore", category=DeprecationWarning)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message_only(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    return str(message)
