"""Notices on stderr: ours from the level asked for, other libraries' from warnings up."""

import logging
import sys
import warnings


class _Plain(logging.Formatter):
    """The message alone for notices, with its level in front where it is a warning."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


def set_up(level: str) -> None:
    """Send log records and Python warnings to stderr. Replaces what was set up before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain("%(message)s"))
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


def _message_only(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    return str(message)
